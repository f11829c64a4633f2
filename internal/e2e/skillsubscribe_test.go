package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestFilesOfSkillsAreSubscribedTo: a client that subscribed to a file of a directory is
// told when it changes. A client cannot subscribe to a file that it may not read.
func TestFilesOfSkillsAreSubscribedTo(t *testing.T) {
	t.Parallel()
	const updated = "notifications/resources/updated"
	const rules, stamp = "skill://pb/refunds/references/rules.md", "skill://pb/refunds/assets/stamp.png"
	for _, revision := range eras {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			dir := skillsDir(t, skillFiles)
			g := guard(t, gateway.Config{
				Upstreams: []upstream.Config{{Name: "pb", Skills: dir}},
				Policy: policy.Config{Default: policy.DefaultAllow,
					Rules: []policy.Rule{{Name: "r", Deny: []string{"resources:pb/skill://refunds/assets/*"}}}},
			})
			c := g.raw(t, revision, g.issuer.Token(nil))
			var stream *mcptest.Exchange
			var err error
			if revision == stateless {
				stream, err = c.Send(deadline(t), "subscriptions/listen",
					`{"notifications":{"resourceSubscriptions":["`+rules+`","`+stamp+`"]}}`)
			} else {
				stream, err = c.Get(deadline(t), "")
			}
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			if revision == stateless {
				if ack, err := stream.Next(); err != nil || !strings.Contains(ack.Text, `"resourceSubscriptions":["`+rules+`"]`) {
					t.Fatalf("acknowledged %s, %v", ack.Text, err)
				}
			} else {
				mustCall(t, c, "resources/subscribe", `{"uri":"`+rules+`"}`)
				refused(t, c, "resources/subscribe", `{"uri":"`+stamp+`"}`, -32002)
				refused(t, c, "resources/subscribe", `{"uri":"skill://pb/refunds/nothing.md"}`, -32002)
			}
			if err := os.WriteFile(filepath.Join(dir, "refunds/references/rules.md"), []byte("other"), 0o644); err != nil {
				t.Fatal(err)
			}
			if m, err := stream.Until(updated); err != nil || !strings.Contains(m.Text, rules) {
				t.Errorf("told %s, %v", m.Text, err)
			}
			if got := string(readFile(t, c, rules)); got != "other" {
				t.Errorf("read %q", got)
			}
		})
	}
}
