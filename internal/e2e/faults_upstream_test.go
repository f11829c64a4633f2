package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// Pieces of what faulty servers send.
const (
	asJSON   = "application/json"
	asEvents = "text/event-stream"
	fine     = `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}}`
	again    = `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[{"type":"text","text":"again"}]}}`
	stray    = `{"jsonrpc":"2.0","id":99999,"result":{"resultType":"complete","content":[{"type":"text","text":"stray"}]}}`
	question = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`
	chatter  = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"still here"}}`
)

// sends answers with this body.
func sends(contentType, body string) strike {
	return func(w http.ResponseWriter, _ *http.Request, id string) {
		w.Header().Set("Content-Type", contentType)
		fmt.Fprint(w, strings.ReplaceAll(body, "$ID", id))
	}
}

// drips sends the beginning, and then the drop repeatedly until nobody reads.
func drips(contentType, beginning, drop string) strike {
	return func(w http.ResponseWriter, r *http.Request, id string) {
		w.Header().Set("Content-Type", contentType)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for text := strings.ReplaceAll(beginning, "$ID", id); ; text = drop {
			fmt.Fprint(w, text)
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}
}

// hangs sends nothing more until nobody waits.
func hangs(status int, contentType string) strike {
	return func(w http.ResponseWriter, r *http.Request, _ string) {
		if status > 0 {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			if http.NewResponseController(w).Flush() != nil {
				return
			}
		}
		<-r.Context().Done()
	}
}

// saysStatus answers with a status, and headers in pairs.
func saysStatus(status int, header ...string) strike {
	return func(w http.ResponseWriter, _ *http.Request, _ string) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
	}
}

// resets resets the connection.
func resets(w http.ResponseWriter, r *http.Request, _ string) { mcptest.Reset(w, r) }

// TestUpstreamFaults: calls of clients of each era meet a fault at a server of each era.
// The test checks what they are told, that others notice nothing, what operators see, and
// that the next call after the fault succeeds.
func TestUpstreamFaults(t *testing.T) {
	const (
		wait    = 3 * time.Second // a busy machine may be slow without a fault
		whole   = 4 * time.Second
		anyhow  = "it may"
		mebi    = 1 << 20
		blamed  = "its operator has"
		address = "check its address"
	)
	timeout := upstream.Timeout{Call: wait, Total: whole}
	silent := verdict{200, 50401, "unknown", "did not answer in time; " + anyhow}
	garbled := verdict{200, 50202, "unknown", address}
	lost := verdict{200, 50202, "unknown", "was lost before its answer came; " + anyhow}
	large := verdict{200, 50203, "unknown", "ask for less"}
	for _, tt := range []struct {
		name   string
		strike strike
		short  bool // with timeout
		limits upstream.Limits
		want   verdict // zero: an answer like any other
		newer  verdict // verdict at the newer upstream, if it differs
		state  upstream.State
		stages [2]string // of the older and the newer upstream; "" for no failure
	}{
		{name: "no headers come", strike: hangs(0, ""), short: true, want: silent, state: upstream.StateDegraded,
			stages: atCall},
		{name: "no body comes", strike: hangs(200, asJSON), short: true, want: silent, state: upstream.StateDegraded,
			stages: atCall},
		{name: "no event comes", strike: hangs(200, asEvents), short: true, want: silent, state: upstream.StateDegraded,
			stages: atCall},
		{name: "a body that drips", strike: drips(asJSON, `{"jsonrpc":"2.0","id":$ID,"result":{"content":"`, "x"),
			short: true, want: silent, state: upstream.StateDegraded, stages: atCall},
		{name: "events without an answer for ever", strike: drips(asEvents, "", "data: "+chatter+"\n\n"), short: true,
			want: silent, state: upstream.StateDegraded, stages: atCall},
		{name: "events without end after the answer", strike: drips(asEvents, "data: "+fine+"\n\n", "data: "+chatter+"\n\n"),
			state: upstream.StateReady},

		{name: "garbage", strike: sends(asJSON, "\x00\xff{"), want: garbled, state: upstream.StateDegraded, stages: atCall},
		{name: "nothing", strike: sends(asJSON, ""), want: garbled, state: upstream.StateDegraded, stages: atCall},
		{name: "the page of a proxy", strike: sends("text/html", "<html>secret"), want: garbled,
			state: upstream.StateDegraded, stages: atCall},
		{name: "half an event", strike: sends(asEvents, "data: "+fine), want: lost, state: upstream.StateDegraded,
			stages: atCall},
		{name: "10 MiB too much", strike: sends(asJSON,
			`{"jsonrpc":"2.0","id":$ID,"result":"`+strings.Repeat("x", 11*mebi)+`"}`),
			limits: upstream.Limits{ResultBytes: mebi}, want: large, state: upstream.StateReady},
		{name: "10 MiB too much, as an event", strike: sends(asEvents, `data: "`+strings.Repeat("x", 11*mebi)+"\"\n\n"),
			limits: upstream.Limits{ResultBytes: mebi}, want: large, state: upstream.StateReady},
		{name: "the id of another request", strike: sends(asJSON, stray), want: garbled, state: upstream.StateDegraded,
			stages: atCall},
		{name: "the id of another request, then the right one",
			strike: sends(asEvents, "data: "+stray+"\n\ndata: "+fine+"\n\n"), state: upstream.StateReady},
		{name: "two answers", strike: sends(asEvents, "data: "+fine+"\n\ndata: "+again+"\n\n"), state: upstream.StateReady},

		{name: "a hundred questions that nobody declared",
			strike: sends(asEvents, strings.Repeat("data: "+question+"\n\n", 100)+"data: "+fine+
				"\n\n"), state: upstream.StateReady},

		{name: "401", strike: saysStatus(401, "WWW-Authenticate", `Bearer realm="secret"`),
			want: verdict{200, 50204, "no", blamed}, state: upstream.StateNeedsLogin, stages: [2]string{"login", "login"}},
		{name: "403", strike: saysStatus(403), want: verdict{200, 50204, "no", blamed}, state: upstream.StateNeedsLogin,
			stages: [2]string{"login", "login"}},
		{name: "404", strike: saysStatus(404), want: verdict{200, 50205, "no", "try again later"},
			newer: verdict{200, 50202, "no", address}, state: upstream.StateDown, stages: [2]string{"call", "handshake"}},
		{name: "429", strike: saysStatus(429, "Retry-After", "1"), want: verdict{429, 42901, "no", "try again later"},
			state: upstream.StateReady},
		{name: "418", strike: saysStatus(418), want: verdict{200, 50202, "no", blamed}, state: upstream.StateDown,
			stages: atCall},
		{name: "500", strike: saysStatus(500), want: verdict{200, 50202, "unknown", anyhow}, state: upstream.StateDegraded,
			stages: atCall},
		{name: "502", strike: saysStatus(502), want: verdict{200, 50201, "unknown", "try again later"},
			state: upstream.StateDown, stages: atCall},
		{name: "503", strike: saysStatus(503), want: verdict{200, 50201, "unknown", "try again later"},
			state: upstream.StateDown, stages: atCall},
		{name: "504", strike: saysStatus(504), want: verdict{200, 50201, "unknown", "try again later"},
			state: upstream.StateDown, stages: atCall},
		{name: "307", strike: saysStatus(307, "Location", "http://127.0.0.1:1/"),
			want: verdict{200, 50202, "no", "its address has to be corrected"}, state: upstream.StateDown, stages: atCall},
		{name: "a reset", strike: resets, want: lost, state: upstream.StateDegraded, stages: atCall},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			limit := upstream.Timeout{}
			if tt.short {
				limit = timeout
			}
			s := newScene(t, limit, tt.limits)
			outcomes := make(chan faultOutcome, 8) // two of each client at each upstream: too few to open the breaker
			var waits []func()
			for _, f := range s.faulty {
				f.breaks(tt.strike)
				waits = append(waits, s.all(t, f.name, 2, func(o faultOutcome) { outcomes <- o }))
			}
			for _, f := range s.faulty {
				receive(t, "a call at "+f.name, f.struck)
			}
			s.undisturbed(t)
			for range cap(outcomes) {
				o := receive(t, "an outcome", outcomes)
				want := tt.want
				if o.upstream == "newer" && tt.newer.code != 0 {
					want = tt.newer
				}
				if want.code != 0 {
					want.check(t, o)
				} else if o.err != nil || o.Error != nil || said(o.Message) != "done" {
					t.Errorf("client %s, upstream %s: %s, %v", o.client, o.upstream, o.Text, o.err)
				}
				if want.code == 42901 && o.header.Get("Retry-After") != "1" {
					t.Errorf("client %s, upstream %s: Retry-After %q", o.client, o.upstream, o.header.Get("Retry-After"))
				}
			}
			for _, wait := range waits {
				wait()
			}
			for i, f := range s.faulty {
				s.is(t, f.name, tt.state, tt.stages[i])
				f.mend()
				if tt.want.code == 42901 {
					obey(t, "1")
				}
				s.healed(t, f.name)
			}
			s.nothingLeft(t)
		})
	}
}

var atCall = [2]string{"call", "call"}

// TestUpstreamKilledInMidCall kills servers while they work, and starts them again at the
// same address without their state.
func TestUpstreamKilledInMidCall(t *testing.T) {
	t.Parallel()
	s := newScene(t, upstream.Timeout{}, upstream.Limits{})
	outcomes := make(chan faultOutcome, 4)
	var waits []func()
	for _, f := range s.faulty {
		f.breaks(hangs(0, ""))
		waits = append(waits, s.all(t, f.name, 1, func(o faultOutcome) { outcomes <- o }))
		receive(t, "a call", f.struck)
		receive(t, "the other call", f.struck)
		f.Kill()
	}
	for range cap(outcomes) {
		verdict{200, 50202, "unknown", "it may have done what was asked"}.check(t, receive(t, "an outcome", outcomes))
	}
	for _, wait := range waits {
		wait()
	}
	for _, f := range s.faulty {
		gone := verdict{200, 50201, "no", "connection refused; try again later"}
		held := false
		for range 5 { // then the next ones are refused without an attempt
			for _, c := range s.clients {
				o := s.call(t, c, f.name)
				gone.check(t, o)
				held = held || strings.Contains(o.Text, "retryAfterMs")
			}
		}
		h := s.health(t, f.name)
		if h.State != upstream.StateDown || h.LastFailure == nil || h.LastFailure.Stage != "connect" ||
			h.RefusedUntil.IsZero() || !held {
			t.Errorf("upstream %s is %+v after %+v; refused without trying: %v", f.name, h, h.LastFailure, held)
		}
	}
	s.undisturbed(t) // the tools of dead servers are still listed
	for _, f := range s.faulty {
		f.mend()
		f.Forget()
		revive(t, f.Mortal)
		s.comesBack(t, f.name)
	}
	s.undisturbed(t)
	s.nothingLeft(t)
}

// TestDegradedAfterThreeInARow: one or two failed calls say little about a server.
func TestDegradedAfterThreeInARow(t *testing.T) {
	t.Parallel()
	s := newScene(t, upstream.Timeout{}, upstream.Limits{})
	for _, f := range s.faulty {
		for range 2 { // a success between them restarts the count
			f.breaks(resets)
			for range 2 {
				lost := s.call(t, s.clients[0], f.name)
				verdict{200, 50202, "unknown", "was lost before its answer came"}.check(t, lost)
				s.is(t, f.name, upstream.StateReady, "")
			}
			f.mend()
			s.healed(t, f.name)
		}
		f.breaks(resets)
		for i, state := range []upstream.State{upstream.StateReady, upstream.StateReady, upstream.StateDegraded} {
			s.call(t, s.clients[i%2], f.name)
			stage := ""
			if state == upstream.StateDegraded {
				stage = "call"
			}
			s.is(t, f.name, state, stage)
		}
		f.mend()
		s.healed(t, f.name)
	}
	s.nothingLeft(t)
}
