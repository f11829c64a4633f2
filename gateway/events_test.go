package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/grants"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestEventsAreRecorded: what happens beside calls has records, too: the configuration and
// what servers offer.
func TestEventsAreRecorded(t *testing.T) {
	site := newSite(t, false, one("work", saying("x")))
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	text := fmt.Sprintf("upstreams: [{name: up, url: %q}]\naudit: {sinks: [{type: file, path: %q}]}\n", site.url, path)
	c := startUnwatched(t, text)
	first := c.ReloadStatus().Revision
	site.server.AddTool(&sdk.Tool{Name: "more", InputSchema: map[string]any{"type": "object"}}, saying("y"))
	eventually(t, "the new tool is there", func() bool { return len(c.graph().catalog.Targets()) == 2 })
	site.server.AddTool(&sdk.Tool{Name: "work", Description: "other", InputSchema: map[string]any{"type": "object"}}, saying("y"))
	site.server.RemoveTools("more")
	eventually(t, "it is gone", func() bool { return len(c.graph().catalog.Targets()) == 1 })
	c.write(t, text+"limit: 3\n")
	if err := c.Reload(); err == nil {
		t.Error("a bad file is taken")
	}
	c.reload(t, text+"shutdown_timeout: 20s\n")
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"event": "start", "config": first},
		{"event": "refused", "reason": "nothing was changed: the log has the problems"},
		{"event": "applied", "config": c.ReloadStatus().Revision, "changed": []any{"shutdown_timeout"}},
	}
	if diff := cmp.Diff(want, recorded(t, path, "reload")); diff != "" {
		t.Errorf("reloads (-want +got):\n%s", diff)
	}
	var added, removed, changed []any
	for _, r := range recorded(t, path, "lists") {
		if r["upstream"] != "up" || r["list"] != "tools" {
			t.Errorf("got %v", r)
		}
		for name, to := range map[string]*[]any{"added": &added, "removed": &removed, "changed": &changed} {
			if names, ok := r[name].([]any); ok {
				*to = append(*to, names...)
			}
		}
	}
	if !slices.Equal(added, []any{"more"}) || !slices.Equal(removed, []any{"more"}) || !slices.Equal(changed, []any{"work"}) {
		t.Errorf("added %v, removed %v, changed %v", added, removed, changed)
	}
}

// TestManyRefusals: whoever sends bad tokens does not fill the disk, and is counted.
func TestManyRefusals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	j, err := audit.New(audit.Config{Sinks: []audit.Sink{{Type: audit.TypeFile, Path: path}}}, audit.Deps{Replica: "a"})
	if err != nil {
		t.Fatal(err)
	}
	e := &events{journal: j}
	bad := auth.Judgement{Status: http.StatusUnauthorized, Reason: "the token is not a JWT"}
	e.signIns.second = time.Now().Add(time.Hour) // the second lasts
	for range refusalsRecorded + 50 {
		e.judged(bad)
	}
	e.consoleSignIn(mcp.Caller{}, errors.New("no")) // has a ration of its own
	e.accountRefused("crm", &mcp.Caller{}, errors.New("no"))
	e.granted(grants.Event{Name: "grant ended", Reason: "its client has revoked it"})
	for range refusalsRecorded + 1 { // has none
		e.granted(grants.Event{Name: "token given", Reason: "for an identity assertion"})
	}
	e.signIns.second = time.Time{}
	e.judged(bad)
	e.requests.second = time.Now().Add(time.Hour)
	for range refusalsRecorded + 7 {
		e.turnedAway(mcp.Caller{Subject: "bob"}, "tools/call", http.StatusBadRequest, failure.HeaderMismatch)
	}
	e.requests.second = time.Time{}
	e.turnedAway(mcp.Caller{}, "", http.StatusForbidden, failure.HTTPHost)
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	requests := recorded(t, path, "refused")
	if len(requests) != refusalsRecorded+1 {
		t.Errorf("%d records of requests", len(requests))
	}
	if diff := cmp.Diff([]map[string]any{
		{"user": "bob", "method": "tools/call", "code": 400.0, "error_code": "GH-HEADER-MISMATCH"},
		{"code": 403.0, "error_code": "GH-HTTP-HOST", "count": 8.0},
	}, []map[string]any{requests[0], requests[len(requests)-1]}); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if console := recorded(t, path, "admin"); len(console) != 1 || console[0]["reason"] != "no" {
		t.Errorf("records of the console: %v", console)
	}
	if accounts := recorded(t, path, "credential"); len(accounts) != 1 || accounts[0]["count"] != nil {
		t.Errorf("records of users' accounts: %v", accounts)
	}
	got, granted := recorded(t, path, "signin"), 0
	got = slices.DeleteFunc(got, func(r map[string]any) bool {
		if r["event"] == "refused" {
			return false
		}
		if granted++; r["count"] != nil {
			t.Errorf("it counts refused tokens: %v", r)
		}
		return true
	})
	if granted != refusalsRecorded+2 {
		t.Errorf("%d records of the authorization server", granted)
	}
	if len(got) != refusalsRecorded+1 || got[0]["count"] != nil || got[refusalsRecorded]["count"] != 51.0 || got[0]["reason"] != bad.Reason || got[0]["code"] != 401.0 {
		t.Errorf("%d records, the last one %v", len(got), got[len(got)-1])
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 200<<10 {
		t.Error(info.Size(), err)
	}
	var off events
	off.judged(bad) // records nothing
	off.turnedAway(mcp.Caller{}, "", http.StatusForbidden, failure.HTTPHost)
}
