package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// TestFailedSignIns: sign-ins that failed are counted by client and reason, the latest first; those that
// succeeded, and credentials of the gateway's own, are none.
func TestFailedSignIns(t *testing.T) {
	a, _ := newTest(t, Config{Loopback: RoleViewer})
	began := time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)
	at := func(i int) time.Time { return began.Add(time.Duration(i) * time.Second) }
	for i, r := range []record.Record{
		{Kind: record.KindSignIn, Event: "refused", Agent: "claude-code", Reason: "the token has expired"},
		{Kind: record.KindSignIn, Event: "ok", User: "ann", Client: "web"},
		{Kind: record.KindSignIn, Event: "refused", Agent: "claude-code", Reason: "the token has expired", Count: 51},
		{Kind: record.KindSignIn, Event: "refused", Agent: "cursor", Reason: "the token has expired"},
		{Kind: record.KindSignIn, Event: "sign-in refused", Client: "dcr-1", Agent: "My client", Reason: "no"},
		{Kind: record.KindCredential, Event: "refused", Upstream: "crm", Reason: "of the gateway itself"},
		{Kind: record.KindCredential, Event: "sign-in refused", Upstream: "wiki", User: "bob",
			Reason: "The server describes itself as another server"},
		{Kind: record.KindAdmin, Event: "reload refused", Reason: "something else"},
		{Kind: record.KindAdmin, Event: "sign-in refused", Reason: "console"},
		{Kind: record.KindCall, ID: "1", Event: "refused"},
	} {
		r.Time = at(i)
		a.deps.Recent.Put(&r)
	}
	ask := func(query string) (s SignIns, status int) {
		t.Helper()
		w := httptest.NewRecorder()
		a.ServeHTTP(w, here(httptest.NewRequest(http.MethodGet, "/api/v1/signins"+query, nil)))
		if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		return s, w.Code
	}
	const remedy = "Sign in again and use the new token. If it is new: Set the clocks of this machine and of the issuer; auth.leeway tolerates some difference."
	got, _ := ask("?limit=2")
	if diff := cmp.Diff([]SignInFailure{
		{Event: "sign-in refused", Reason: "console", Count: 1, Last: at(8)},
		{Upstream: "wiki", Event: "sign-in refused", Reason: "The server describes itself as another server",
			Count: 1, Last: at(6)},
		{Client: "dcr-1", Agent: "My client", Event: "sign-in refused", Reason: "no", Count: 1, Last: at(4)},
		{Agent: "cursor", Event: "refused", Reason: "the token has expired", Remedy: remedy, Count: 1, Last: at(3)},
		{Agent: "claude-code", Event: "refused", Reason: "the token has expired", Remedy: remedy, Count: 52, Last: at(2)},
	}, got.Failures); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	if len(got.Last) != 2 || got.Last[0].Reason != "console" || got.Last[1].Upstream != "wiki" || got.LeftOut != 0 {
		t.Errorf("the last ones: %+v", got.Last)
	}
	if of, _ := ask("?user=bob"); len(of.Failures) != 1 || of.Failures[0].Upstream != "wiki" {
		t.Errorf("of bob: %+v", of)
	}
	if none, status := ask("?since=1ns"); status != http.StatusOK || none.Failures == nil || none.Last == nil ||
		len(none.Failures) > 0 {
		t.Errorf("none: %d %+v", status, none)
	}
	for _, bad := range []string{"?kind=call", "?limit=0", "?since=x", "?user=a&user=b"} {
		if _, status := ask(bad); status != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, status)
		}
	}
	for i := range mostFailures {
		a.deps.Recent.Put(&record.Record{Time: at(100 + i), Kind: record.KindSignIn, Event: "refused",
			Agent: fmt.Sprintf("agent-%d", i), Reason: "the token is not a JWT"})
	}
	if many, _ := ask(""); len(many.Failures) != mostFailures || many.LeftOut != 5 ||
		many.Failures[0].Agent != fmt.Sprintf("agent-%d", mostFailures-1) || len(many.Last) != defaultFailed {
		t.Errorf("many: %d, %d left out, the last %d", len(many.Failures), many.LeftOut, len(many.Last))
	}
}

// TestExamsAreFew: tokens are examined a few at a time, and nobody waits for an issuer for ever.
func TestExamsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newTest(t, Config{})
		recorded := make(chan record.Record, mostExams+1)
		a.deps.Journal = journal(t, func(r *record.Record) { recorded <- *r })
		a.deps.WhatIf = world{examined: func(ctx context.Context) (e Examined) {
			<-ctx.Done() // an issuer that does not answer
			e.Reason = "nobody knows"
			return e
		}}
		exam := func() int {
			r := httptest.NewRequest(http.MethodPost, "/console/sign-ins", nil)
			_, err := TestToken.Ask(a, r, Operator{Name: "ann", Roles: []string{RoleOperator}}, PastedToken{Text: "t"})
			if refused, ok := errors.AsType[*Refusal](err); ok {
				return refused.Status
			}
			return http.StatusOK
		}
		codes := make(chan int, mostExams)
		for range mostExams {
			go func() { codes <- exam() }()
		}
		synctest.Wait()
		if one := exam(); one != http.StatusServiceUnavailable || len(recorded) > 0 {
			t.Errorf("one more: %d", one)
		}
		began := time.Now()
		for range mostExams {
			if code := <-codes; code != http.StatusOK {
				t.Errorf("%d", code)
			}
		}
		if took := time.Since(began); took > longestExam || exam() != http.StatusOK {
			t.Errorf("it took %s", took)
		}
		if r := <-recorded; r.Event != "token tested" || r.User != "ann" || r.Reason != "nobody knows" {
			t.Errorf("%+v", r)
		}
	})
}
