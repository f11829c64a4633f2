package events

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/grants"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
)

// recorded returns the records of one kind in a file.
func recorded(t *testing.T, path, kind string) []map[string]any {
	t.Helper()
	all, err := mcptest.Records(path, kind)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestManyRefusals: whoever sends bad tokens does not fill the disk, and is counted.
func TestManyRefusals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	j, err := audit.New(audit.Config{Sinks: []audit.Sink{{Type: audit.TypeFile, Path: path}}}, audit.Deps{Replica: "a"})
	if err != nil {
		t.Fatal(err)
	}
	e := New(j)
	bad := auth.Judgement{Status: http.StatusUnauthorized, Reason: "the token is not a JWT"}
	e.signIns.second = time.Now().Add(time.Hour) // the second lasts
	for range refusalsRecorded + 50 {
		e.Judged(bad)
	}
	e.ConsoleSignIn(mcp.Caller{}, errors.New("no")) // has a ration of its own
	e.AccountRefused("crm", &mcp.Caller{}, errors.New("no"))
	e.Granted(grants.Event{Name: "grant ended", Reason: "its client has revoked it"})
	for range refusalsRecorded + 1 { // has none
		e.Granted(grants.Event{Name: "token given", Reason: "for an identity assertion"})
	}
	e.signIns.second = time.Time{}
	e.Judged(bad)
	e.requests.second = time.Now().Add(time.Hour)
	for range refusalsRecorded + 7 {
		e.TurnedAway(mcp.Caller{Subject: "bob"}, "tools/call", http.StatusBadRequest, failure.HeaderMismatch)
	}
	e.requests.second = time.Time{}
	e.TurnedAway(mcp.Caller{}, "", http.StatusForbidden, failure.HTTPHost)
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
	var off Recorder
	off.Judged(bad) // records nothing
	off.TurnedAway(mcp.Caller{}, "", http.StatusForbidden, failure.HTTPHost)
}

func TestPinsAreRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	j, err := audit.New(audit.Config{Sinks: []audit.Sink{{Type: audit.TypeFile, Path: path}}}, audit.Deps{Replica: "a"})
	if err != nil {
		t.Fatal(err)
	}
	e := New(j)
	e.NotApproved(slog.New(slog.DiscardHandler), pinning.Finding{Upstream: "crm", Kind: pin.Tools, Name: "wipe", New: true})
	e.NotApproved(slog.New(slog.DiscardHandler), pinning.Finding{Upstream: "crm", Kind: pin.Tools, Name: "work", Differ: []string{"description"}, Hidden: []string{"a", "b"}, Blocked: true})
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"event": "warned", "upstream": "crm", "list": "tools", "original": "wipe", "added": []any{"wipe"}},
		{"event": "hidden", "upstream": "crm", "list": "tools", "original": "work", "changed": []any{"description"}, "reason": "a; b"},
	}
	if diff := cmp.Diff(want, recorded(t, path, "pin")); diff != "" {
		t.Error(diff)
	}
	var off Recorder
	off.NotApproved(slog.New(slog.DiscardHandler), pinning.Finding{}) // records nothing
}
