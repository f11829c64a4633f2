package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy/allowance"
)

func rateOf(t testing.TB, text string) Rate {
	t.Helper()
	var r Rate
	if err := r.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return r
}

// limited is a limiter above a guard.
type limited struct {
	*testing.T
	shelves *shelves
	handler mcp.Handler
}

func newLimited(t *testing.T, limits ...Limit) *limited {
	t.Helper()
	s := newShelves(tool("u", "get"), tool("u", "set"), tool("prod", "execute"), tool("secret", "x"),
		resource("u", "file:///a"), resource("u", "FILE:///a"))
	p := newForTest(t, Config{Rules: []Rule{{Name: "a", Allow: []string{"*:u/*"}},
		{Name: "q", Allow: []string{"tools:prod/*"}, Ask: []string{"tools:prod/*"}}}})
	g, err := NewGuard(p, GuardDeps{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLimiter(limits, LimiterDeps{Policy: p})
	if err != nil {
		t.Fatal(err)
	}
	return &limited{t, s, mcp.Chain(s, seeing(s), l.Middleware, g.Middleware)}
}

// get calls a tool and returns how long to wait for the next, 0 when it may be called.
func (l *limited) call(c *mcp.Call) time.Duration {
	l.Helper()
	_, err := l.handler.Handle(l.Context(), c)
	if err == nil {
		return 0
	}
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok || e.Code != mcp.CodeRateLimited {
		l.Fatalf("got %v", err)
	}
	ms, _ := e.Data.Member("retry_after_ms")
	wait, err := time.ParseDuration(string(ms) + "ms")
	if err != nil {
		l.Fatal(err)
	}
	return wait
}

func get(caller mcp.Caller) *mcp.Call {
	return callOf(mcp.MethodToolsCall, "u__get", `{"name":"u__get"}`, caller)
}

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, Limit{Name: "per-user", Rate: rateOf(t, "60/m"), Burst: 3})
		alice, bob := user("alice"), user("bob")
		for range 3 {
			if wait := l.call(get(alice)); wait != 0 {
				t.Fatalf("within the burst: wait %s", wait)
			}
		}
		if wait := l.call(get(alice)); wait < time.Second || wait > time.Second+2*time.Millisecond {
			t.Errorf("after the burst: wait %s, want 1s", wait)
		}
		if wait := l.call(get(bob)); wait != 0 {
			t.Errorf("another user: wait %s", wait)
		}
		time.Sleep(time.Second)
		if wait := l.call(get(alice)); wait != 0 {
			t.Errorf("a second later: wait %s", wait)
		}
		if wait := l.call(get(alice)); wait == 0 {
			t.Error("and once more in the same second")
		}
		for range 10 {
			l.call(get(alice)) // refused calls cost nothing
		}
		time.Sleep(time.Hour)
		for range 3 {
			if wait := l.call(get(alice)); wait != 0 {
				t.Errorf("after a pause: wait %s", wait)
			}
		}
		if wait := l.call(get(alice)); wait == 0 {
			t.Error("a pause gave more than the burst")
		}
	})
}

func TestLimitError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, Limit{Name: "slow", Per: PerClient, Rate: rateOf(t, "7/h"), Burst: 1})
		l.call(get(user("alice")))
		_, err := l.handler.Handle(t.Context(), get(user("alice")))
		e, _ := errors.AsType[*mcp.Error](err)
		want := `{"limit":"slow","retry_after":515,"retry_after_ms":514286,"retryable":true,"executed":"no"}`
		if e == nil || string(e.Data) != want ||
			e.Message != "Too many calls: the limit slow is 7/h for one client. Try again in 515 s." {
			t.Errorf("got %v %s, want %s", err, e.Data, want)
		}
	})
}

// TestLimitShared says who shares an allowance.
func TestLimitShared(t *testing.T) {
	alice, bob := user("alice"), user("bob")
	otherClient, otherIssuer := user("alice"), user("alice")
	otherClient.ClientID = "other"
	otherIssuer.Issuer = "https://b.example"
	otherIssuer = mcp.NewCaller(otherIssuer)
	set := callOf(mcp.MethodToolsCall, "u__set", `{"name":"u__set"}`, alice)
	session := get(alice)
	session.Session = "another"
	read := func(uri string) *mcp.Call {
		return callOf(mcp.MethodResourcesRead, uri, fmt.Sprintf(`{"uri":%q}`, uri), alice)
	}
	complete := callOf(mcp.MethodComplete, "u+file:///a", `{"ref":{"type":"ref/resource","uri":"u+file:///a"}}`, alice)
	tests := []struct {
		name   string
		limit  Limit
		second *mcp.Call // after a first get of alice
		shared bool
	}{
		{"per user: another tool", Limit{Per: PerUser}, set, true},
		{"per user: another session", Limit{}, session, true},
		{"per user: another client", Limit{}, get(otherClient), true},
		{"per user: the same name at another issuer", Limit{}, get(otherIssuer), false},
		{"per user: a resource", Limit{}, read("u+file:///a"), true},
		{"per user: a completion", Limit{}, complete, true},
		{"per client: another user", Limit{Per: PerClient}, get(bob), true},
		{"per client: another client", Limit{Per: PerClient}, get(otherClient), false},
		{"per tool: another user", Limit{Per: PerTool}, get(bob), true},
		{"per tool: another tool", Limit{Per: PerTool}, set, false},
		{"only some tools", Limit{What: []string{"tools:u/set", "tools:u/get"}}, set, true},
		{"other tools", Limit{What: []string{"tools:u/set"}}, set, false},
		{"other kinds", Limit{What: []string{"tools:*"}}, read("u+file:///a"), false},
		{"only some users", Limit{Who: Who{Users: []string{"alice"}}, Per: PerTool}, get(bob), false},
		{"only other users", Limit{Who: Who{Users: []string{"bob"}}}, get(alice), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.limit.Name, tt.limit.Rate, tt.limit.Burst = "l", rateOf(t, "1/d"), 1
			l := newLimited(t, tt.limit)
			if wait := l.call(get(alice)); wait != 0 {
				t.Fatalf("the first: wait %s", wait)
			}
			if got := l.call(tt.second) != 0; got != tt.shared {
				t.Errorf("shared: %t", got)
			}
		})
	}
	t.Run("by another spelling", func(t *testing.T) {
		l := newLimited(t, Limit{Name: "l", What: []string{"resources:u/file:///a"}, Rate: rateOf(t, "1/d"), Burst: 1})
		l.call(read("u+file:///a"))
		if l.call(read("u+FILE:///a")) == 0 {
			t.Error("is not counted")
		}
	})
}

// TestLimitsTogether: a call counts at all limits or at none.
func TestLimitsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t,
			Limit{Name: "all", Rate: rateOf(t, "10/m"), Burst: 10},
			Limit{Name: "set", What: []string{"tools:u/set"}, Rate: rateOf(t, "1/h"), Burst: 1})
		set := callOf(mcp.MethodToolsCall, "u__set", `{"name":"u__set"}`, user("alice"))
		l.call(set)
		for range 20 {
			if l.call(set) < 59*time.Minute {
				t.Fatal("the longer wait is not told")
			}
		}
		for i := range 9 {
			if wait := l.call(get(user("alice"))); wait != 0 {
				t.Fatalf("get %d: the refused calls were counted", i)
			}
		}
		if l.call(get(user("alice"))) == 0 {
			t.Error("the first call was not counted")
		}
	})
}

// TestLimitTellsNothing: a limit does not show that something exists that the caller
// cannot see.
func TestLimitTellsNothing(t *testing.T) {
	l := newLimited(t, Limit{Name: "l", Rate: rateOf(t, "1/d"), Burst: 1},
		Limit{Name: "secret", What: []string{"tools:secret/*"}, Per: PerTool, Rate: rateOf(t, "1/d"), Burst: 1})
	for _, name := range []string{"secret__x", "secret__nothing", "secret__x", "secret__nothing"} {
		_, err := l.handler.Handle(t.Context(), callOf(mcp.MethodToolsCall, name, `{}`, user("alice")))
		if !mcp.HasCode(err, mcp.CodeInvalidParams) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if wait := l.call(get(user("alice"))); wait != 0 {
		t.Errorf("they were counted: wait %s", wait)
	}
	for range 3 {
		if _, err := l.handler.Handle(t.Context(), callOf(mcp.MethodToolsList, "", ``, user("alice"))); err != nil {
			t.Errorf("a list is limited: %v", err)
		}
	}
}

// TestLimitRounds: the rounds of one call count once, and a round that is come back to
// twice counts.
func TestLimitRounds(t *testing.T) {
	l := newLimited(t, Limit{Name: "l", Rate: rateOf(t, "1/d"), Burst: 1})
	c := execute(user("alice"), `{}`)
	reply, err := l.handler.Handle(t.Context(), c)
	if err != nil || reply.Ask == nil {
		t.Fatalf("got %+v, %v", reply, err)
	}
	again := retry(c, reply.Ask, yes)
	if reply, err := l.handler.Handle(t.Context(), again); err != nil || reply.Ask != nil {
		t.Fatalf("the approved call: got %+v, %v", reply, err)
	}
	if l.call(again) == 0 {
		t.Error("a state that was used up is good for another call")
	}
	forged := get(user("bob"))
	forged.Round = mcp.NewRound(mcp.FrameCounted, "X")
	if _, err := l.handler.Handle(t.Context(), forged); err != nil {
		t.Errorf("a round that was not counted: got %v", err)
	}
	if l.call(get(user("bob"))) == 0 {
		t.Error("a round that was not counted passes without being counted")
	}
	if len(l.shelves.reached()) != 2 {
		t.Errorf("reached %q, want one call of each user", l.shelves.reached())
	}
}

// TestLimitsTakenAway: a call that waits for its user while a reload takes the limits
// away, or brings some, goes on.
func TestLimitsTakenAway(t *testing.T) {
	with, without := newLimited(t, Limit{Name: "l", Rate: rateOf(t, "1/d"), Burst: 1}), newLimited(t)
	for _, tt := range []struct {
		name          string
		before, after *limited
	}{{"taken away", with, without}, {"brought", without, with}} {
		c := execute(user(tt.name), `{}`)
		reply, err := tt.before.handler.Handle(t.Context(), c)
		if err != nil || reply.Ask == nil {
			t.Fatalf("%s: got %+v, %v", tt.name, reply, err)
		}
		// The guards are two, so the approval is not known to the second one: it asks anew.
		reply, err = tt.after.handler.Handle(t.Context(), retry(c, reply.Ask, yes))
		if err != nil || reply.Ask == nil {
			t.Errorf("%s: got %+v, %v", tt.name, reply, err)
		}
	}
}

func TestLimitBroken(t *testing.T) {
	s := newShelves(tool("u", "get"))
	l, err := NewLimiter(Limits{{Name: "l", Rate: rateOf(t, "1/s")}},
		LimiterDeps{Policy: newForTest(t, Config{Default: DefaultAllow}), Buckets: brokenBuckets{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mcp.Chain(s, seeing(s), l.Middleware).Handle(t.Context(), get(user("alice"))); !errors.Is(err,
		errBroken) || s.calls != nil {
		t.Errorf("got %v", err)
	}
	if _, err := NewLimiter(Limits{}, LimiterDeps{}); err == nil {
		t.Error("made without its parts")
	}
}

type brokenBuckets struct{}

func (brokenBuckets) Take(context.Context, []allowance.Bucket) (time.Duration, int, error) {
	return 0, 0, errBroken
}

func TestKeysAreBounded(t *testing.T) {
	if got := bucketKey(strings.Repeat("x", 1<<20)); len(got) > 100 {
		t.Errorf("a key has %d bytes", len(got))
	}
}
