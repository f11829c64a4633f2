package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/replay"
	"github.com/gatehouse-mcp/gatehouse/gateway/whatif"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestReplayOfFiles: what a gateway has written to its audit is replayed, by whichever of their
// ways its skills were read, and over files that were renamed.
func TestReplayOfFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "skills", "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "skills", "git", "SKILL.md"),
		[]byte("---\nname: git\ndescription: How we use git.\n---\nCommit often.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	site := newSite(t, true, one("work", saying("x")))
	text := fmt.Sprintf(`upstreams:
- {name: up, url: %q}
- {name: docs, skills: %q}
skills: {load_tool: true}
audit: {sinks: [{type: file, path: %q, max_bytes: 65536}], key: "0123456789abcdefghijklmnopqrstuv"}
policy:
  default: allow
  rules:
  - {name: kept, allow: ["tools:*"], record: {arguments: full}}
  - {name: read, allow: ["skills:*"]}
`, site.url, filepath.Join(dir, "skills"), filepath.Join(dir, "audit.jsonl"))
	c := startUnwatched(t, text)
	const rounds = 30
	made := 0
	call := func(method, name, params string) {
		made++
		observed(t, c, &mcp.Call{ID: fmt.Sprint("c", made), Method: method, Name: name, Params: mcp.Raw(params),
			Session: "alice:~1", Ephemeral: true, Revision: "new", Notify: func(mcp.Event) {}}) // the record says how it went
	}
	for range rounds {
		call(mcp.MethodToolsCall, "up__work", `{"name":"up__work","arguments":{"n":1}}`)
		call(mcp.MethodToolsCall, "up__work", `{"name":"up__work","arguments":{"n":2}}`)
		call(mcp.MethodResourcesRead, "skill://docs/git/SKILL.md", `{"uri":"skill://docs/git/SKILL.md"}`)
		call(mcp.MethodSkillsGet, "docs__git", `{"name":"docs__git"}`)
		call(mcp.MethodToolsCall, "load_skill", `{"name":"load_skill","arguments":{"name":"docs__git"}}`)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "audit-*.jsonl")); len(names) == 0 {
		t.Error("no file was renamed")
	}
	for _, tt := range []struct {
		name, old, new, key string
		same                int64
		changed             map[string]int64
	}{
		{"the same", "", "", "", 5 * rounds, nil},
		{"a skill is denied", "{name: read, allow:", "{name: read, deny:", "", 2 * rounds,
			map[string]int64{replay.Refused: 3 * rounds}},
		{"its file is asked about", "{name: read, allow: [\"skills:*\"]}", "{name: read, ask: [\"resources:*/skill://*\"]}",
			"", 2 * rounds, map[string]int64{replay.Asked: 3 * rounds}},
		{"a condition", "{name: read, allow: [\"skills:*\"]}", "{name: read, deny: [\"tools:*\"], when: args.n == 2}", "", 0,
			map[string]int64{replay.Rule: 3 * rounds, replay.Untold: 2 * rounds}},
		{"a condition, with the key", "{name: read, allow: [\"skills:*\"]}",
			"{name: read, deny: [\"tools:*\"], when: args.n == 2}", "0123456789abcdefghijklmnopqrstuv", rounds,
			map[string]int64{replay.Rule: 3 * rounds, replay.Refused: rounds}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			draft := filepath.Join(t.TempDir(), "draft.yaml")
			if err := os.WriteFile(draft, []byte(strings.Replace(text, tt.old, tt.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			q := whatif.Recorded{Draft: draft, Current: c.file}
			if tt.key != "" {
				q.Key = []byte(tt.key)
			}
			report, err := whatif.Replay(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			wrong := report.Calls != 5*rounds || report.Same != tt.same || report.Problems != nil ||
				len(report.Changed) != len(tt.changed)
			for change, n := range tt.changed {
				wrong = wrong || report.Changed[change] != n
			}
			if wrong {
				t.Errorf("%+v", report)
			}
		})
	}
}
