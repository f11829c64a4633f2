package foureyes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

const issuer = "https://login.example.com"

func person(name string, groups ...string) mcp.Caller {
	return mcp.NewCaller(mcp.Caller{Issuer: issuer, Subject: name, Groups: groups, Token: "secret"})
}

func value(t *testing.T, of prometheus.Metric) float64 {
	t.Helper()
	var m dto.Metric
	if err := of.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetGauge().GetValue() + m.GetCounter().GetValue()
}

// newTest makes a table on whose calls the group changers decides.
func newTest() (*Table, *Metrics) {
	m := NewMetrics(prometheus.NewRegistry())
	return New(Deps{Metrics: m, May: func(rules []string, by *mcp.Caller) bool {
		return slices.Equal(rules, []string{"r"}) && slices.Contains(by.Groups, "changers")
	}}), m
}

func callOf(id, user string) *Call {
	return &Call{ID: id, Issuer: issuer, User: user, Rules: []string{"r"}, Digest: "d-" + id,
		Arguments: mcp.Raw(`{"n":1}`)}
}

// listOf is List of a table that shares nothing, or whose Redis answers.
func listOf(t *testing.T, table *Table, to *mcp.Caller) []Shown {
	t.Helper()
	all, err := table.List(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// waits makes a call of alice wait, and returns what becomes of it.
func waits(ctx context.Context, table *Table, id string, limit time.Duration) <-chan string {
	said := make(chan string, 1)
	go func() {
		v, err := table.Wait(ctx, "alice", callOf(id, "alice"), limit, func() {})
		said <- fmt.Sprintf("%s %v %q %v", v.By.Subject, v.Approve, v.Reason, err)
	}()
	synctest.Wait()
	return said
}

// TestDecide: who decides on a call, and what becomes of it.
func TestDecide(t *testing.T) {
	bob := person("bob", "changers")
	for _, tt := range []struct {
		name, id, digest string
		by               mcp.Caller
		approve          bool
		err              error
		want             string // "" if the call goes on waiting
	}{
		{"approved", "1", "d-1", bob, true, nil, `bob true "why" <nil>`},
		{"refused", "1", "d-1", bob, false, nil, `bob false "why" <nil>`},
		{"another id", "2", "d-1", bob, true, ErrUnknown, ""},
		{"another digest", "1", "d-2", bob, true, ErrDigest, ""},
		{"no digest", "1", "", bob, true, ErrDigest, ""},
		{"another digest refuses", "1", "d-2", bob, false, ErrDigest, ""},
		{"not in the group", "1", "d-1", person("eve", "others"), true, ErrUnknown, ""},
		{"in no group", "1", "d-1", person("eve"), false, ErrUnknown, ""},
		{"the caller", "1", "d-1", person("alice", "changers"), true, ErrOwn, ""},
		{"the caller refuses", "1", "d-1", person("alice", "changers"), false, ErrOwn, ""},
		{"the caller outside of the group", "1", "d-1", person("alice"), true, ErrUnknown, ""},
		{"the caller's name at another issuer", "1", "d-1",
			mcp.Caller{Issuer: "https://other.example", Subject: "alice",
				Groups: []string{"changers"}}, true, nil, `alice true "why" <nil>`},
		{"nobody", "1", "d-1", mcp.Caller{Groups: []string{"changers"}}, true, ErrUnknown, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table, _ := newTest()
				ctx, cancel := context.WithCancel(t.Context())
				said := waits(ctx, table, "1", time.Minute)
				c, err := table.Decide(t.Context(), tt.id, tt.digest, Verdict{tt.by, tt.approve, "why"})
				if !errors.Is(err, tt.err) || (err == nil) != (c != nil) {
					t.Fatalf("got %v, %v, want %v", c, err, tt.err)
				}
				if tt.want != "" {
					if got := <-said; got != tt.want {
						t.Errorf("got %s, want %s", got, tt.want)
					}
					if _, err := table.Decide(t.Context(), tt.id, tt.digest, Verdict{By: bob}); !errors.Is(err, ErrUnknown) {
						t.Errorf("decided twice: %v", err)
					}
					cancel()
					return
				}
				if len(listOf(t, table, nil)) != 1 {
					t.Error("it does not wait any more")
				}
				cancel()
				if got := <-said; got != `false "" context canceled` && got != ` false "" context canceled` {
					t.Errorf("got %s", got)
				}
			})
		})
	}
}

// TestOneDecides: of many who decide at the same time, one is told that it counts.
func TestOneDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTest()
		said := waits(t.Context(), table, "1", time.Minute)
		var mu sync.Mutex
		var counted []string
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				by := person(fmt.Sprint("bob-", i), "changers")
				if _, err := table.Decide(t.Context(), "1", "d-1", Verdict{by, i%2 == 0, ""}); err == nil {
					mu.Lock()
					defer mu.Unlock()
					counted = append(counted, by.Subject)
				}
			})
		}
		all.Wait()
		if got := <-said; len(counted) != 1 || !strings.HasPrefix(got, counted[0]+" ") {
			t.Errorf("%v were told that they decided, and the call heard %s", counted, got)
		}
	})
}

// TestEnds: how a wait ends without a decision. Nothing is left of it.
func TestEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*Table, context.CancelCauseFunc)
		want string
	}{
		{"expired", func(*Table, context.CancelCauseFunc) {}, ErrExpired.Error()},
		{"cancelled", func(_ *Table, cancel context.CancelCauseFunc) { cancel(errors.New("the client has left")) },
			"context canceled"},
		{"anew", func(_ *Table, cancel context.CancelCauseFunc) { cancel(ErrRestart) }, ErrRestart.Error()},
		{"closed", func(t *Table, _ context.CancelCauseFunc) { t.Close() }, ErrClosed.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table, m := newTest()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				said := waits(ctx, table, "1", time.Minute)
				if value(t, m.waiting) != 1 {
					t.Error("it is not counted")
				}
				tt.end(table, cancel)
				if got := <-said; got != ` false "" `+tt.want {
					t.Errorf("got %s", got)
				}
				if len(table.calls)+len(table.users)+table.bytes != 0 || value(t, m.waiting) != 0 {
					t.Errorf("left: %+v", table)
				}
				again := <-waits(ctx, table, "2", time.Millisecond)
				if closed := strings.Contains(again, ErrClosed.Error()); closed != (tt.name == "closed") {
					t.Errorf("the next one: %s", again)
				}
			})
		})
	}
}

// TestBounds: how many calls wait, of one user, of all, and how large they are together.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, m := newTest()
		var all sync.WaitGroup
		wait := func(user, id string, size int) {
			c := callOf(id, user)
			c.Arguments = make(mcp.Raw, size)
			all.Go(func() { _, _ = table.Wait(t.Context(), user, c, time.Minute, func() {}) })
			synctest.Wait()
		}
		waiting := func(want int) {
			t.Helper()
			if got := len(listOf(t, table, nil)); got != want {
				t.Errorf("%d wait, want %d", got, want)
			}
		}
		for i := range MostOfUser + 5 {
			wait("alice", fmt.Sprint("a", i), 1)
		}
		waiting(MostOfUser)
		wait("bob", "a0", 1) // this id waits already
		waiting(MostOfUser)
		wait("bob", "large", mostBytes)
		waiting(MostOfUser)
		for i := range MostWaiting {
			wait(fmt.Sprint("user-", i), fmt.Sprint("b", i), 1)
		}
		waiting(MostWaiting)
		if got := value(t, m.full); got != 5+2+MostOfUser {
			t.Errorf("%v were refused", got)
		}
		table.Close()
		all.Wait()
		waiting(0)
	})
}

// TestList: an approver sees what waits for them, and nothing else; whoever is not identified
// sees all.
func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTest()
		first := waits(t.Context(), table, "1", time.Minute)
		<-time.After(time.Second)
		second := waits(t.Context(), table, "2", time.Minute)
		for name, who := range map[string]mcp.Caller{"bob": person("bob", "changers"), "alice": person("alice", "changers"),
			"eve": person("eve")} {
			var got []string
			for _, s := range listOf(t, table, &who) {
				got = append(got, s.ID)
				if !s.Mine || s.Until.Sub(s.Since) != time.Minute {
					t.Errorf("%+v", s)
				}
			}
			if want := map[string]string{"bob": "1 2"}[name]; strings.Join(got, " ") != want {
				t.Errorf("%s sees %v", name, got)
			}
		}
		if all := listOf(t, table, nil); len(all) != 2 || all[0].Mine {
			t.Errorf("got %+v", all)
		}
		table.Close()
		<-first
		<-second
	})
}

// TestTell: the caller hears at once, and every ten seconds, that the call waits.
func TestTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTest()
		told := 0
		if _, err := table.Wait(t.Context(), "alice", callOf("1", "alice"), 35*time.Second,
			func() { told++ }); !errors.Is(err, ErrExpired) || told != 4 {
			t.Errorf("told %d times, %v", told, err)
		}
	})
}
