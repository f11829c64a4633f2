package foureyes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// replica makes a table that shares its calls in a Redis.
func replica(t *testing.T, url, secret string) (*Table, *redisdb.DB) {
	t.Helper()
	db, err := redisdb.Open(redisdb.Config{URL: mcp.Secret(url)}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	key, err := seal.NewKey([]byte(secret), "four eyes")
	if err != nil {
		t.Fatal(err)
	}
	table, _ := newTest()
	table.deps.Shared, table.lookEvery = NewShared(db, key), time.Millisecond
	return table, db
}

const secret = "0123456789abcdef0123456789abcdef"

// shares makes a call wait, and returns when it is told so.
func shares(ctx context.Context, table *Table, c *Call) <-chan string {
	said, told := make(chan string, 1), make(chan bool, 100)
	go func() {
		v, err := table.Wait(ctx, c.User, c, time.Minute, func() { told <- true })
		said <- fmt.Sprintf("%s %v %q %v", v.By.Subject, v.Approve, v.Reason, err)
	}()
	<-told
	return said
}

// TestDecideAtAnotherReplica: any replica shows and decides the calls of all; the first verdict counts.
func TestDecideAtAnotherReplica(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) string{
		"single":  func(t testing.TB) string { return redistest.Start(t).URL() },
		"cluster": func(t testing.TB) string { return redistest.StartCluster(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			url := start(t)
			a, db := replica(t, url, secret)
			b, _ := replica(t, url, secret)
			forger, _ := replica(t, url, strings.ToUpper(secret))
			bob, carol, alice := person("bob", "changers"), person("carol", "changers"), person("alice", "changers")
			ids := func(table *Table, who *mcp.Caller) string {
				var all []string
				for _, s := range listOf(t, table, who) {
					all = append(all, s.ID)
				}
				return strings.Join(all, " ")
			}
			first := shares(t.Context(), a, callOf("1", "alice"))
			second := shares(t.Context(), b, callOf("2", "alice"))
			for _, table := range []*Table{a, b} {
				if got := ids(table, &bob); got != "1 2" {
					t.Errorf("bob sees %q", got)
				}
				if got := ids(table, &alice); got != "" {
					t.Errorf("alice sees %q", got)
				}
			}
			shown := listOf(t, b, &bob)[0]
			if string(shown.Arguments) != `{"n":1}` || shown.Digest != "d-1" || shown.User != "alice" {
				t.Errorf("b shows %+v", shown.Call)
			}
			for _, tt := range []struct {
				by     mcp.Caller
				digest string
				want   error
			}{{alice, "d-1", ErrOwn}, {person("eve"), "d-1", ErrUnknown}, {bob, "d-2", ErrDigest}} {
				if _, err := b.Decide(t.Context(), "1", tt.digest, Verdict{tt.by, true, ""}); !errors.Is(err, tt.want) {
					t.Errorf("%s decides: %v, want %v", tt.by.Subject, err, tt.want)
				}
			}
			if got := ids(forger, &bob); got != "" {
				t.Errorf("with another key bob sees %q", got)
			}
			// A forged verdict neither counts nor keeps the place of a good one.
			keys, _ := a.deps.Shared.keysOf("1")
			if _, err := db.Run(t.Context(), a.deps.Shared.say, keys[:2], "forged", 60_000); err != nil {
				t.Fatal(err)
			}
			for decided := false; !decided; {
				_, err := b.Decide(t.Context(), "1", "d-1", Verdict{bob, true, "why"})
				if decided = err == nil; err != nil && !errors.Is(err, ErrUnknown) {
					t.Fatal(err)
				}
			}
			if got := <-first; got != `bob true "why" <nil>` {
				t.Errorf("the call at a heard %s", got)
			}
			if _, err := a.Decide(t.Context(), "1", "d-1", Verdict{carol, false, ""}); !errors.Is(err, ErrUnknown) {
				t.Errorf("decided again: %v", err)
			}
			if _, err := b.Decide(t.Context(), "2", "d-2", Verdict{carol, false, "no"}); err != nil {
				t.Error(err)
			}
			if got := <-second; got != `carol false "no" <nil>` {
				t.Errorf("the call at b heard %s", got)
			}
			for _, table := range []*Table{a, b} {
				if got := ids(table, nil); got != "" {
					t.Errorf("left: %q", got)
				}
			}

			// A verdict that was kept does not count when its call is decided anew before it is heard.
			a.lookEvery = time.Hour
			ctx, anew := context.WithCancelCause(t.Context())
			late := shares(ctx, a, callOf("3", "alice"))
			if _, err := b.Decide(t.Context(), "3", "d-3", Verdict{bob, true, ""}); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Decide(t.Context(), "3", "d-3", Verdict{carol, false, ""}); !errors.Is(err, ErrUnknown) {
				t.Errorf("a second verdict: %v", err)
			}
			anew(ErrRestart)
			if got := <-late; got != ` false "" `+ErrRestart.Error() {
				t.Errorf("got %s", got)
			}
			// It is for this wait alone, even if the same call waits again.
			again := callOf("3", "alice")
			said := shares(t.Context(), a, again)
			a.lookEvery = time.Millisecond
			old := *again
			old.Since = old.Since.Add(-time.Second)
			if _, ok := a.deps.Shared.heard(t.Context(), again); ok {
				t.Error("the former verdict is still there")
			}
			if first, err := a.deps.Shared.decide(t.Context(), &old, Verdict{By: bob, Approve: true}); err != nil || !first {
				t.Fatal(first, err)
			}
			if _, ok := a.deps.Shared.heard(t.Context(), again); ok {
				t.Error("a verdict on the former wait counts")
			}
			a.Close()
			if got := <-said; !strings.Contains(got, ErrClosed.Error()) {
				t.Errorf("got %s", got)
			}

			// A Redis that has lost everything shows it again.
			b.lookEvery = time.Millisecond
			lost := shares(t.Context(), b, callOf("5", "alice"))
			keys, name := b.deps.Shared.keysOf("5")
			if _, err := db.Run(t.Context(), b.deps.Shared.drop, keys, name); err != nil {
				t.Fatal(err)
			}
			for decided := false; !decided; {
				_, err := a.Decide(t.Context(), "5", "d-5", Verdict{bob, true, ""})
				if decided = err == nil; err != nil && !errors.Is(err, ErrUnknown) {
					t.Fatal(err)
				}
			}
			if got := <-lost; got != `bob true "" <nil>` {
				t.Errorf("got %s", got)
			}

			// On a large call its replica alone decides.
			large := callOf("4", "alice")
			large.Arguments = mcp.Raw(`"` + strings.Repeat("x", mostShared) + `"`)
			alone := shares(t.Context(), b, large)
			if got := ids(a, nil) + "," + ids(b, nil); got != ",4" {
				t.Errorf("seen: %q", got)
			}
			if _, err := b.Decide(t.Context(), "4", "d-4", Verdict{bob, true, ""}); err != nil {
				t.Error(err)
			}
			if got := <-alone; got != `bob true "" <nil>` {
				t.Errorf("got %s", got)
			}
		})
	}
}

// TestDecideWithoutRedis: without Redis nobody decides on what other replicas may see, but the call
// waits.
// TestDecidedCallsAreNotListed: a call on which somebody has decided waits no more, before its replica has heard.
func TestDecidedCallsAreNotListed(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	a, _ := replica(t, url, secret)
	b, _ := replica(t, url, secret)
	a.lookEvery = time.Hour
	bob := person("bob", "changers")
	ctx, stop := context.WithCancel(t.Context())
	said := shares(ctx, a, callOf("one", "alice"))
	waits, err := b.List(t.Context(), &bob)
	if err != nil || len(waits) != 1 {
		t.Fatalf("%v %+v", err, waits)
	}
	if _, err := b.Decide(t.Context(), "one", waits[0].Digest, Verdict{Approve: true, By: bob}); err != nil {
		t.Fatal(err)
	}
	if waits, err := b.List(t.Context(), &bob); err != nil || len(waits) != 0 {
		t.Errorf("%v %+v", err, waits)
	}
	stop()
	<-said
}

func TestDecideWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, db := replica(t, server.URL(), secret)
	bob := person("bob", "changers")
	ctx, cancel := context.WithCancel(t.Context())
	shared := shares(ctx, a, callOf("1", "alice"))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Decide(t.Context(), "1", "d-1", Verdict{bob, true, ""}); !errors.Is(err, ErrAway) {
		t.Errorf("got %v", err)
	}
	if all, err := a.List(t.Context(), &bob); !errors.Is(err, ErrAway) || len(all) != 1 {
		t.Errorf("got %v, %v", all, err)
	}
	later := shares(ctx, a, callOf("2", "alice"))
	if _, err := a.Decide(t.Context(), "2", "d-2", Verdict{bob, true, ""}); !errors.Is(err, ErrAway) {
		t.Errorf("got %v", err)
	}
	large := callOf("3", "alice")
	large.Arguments = mcp.Raw(`"` + strings.Repeat("x", mostShared) + `"`)
	alone := shares(ctx, a, large)
	if _, err := a.Decide(t.Context(), "3", "d-3", Verdict{bob, true, ""}); err != nil {
		t.Errorf("got %v", err)
	}
	if got := <-alone; got != `bob true "" <nil>` {
		t.Errorf("got %s", got)
	}
	cancel()
	for _, said := range []<-chan string{shared, later} {
		if got := <-said; !strings.Contains(got, "context canceled") {
			t.Errorf("got %s", got)
		}
	}
}
