package observe

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
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

// TestManyRefusals: whoever sends bad tokens, or none, does not fill the disk, is counted, and
// silences nobody else.
func TestManyRefusals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	j, err := audit.New(audit.Config{Sinks: []audit.Sink{{Type: audit.TypeFile, Path: path}}}, audit.Deps{Replica: "a"})
	if err != nil {
		t.Fatal(err)
	}
	e := NewEvents(j)
	at := func(address string) mcp.Caller {
		return mcp.Caller{From: mcp.Origin{Address: address, Agent: "curl/8"}}
	}
	bad := auth.Judgement{Caller: at("192.0.2.1"), Status: http.StatusUnauthorized, Reason: "the token is not a JWT",
		Name: failure.TokenInvalid}
	none := auth.Judgement{Caller: at("192.0.2.1"), Status: http.StatusUnauthorized, Reason: "an access token is needed",
		Name: failure.TokenMissing}
	for range 5000 {
		e.Judged(bad)
		e.Judged(none)
		e.TurnedAway(at("192.0.2.1"), "", http.StatusForbidden, failure.HTTPHost)
	}
	bad.Caller, none.Caller = at("192.0.2.2"), at("192.0.2.2")
	e.Judged(bad)
	e.Judged(none)
	e.ConsoleSignIn(mcp.Caller{}, errors.New("no")) // has a ration of its own
	e.AccountRefused("crm", &mcp.Caller{}, errors.New("no"))
	e.Granted(t.Context(), grants.Event{Name: "grant ended", Reason: "its client has revoked it"})
	for range 2 * refusalsRecorded { // has none
		e.Granted(t.Context(), grants.Event{Name: "token given", Reason: "for an identity assertion"})
	}
	e.TurnedAway(mcp.Caller{Subject: "bob", From: mcp.Origin{Address: "2001:db8::1"}}, "tools/call", http.StatusBadRequest,
		failure.HeaderMismatch)
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	counted := func(of []map[string]any) (n int) {
		for _, r := range of {
			if count, ok := r["count"].(float64); ok {
				n += int(count)
			} else {
				n++
			}
		}
		return n
	}
	requests := recorded(t, path, "refused")
	if diff := cmp.Diff([]map[string]any{
		{"code": 403.0, "error_code": "GH-HTTP-HOST", "client_address": "192.0.2.1", "user_agent": "curl/8"},
		{"user": "bob", "method": "tools/call", "code": 400.0, "error_code": "GH-HEADER-MISMATCH",
			"client_address": "2001:db8::1"},
	}, []map[string]any{requests[0], requests[len(requests)-1]}); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if n := len(requests); n != refusalsRecorded+9+1 || counted(requests) != 4096+1 { // the 16th to the 4,096th
		t.Errorf("%d records of %d requests", n, counted(requests))
	}
	if console := recorded(t, path, "admin"); len(console) != 1 || console[0]["reason"] != "no" {
		t.Errorf("records of the console: %v", console)
	}
	if accounts := recorded(t, path, "credential"); len(accounts) != 1 || accounts[0]["count"] != nil {
		t.Errorf("records of users' accounts: %v", accounts)
	}
	signIns := make(map[string][]map[string]any)
	for _, r := range recorded(t, path, "signin") {
		event := r["event"].(string)
		signIns[event] = append(signIns[event], r)
	}
	if n := len(signIns["token given"]); n != 2*refusalsRecorded || counted(signIns["token given"]) != n ||
		len(signIns["grant ended"]) != 1 {
		t.Errorf("records of the authorization server: %v", signIns)
	}
	for event, why := range map[string]string{"refused": bad.Reason, "no token": none.Reason} {
		all := signIns[event]
		if len(all) != refusalsRecorded+9+1 || counted(all) != 4096+1 || all[0]["reason"] != why || all[0]["code"] != 401.0 ||
			all[len(all)-1]["client_address"] != "192.0.2.2" {
			t.Errorf("%s: %d records of %d: %v", event, len(all), counted(all), all[len(all)-1])
		}
	}
	var off Events
	off.Judged(bad) // records nothing
	off.TurnedAway(mcp.Caller{}, "", http.StatusForbidden, failure.HTTPHost)
}

// TestRation: the records of all addresses together are bounded, too, and so is what is kept of
// addresses; a minute later everybody is heard again.
func TestRation(t *testing.T) {
	var r ration
	now := time.Now()
	recorded := 0
	for i := range 3 * mostShares {
		if _, ok := r.take(fmt.Sprintf("10.%d.%d.1", i>>8, i&0xff), now); ok {
			recorded++
		}
	}
	if recorded != refusalsInAll || r.of.Len() > mostShares {
		t.Errorf("%d records, %d shares", recorded, r.of.Len())
	}
	now = now.Add(time.Minute)
	if n, ok := r.take("192.0.2.1", now); !ok || n != 0 {
		t.Error(n, ok)
	}
	for range refusalsRecorded {
		r.take("2001:db8::1", now)
	}
	if _, ok := r.take("2001:db8::2", now); ok {
		t.Error("a network of its own for each address of IPv6")
	}
}

func TestPinsAreRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	j, err := audit.New(audit.Config{Sinks: []audit.Sink{{Type: audit.TypeFile, Path: path}}}, audit.Deps{Replica: "a"})
	if err != nil {
		t.Fatal(err)
	}
	e := NewEvents(j)
	e.NotApproved(slog.New(slog.DiscardHandler), pinning.Finding{Upstream: "crm", Kind: pin.Tools,
		Name: "wipe", New: true})
	e.NotApproved(slog.New(slog.DiscardHandler), pinning.Finding{Upstream: "crm", Kind: pin.Tools, Name: "work",
		Differ: []string{"description"}, Hidden: []string{"a", "b"}, Blocked: true})
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"event": "warned", "upstream": "crm", "list": "tools", "original": "wipe", "added": []any{"wipe"}},
		{"event": "hidden", "upstream": "crm", "list": "tools", "original": "work", "changed": []any{"description"},
			"reason": "a; b"},
	}
	if diff := cmp.Diff(want, recorded(t, path, "pin")); diff != "" {
		t.Error(diff)
	}
	var off Events
	off.NotApproved(slog.New(slog.DiscardHandler), pinning.Finding{}) // records nothing
}
