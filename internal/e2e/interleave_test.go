package e2e

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

const (
	// interleavingTime is how long new interleavings are begun.
	interleavingTime = 5 * time.Second
	maxSteps         = 40
	maxCalls         = 10
	// inPatience bounds each wait of a run. After a failure there are several.
	inPatience = 30 * time.Second
)

// TestInterleavings: clients of both eras and two users call servers of both eras
// concurrently. Progress, log messages, questions, answers, results, errors, cancellations,
// dropped and resumed streams and ends of sessions come in any order. Each message must
// arrive once, at the call to which it belongs. Steps follow each other without a pause, so
// the effects of earlier ones are still on their way; a step that waits says so.
//
// A failure prints the shortest failing list of steps ("draw step") and how to repeat it.
func TestInterleavings(t *testing.T) {
	bounded(t, "rapid.checks", "500") // time is the limit, unless rapid.checks is given
	var upstreams []upstream.Config
	var stages []*stage
	for _, s := range []struct{ name, revision, transport string }{
		{"old", statefulServer, "streamable"},
		{"newer", "2025-11-25", "streamable"},
		{"new", stateless, "streamable"},
		{"new-pipe", stateless, "stdio"},
		{"old-pipe", statefulServer, "sse"},
	} {
		at, cfg := newStage(t, s.name, s.revision, s.transport)
		stages, upstreams = append(stages, at), append(upstreams, cfg)
	}
	g := guard(t, gateway.Config{Upstreams: upstreams, Sessions: session.Config{MaxPerUser: 10000}})
	tokens := []string{g.issuer.Token(claims{"sub": "alice"}), g.issuer.Token(claims{"sub": "bob"})}
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	runs, failed, begin := 0, false, time.Now()
	rapid.Check(t, func(rt *rapid.T) {
		if !failed && time.Since(begin) > interleavingTime {
			return
		}
		runs++
		ctx, cancel := context.WithCancel(t.Context())
		w := &interleaving{t: rt, ctx: ctx, run: runs, stages: stages}
		ok := false
		defer func() {
			failed = failed || !ok
			w.leave()
			cancel()
			w.readers.Wait()
		}()
		for i := range rapid.IntRange(2, 4).Draw(rt, "clients") {
			revision := rapid.SampledFrom([]string{"2025-11-25", stateless, "2025-06-18"}).Draw(rt, "revision")
			user := rapid.IntRange(0, 1).Draw(rt, "user")
			p := &player{Client: mcptest.NewClient(g.url, wire.Lookup(revision)), w: w, name: string(rune('A' + i))}
			p.HTTP = &http.Client{Transport: transport}
			p.Caps, p.LogLevel = `{"elicitation":{},"sampling":{}}`, "debug"
			present(p.Client, tokens[user])
			w.players = append(w.players, p)
			w.enter(p)
		}
		for range rapid.IntRange(1, maxSteps).Draw(rt, "steps") {
			steps := w.steps()
			names := make([]string, len(steps))
			for i, s := range steps {
				names[i] = s.name
			}
			name := rapid.SampledFrom(names).Draw(rt, "step")
			steps[slices.Index(names, name)].do()
			w.mustBeRight()
		}
		w.end()
		ok = true
	})
	t.Logf("%d interleavings", runs)
	for _, s := range stages {
		if strays := s.uninvited(); len(strays) > 0 {
			t.Errorf("%s got calls that nobody made: %q", s.name, strays)
		}
	}
}

// bounded sets a flag, unless it was given, for this test.
func bounded(t *testing.T, name, value string) {
	t.Helper()
	if given(name) {
		return
	}
	before := flag.Lookup(name).Value.String()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(name, before) }) // it was valid
}

// interleaving is one run: what was done, and what every party saw.
type interleaving struct {
	t       *rapid.T
	ctx     context.Context
	run     int
	stages  []*stage
	players []*player
	calls   []*call
	readers sync.WaitGroup

	mu       mcptest.Cond // guards problems, and each call's line and answers
	problems []string
}

// enter begins a session of a stateful client, with a GET stream.
func (w *interleaving) enter(p *player) {
	before := p.Client
	p.Client, p.stand = mcptest.NewClient(before.URL, before.Revision), nil
	p.HTTP, p.Header, p.Caps, p.LogLevel = before.HTTP, before.Header, before.Caps, before.LogLevel
	ctx, cancel := context.WithTimeout(w.ctx, inPatience)
	defer cancel()
	if err := p.Open(ctx); err != nil {
		w.fail("the session of %s: %v", p.name, err)
	}
	if p.stateful() {
		p.listen()
	}
}

// leave ends all sessions.
func (w *interleaving) leave() {
	for _, p := range w.players {
		if p.Session != "" {
			w.bye(p)
		}
	}
}

func (w *interleaving) bye(p *player) {
	ctx, cancel := context.WithTimeout(context.Background(), inPatience)
	defer cancel()
	if status, err := p.Delete(ctx); err != nil || status != http.StatusNoContent {
		w.wrong("the end of %s's session: status %d, %v", p.name, status, err)
	}
	if p.stand != nil {
		p.stand()
	}
}

// change changes what w.mu guards, and wakes those who wait.
func (w *interleaving) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
	w.mu.Wake()
}

func (w *interleaving) wrong(format string, args ...any) {
	w.change(func() { w.wrongLocked(format, args...) })
}

// wrongLocked is wrong for callers that hold w.mu.
func (w *interleaving) wrongLocked(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

func (w *interleaving) mustBeRight() {
	w.mu.Lock()
	problems := w.problems
	w.mu.Unlock()
	if len(problems) > 0 {
		w.fail("%s", strings.Join(problems, "\n"))
	}
}

// until waits for a condition on what w.mu guards.
func (w *interleaving) until(what string, is func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), inPatience)
	defer cancel()
	err := w.mu.Await(ctx, func() bool { return is() || len(w.problems) > 0 })
	w.mustBeRight()
	if err != nil {
		w.fail("%s never came", what)
	}
}

// fail ends the run and prints what each call saw.
func (w *interleaving) fail(format string, args ...any) {
	w.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, format, args...)
	w.mu.Lock()
	for _, c := range w.calls {
		fmt.Fprintf(&b, "\n  %s (%s, id %s, at %s) saw %q", c, c.by.Revision.Name, c.id, c.at.name, c.line.log)
	}
	w.mu.Unlock()
	w.t.Fatal(b.String())
}
