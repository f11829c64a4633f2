package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// lastRelease builds the program of the last release: the file last-release names its commit.
func lastRelease(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("last-release")
	if err != nil {
		t.Fatal(err)
	}
	commit, dir := strings.TrimSpace(string(text)), t.TempDir()
	archive := exec.CommandContext(t.Context(), "git", "archive", "--output", filepath.Join(dir, "source.tar"), commit)
	archive.Dir = "../.."
	if out, err := archive.CombinedOutput(); err != nil {
		t.Skipf("the last release, %s, is not in this clone: %v %s", commit, err, out) // as in a shallow one
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "-xf", filepath.Join(dir, "source.tar"), "-C",
		dir).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	program := filepath.Join(dir, "gatehouse")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "./cmd/gatehouse")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the last release: %v %s", err, out)
	}
	return program
}

// replace stops a replica in good order, and starts it as another version.
func (r *replica) replace(t *testing.T, program string) {
	t.Helper()
	r.signal(t, syscall.SIGTERM)
	// How the last release stops is not for this one to mend: it has once waited for a call until its time was up. Calls
	// that are lost are seen by those who made them.
	if code := r.wait(t); code != 0 && r.program == "" {
		t.Errorf("exit code %d:\n%s", code, r.log)
	}
	r.program = program
	r.start(t)
}

// TestVersionsBesideEachOther: the last release and this one share a Redis. While clients make calls, replicas are
// replaced one by one, forward and back: no call is lost, no session and no subscription ends, streams resume at
// the other version, and this one tells of both versions.
func TestVersionsBesideEachOther(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	before := lastRelease(t)
	old, newer := newWorker(t, serverRev), newWorker(t, statelessRev)
	old.Discard()
	newer.Discard()
	s := replicateAs(t, before, fmt.Sprintf(`shutdown_delay: 1s
policy: {default: allow, rules: [{name: asks, ask: ["tools:old/log"], approve_for: 1h}]}
upstreams:
- {name: old, url: %q}
- {name: new, url: %q}
`, old.URL, newer.URL), "old", "new")
	l := &load{several: s, workers: []*worker{old, newer}, mixed: true}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for _, revision := range []string{serverRev, clientRev, statelessRev} {
		c := s.client(t, revision, askable)
		all.Go(func() { l.run(ctx, t, c, revision) })
	}
	c := s.client(t, clientRev, askable)
	must(t, "a subscription", c, "resources/subscribe", `{"uri":"old+test://r"}`)
	heard := make(chan string, 100)
	all.Go(func() { l.listen(ctx, t, c, heard) })
	approve(t, c)
	for step, program := range []string{"", before} {
		for i, r := range s.replicas {
			r.replace(t, program)
			calls := l.calls.Load()
			eventually(t, "calls go on", func() bool { return l.calls.Load() > calls+20 || t.Failed() })
			if t.Failed() {
				break
			}
			// A call that began at one version is resumed at the other.
			key := fmt.Sprint("resumed-", step, "-", i)
			x := begin(t, s.at(c, i), key, "old__wait", "notifications/progress")
			x.Close()
			y, err := s.at(c, (i+1)%len(s.replicas)).Get(deadline(t), x.last)
			if err != nil {
				t.Fatal(err)
			}
			old.release(key)
			if m, err := y.Response(); err != nil || textOf(m) != "done "+key {
				t.Errorf("a resumed call: %s %v", m.Text, err)
			}
			y.Close()
			if _, approved := logged(t, s.at(c, i)); !approved {
				t.Errorf("step %d, replica %d: the approval of the other version is not known", step, i)
			}
			if mixed := i < len(s.replicas)-1; mixed {
				wantVersions(t, s)
			}
		}
	}
	for len(heard) > 0 {
		<-heard
	}
	eventually(t, "the session is still subscribed", func() bool {
		old.Push("notifications/resources/updated", `{"uri":"test://r"}`)
		return len(heard) > 0 || t.Failed()
	})
	cancel()
	all.Wait()
	l.wantFewRetries(t, 2*len(s.replicas))
	wantKinds(t, s)
}

// logged calls the tool that needs an approval, up to its answer or the question. It returns the question's id.
func logged(t *testing.T, c *mcptest.Client) (question json.RawMessage, answered bool) {
	t.Helper()
	x, err := c.Send(deadline(t), "tools/call", call("old__log", "approved"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	for {
		m, err := x.Next()
		switch {
		case err != nil || m.Error != nil:
			t.Fatalf("%s %v", m.Text, err)
		case m.IsResponse():
			return nil, true
		case m.ID != nil:
			return m.ID, false
		}
	}
}

// approve has the user approve of that call.
func approve(t *testing.T, c *mcptest.Client) {
	t.Helper()
	question, answered := logged(t, c)
	if answered {
		t.Fatal("no question was asked")
	}
	if err := c.Answer(deadline(t), question, `{"action":"accept","content":{"approve":true}}`); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the call is approved of", func() bool { _, answered := logged(t, c); return answered })
}

// wantVersions checks that replicas of this version say that there are others.
func wantVersions(t *testing.T, s *several) {
	t.Helper()
	for _, r := range s.replicas {
		if r.program != "" {
			continue
		}
		eventually(t, "both versions are known", func() bool {
			return strings.Contains(page(t, r.admin+"/readyz"), "replicas of several versions share this Redis: dev, unknown")
		})
		if text := page(t, r.admin+"/metrics"); !strings.Contains(text, `gatehouse_replicas{version="unknown"}`) {
			t.Error("the metrics do not tell of the other version")
		}
		r.log.await(t, `versions="dev unknown"`)
	}
}

func page(t *testing.T, at string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(deadline(t), http.MethodGet, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", at, resp.Status, err)
	}
	return string(text)
}

// wantKinds checks that all keys in Redis are of kinds that have a version.
func wantKinds(t *testing.T, s *several) {
	t.Helper()
	client := s.redis.Client()
	defer client.Close()
	keys := client.Keys(t.Context(), "*").Val()
	for _, key := range keys {
		if _, ok := redisdb.KindOf(strings.TrimPrefix(key, redisdb.DefaultPrefix)); !ok {
			t.Errorf("the key %s is of no kind", key)
		}
	}
	if len(keys) == 0 {
		t.Error("there are no keys")
	}
}

// TestGrantsOfVersions: tokens, accounts and consents that one version has given are good at the other, and what one
// has revoked is refused by the other.
func TestGrantsOfVersions(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	before := lastRelease(t)
	g := newShared(t, before)
	ctx := t.Context()
	allow := func(*mcptest.Page) string { return "allow" }
	app := g.app()
	tokens := app.SignIn(ctx, t, mcptest.NewTab(t, "alice"), allow)
	g.connect(t, g.call(t, tokens.Access))
	for step, program := range []string{"", before, ""} {
		g.replace(t, program)
		if got := g.call(t, tokens.Access); !strings.Contains(got, "done as Bearer account") {
			t.Errorf("step %d: a call with an account of the other version: %s", step, got)
		}
		if tokens = app.Renew(ctx, tokens.Refresh); tokens.Status != http.StatusOK {
			t.Fatalf("step %d: a refresh token of the other version: %+v", step, tokens)
		}
		again := g.app()
		again.ID = app.ID
		asked := 0
		other := again.SignIn(ctx, t, mcptest.NewTab(t, "alice"), func(*mcptest.Page) string { asked++; return "allow" })
		if asked > 0 {
			t.Errorf("step %d: the consent of the other version is not known", step)
		}
		revoked := url.Values{"token": {other.Refresh}, "client_id": {app.ID}}
		if status, _ := g.token(ctx, "/oauth/revoke", revoked); status != http.StatusOK {
			t.Fatalf("step %d: revocation: %d", step, status)
		}
		defer func() { // at the last version
			if again := again.Renew(ctx, other.Refresh); again.Error != "invalid_grant" {
				t.Errorf("what was revoked is good again: %+v", again)
			}
		}()
	}
}
