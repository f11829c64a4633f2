package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy/foureyes"
)

var changers = &Approvers{Who: Who{Groups: []string{"changers"}}}

// second is a guard over a tool that somebody else has to approve of.
type second struct {
	*testing.T
	shelves *shelves
	handler mcp.Handler
	guard   *Guard
	table   *foureyes.Table
}

func newSecond(t *testing.T, more ...Rule) *second {
	t.Helper()
	s := newShelves(tool("prod", "execute"), mcp.Target{Kind: mcp.KindSkills, Upstream: "prod", Name: "s"},
		resource("prod", "db://x"))
	p := newForTest(t, Config{Rules: append([]Rule{{Name: "four eyes", Allow: []string{"*:prod/*"},
		Ask: []string{"*:prod/*"}, Approvers: changers}}, more...)})
	table := foureyes.New(foureyes.Deps{May: p.Approves})
	g, err := NewGuard(p, GuardDeps{FourEyes: table})
	if err != nil {
		t.Fatal(err)
	}
	return &second{t, s, mcp.Chain(s, seeing(s), g.Middleware), g, table}
}

// heard is what a client hears.
type heard struct {
	reply *mcp.Reply
	err   error
}

// begin makes a call that waits.
func (s *second) begin(ctx context.Context, c *mcp.Call) <-chan heard {
	said := make(chan heard, 1)
	go func() {
		reply, err := s.handler.Handle(ctx, c)
		said <- heard{reply, err}
	}()
	synctest.Wait()
	return said
}

func (s *second) list(to *mcp.Caller) []foureyes.Shown {
	s.Helper()
	all, err := s.table.List(s.Context(), to)
	if err != nil {
		s.Fatal(err)
	}
	return all
}

// decide decides on the only call that waits, as bob, who is one of the changers.
func (s *second) decide(approve bool, reason string) *foureyes.Call {
	s.Helper()
	bob := user("bob", "changers")
	all := s.list(&bob)
	if len(all) != 1 {
		s.Fatalf("bob sees %+v", all)
	}
	if got := s.shelves.reached(); len(got) != 0 {
		s.Fatalf("it ran before anybody decided: %q", got)
	}
	c, err := s.table.Decide(s.Context(), all[0].ID, all[0].Digest,
		foureyes.Verdict{By: bob, Approve: approve, Reason: reason})
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// TestSecondApprover: the caller's client is not asked, and need not be able to be. What was
// shown runs, once.
func TestSecondApprover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecond(t)
		c := execute(user("alice", "changers"), `{"sql":"DROP TABLE x"}`)
		c.Params = mcp.Raw(`{"name":"prod__execute","arguments":{"sql":"DROP TABLE x"},"task":{},"_meta":{"vendor/force":true,"progressToken":1}}`)
		c.Caps, c.Verdict, c.Caller.View = nil, &mcp.Verdict{}, ""
		var told []string
		c.Notify = func(e mcp.Event) { told = append(told, e.Method+" "+string(e.Params)) }
		heard := s.begin(t.Context(), c)
		alice, eve := c.Caller, user("eve", "others")
		if len(s.list(&alice)) != 0 || len(s.list(&eve)) != 0 {
			t.Error("alice and eve see it")
		}
		shown := s.list(nil)[0].Call
		if _, err := s.table.Decide(t.Context(), c.ID, shown.Digest,
			foureyes.Verdict{By: alice, Approve: true}); err != foureyes.ErrOwn {
			t.Errorf("alice decides: %v", err)
		}
		s.decide(true, "")
		got := <-heard
		if got.err != nil || string(got.reply.Result) != `{"ok":true}` || len(s.shelves.calls) != 1 ||
			string(s.shelves.calls[0].Params) != string(c.Params) {
			t.Errorf("got %+v, ran %v", got, s.shelves.calls)
		}
		if c.Verdict.Approval != "approved" || c.Verdict.Approver != "bob" || c.Verdict.Rule != "four eyes" {
			t.Errorf("the verdict is %+v", c.Verdict)
		}
		want := &foureyes.Call{
			ID: c.ID, Since: shown.Since, Until: shown.Since.Add(defaultWait), Issuer: alice.Issuer,
			User: "alice", Client: "cli",
			Method: mcp.MethodToolsCall, Name: "prod__execute", Upstream: "prod", Original: "execute",
			Rules:  []string{"four eyes"},
			Digest: digestOf(c, tool("prod", "execute")), Arguments: mcp.Raw(`{"sql":"DROP TABLE x"}`),
			Others: []foureyes.Other{{Name: "task", Value: mcp.Raw(`{}`)},
				{In: "_meta", Name: "vendor/force", Value: mcp.Raw(`true`)}},
		}
		if diff := cmp.Diff(want, shown); diff != "" {
			t.Errorf("shown (-want +got):\n%s", diff)
		}
		if len(told) != 1 ||
			told[0] != `notifications/progress {"progress":0.000000,"message":"Waiting for somebody else to approve of this call"}` {
			t.Errorf("told %q", told)
		}
		if heard := s.begin(t.Context(), c); len(s.list(nil)) != 1 {
			t.Error("the approval was good twice")
		} else {
			s.table.Close()
			<-heard
		}
	})
}

// TestSecondAfterReload: a call that the former rules have decided on, and that comes to wait after
// the reload, does not wait by these rules.
func TestSecondAfterReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := newSecond(t), time.Now()
		s.guard.Stop()
		got := <-s.begin(t.Context(), execute(user("alice"), `{}`))
		if !mcp.HasCode(got.err, mcp.CodeDraining) || s.shelves.calls != nil {
			t.Errorf("got %+v, ran %v", got, s.shelves.calls)
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("it waited for %s", waited)
		}
	})
}

// TestSecondTimeRunsOn: however often the rules change, a call waits no longer in all than they allow.
func TestSecondTimeRunsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := newSecond(t), time.Now()
		c := execute(user("alice"), `{}`)
		c.Verdict = &mcp.Verdict{}
		for range 5 {
			reload := time.AfterFunc(defaultWait*2/5, s.guard.Stop)
			<-s.begin(t.Context(), c)
			if reload.Stop() {
				break
			}
			s = newSecond(t)
		}
		if c.Verdict.Approval != "expired" {
			t.Errorf("the verdict is %+v", c.Verdict)
		}
		if waited := time.Since(began); waited != defaultWait {
			t.Errorf("it waited for %s, want %s", waited, defaultWait)
		}
	})
}

// TestSecondEnds: how a call ends that nobody has approved of. It never runs.
func TestSecondEnds(t *testing.T) {
	for _, tt := range []struct {
		name     string
		end      func(*second, context.CancelFunc)
		want     string // in the result, or of the error
		code     int    // of the error
		approval string
	}{
		{"refused", func(s *second, _ context.CancelFunc) { s.decide(false, "") },
			"has refused it, so it did not run. Do not make it again unless the user asks for it. (GH-APPROVAL-REFUSED)",
			0, "refused"},
		{"refused with a reason", func(s *second, _ context.CancelFunc) {
			s.decide(false, "not \x1b[31m\u202etoday"+strings.Repeat("x", 1000))
		},
			`The reason given: not \\u001b[31m\\u202etodayxxx`, 0, "refused"},
		{"expired", func(*second, context.CancelFunc) {},
			"nobody did within 5m0s, so it did not run. (GH-APPROVAL-TIMEOUT)", 0, "expired"},
		{"cancelled", func(_ *second, cancel context.CancelFunc) { cancel() }, "context canceled", 0, "waiting"},
		{"stopping", func(s *second, _ context.CancelFunc) { s.table.Close() }, "the gateway is stopping",
			mcp.CodeDraining, "waiting"},
		{"a reload", func(s *second, _ context.CancelFunc) { s.guard.Stop() }, "the configuration has changed",
			mcp.CodeDraining, "waiting"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSecond(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c := execute(user("alice"), `{}`)
				c.Verdict = &mcp.Verdict{}
				heard := s.begin(ctx, c)
				tt.end(s, cancel)
				got := <-heard
				said := fmt.Sprint(got.err)
				if e, _ := errors.AsType[*mcp.Error](got.err); e != nil && tt.code == 0 {
					if said = string(mcp.AppendString(nil, e.Message)); !e.AsResult {
						t.Errorf("a model does not read %s", said)
					}
				} else if tt.code != 0 && !mcp.HasCode(got.err, tt.code) {
					t.Errorf("got %v", got.err)
				}
				if !strings.Contains(said, tt.want) || len(said) > 1000 || s.shelves.calls != nil ||
					c.Verdict.Approval != tt.approval || len(s.list(nil)) != 0 {
					t.Errorf("got %s, %+v, ran %v", said, c.Verdict, s.shelves.calls)
				}
			})
		})
	}
	t.Run("a resource", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSecond(t)
			heard := s.begin(t.Context(), callOf(mcp.MethodResourcesRead, "prod+db://x", `{"uri":"prod+db://x"}`, user("alice")))
			s.decide(false, "")
			got := <-heard
			if !mcp.HasCode(got.err, mcp.CodeInternal) || mcp.FailureOf(got.err).String() != "GH-APPROVAL-REFUSED" {
				t.Errorf("got %v", got.err)
			}
		})
	})
}

// TestSecondForSkills: a stateless client, which cannot be asked during skills/get, waits like any
// other; the directory needs no approval.
// TestSecondEndsWithTheCredential: a call whose key was withdrawn waits no longer, and nobody can
// approve of it any more.
func TestSecondEndsWithTheCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecond(t)
		good := true
		s.guard.lasting = mcp.NewLasting(func(_ context.Context, c *mcp.Caller) bool { return good || c.Subject != "ann" })
		said := s.begin(t.Context(), execute(user("ann"), `{}`))
		s.guard.lasting.Ask(t.Context())
		if bob := user("bob", "changers"); len(s.list(&bob)) != 1 {
			t.Fatal("it does not wait")
		}
		good = false
		s.guard.lasting.Ask(t.Context())
		got := <-said
		if mcp.FailureOf(got.err) != failure.TokenExpired || !strings.Contains(got.err.Error(), "did not run") {
			t.Errorf("the caller hears %+v, %v", got.reply, got.err)
		}
		if bob := user("bob", "changers"); len(s.list(&bob)) != 0 || len(s.shelves.reached()) != 0 {
			t.Error("it still waits, or ran")
		}
	})
}

func TestSecondForSkills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecond(t)
		c := callOf(mcp.MethodSkillsGet, "prod__s", `{"name":"prod__s"}`, user("alice"))
		c.Ephemeral = true
		heard := s.begin(t.Context(), c)
		s.decide(true, "")
		if got := <-heard; got.err != nil || string(got.reply.Result) != `{"ok":true}` {
			t.Errorf("got %+v", got)
		}
		list := callOf(mcp.MethodDirectoryRead, "prod+db://x", `{"uri":"prod+db://x"}`, user("alice"))
		if reply, err := s.handler.Handle(t.Context(), list); err != nil || string(reply.Result) != `{"ok":true}` {
			t.Errorf("got %+v, %v", reply, err)
		}
	})
}

// TestSecondAfterUser: where another rule asks the user, the user comes first.
func TestSecondAfterUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecond(t, Rule{Name: "the user", Ask: []string{"tools:prod/*"}})
		c := execute(user("alice"), `{}`)
		reply, err := s.handler.Handle(t.Context(), c)
		if err != nil || reply.Ask == nil || len(s.list(nil)) != 0 {
			t.Fatalf("got %+v, %v", reply, err)
		}
		heard := s.begin(t.Context(), retry(c, reply.Ask, yes))
		s.decide(true, "")
		if got := <-heard; got.err != nil || string(got.reply.Result) != `{"ok":true}` || s.shelves.calls[0].Answers != nil {
			t.Errorf("got %+v", got)
		}
		if reply, err := s.handler.Handle(t.Context(), retry(c, reply.Ask, yes)); err != nil || reply.Ask == nil {
			t.Errorf("the user's approval was good twice: %+v, %v", reply, err)
		}
		c.Caps = nil
		if reply, err := s.handler.Handle(t.Context(), c); !declinedFor(err, failure.ApprovalImpossible) {
			t.Errorf("a client that cannot ask: %+v, %v", reply, err)
		}
	})
}

// TestSecondRounds: a call that asks its user questions needs one approval.
func TestSecondRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecond(t)
		s.shelves.answer = func(c *mcp.Call) (*mcp.Reply, error) {
			if c.Round.Top().Value == "mine" {
				return &mcp.Reply{Result: mcp.Raw(`{"done":true}`)}, nil
			}
			return &mcp.Reply{Ask: &mcp.Ask{Round: mcp.NewRound(mcp.FrameServer, "mine"),
				Requests: []mcp.InputRequest{{Key: "k", Method: mcp.MethodElicit}}}}, nil
		}
		c := execute(user("alice"), `{}`)
		heard := s.begin(t.Context(), c)
		s.decide(true, "")
		got := <-heard
		if got.err != nil || got.reply.Ask == nil {
			t.Fatalf("got %+v", got)
		}
		other := retry(c, got.reply.Ask, `{"action":"accept"}`)
		other.Params = mcp.Raw(`{"name":"prod__execute","arguments":{"x":1}}`)
		again := retry(c, got.reply.Ask, `{"action":"accept"}`)
		if reply, err := s.handler.Handle(t.Context(), again); err != nil || string(reply.Result) != `{"done":true}` {
			t.Errorf("got %+v, %v", reply, err)
		}
		if _, err := s.handler.Handle(t.Context(), other); !mcp.HasCode(err, mcp.CodeInvalidParams) {
			t.Errorf("other arguments came back: %v", err)
		}
	})
}

// TestFourEyesDecision: what rules with approvers decide together.
func TestFourEyesDecision(t *testing.T) {
	all := []string{"tools:*"}
	allow := Rule{Name: "allow", Allow: all}
	first := Rule{Name: "first", Ask: all, Approvers: &Approvers{Who: Who{Groups: []string{"a"}}, Timeout: time.Minute}}
	other := Rule{Name: "other", Ask: all, Approvers: &Approvers{Who: Who{Groups: []string{"b"}}}, When: "args.n > 1"}
	plain := Rule{Name: "plain", Ask: all, ApproveFor: time.Hour}
	for _, tt := range []struct {
		name  string
		rules []Rule
		args  string
		want  Decision
	}{
		{"one", []Rule{allow, first}, `{"n":1}`, Decision{Effect: Ask, Rule: "first",
			FourEyes: &FourEyes{Rules: []string{"first"}, Timeout: time.Minute}}},
		{"one by default", []Rule{allow, other}, `{"n":2}`,
			Decision{Effect: Ask, Rule: "other", FourEyes: &FourEyes{Rules: []string{"other"}, Timeout: 5 * time.Minute}}},
		{"a condition that does not hold", []Rule{allow, other}, `{"n":1}`, Decision{Effect: Allow, Rule: "allow"}},
		{"both", []Rule{other, allow, first}, `{"n":2}`,
			Decision{Effect: Ask, Rule: "other", FourEyes: &FourEyes{Rules: []string{"other", "first"}, Timeout: time.Minute}}},
		{"one of two", []Rule{other, allow, first}, `{"n":1}`,
			Decision{Effect: Ask, Rule: "first", FourEyes: &FourEyes{Rules: []string{"first"}, Timeout: time.Minute}}},
		{"the user, too", []Rule{allow, plain, first}, `{"n":1}`,
			Decision{Effect: Ask, Rule: "plain", FourEyes: &FourEyes{Rules: []string{"first"}, Timeout: time.Minute,
				UserToo: true}}},
		{"it grants nothing", []Rule{first}, `{"n":1}`, Decision{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newForTest(t, Config{Rules: tt.rules})
			alice := user("alice")
			for range 2 { // cached
				if diff := cmp.Diff(tt.want, p.Decide(t.Context(), &alice, tool("u", "x"), mcp.Raw(tt.args))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
	p := newForTest(t, Config{Rules: []Rule{allow, first, other, plain}})
	for _, tt := range []struct {
		rules, groups string
		want          bool
	}{
		{"first", "a", true}, {"first", "b", false}, {"first", "", false}, {"first other", "a", false},
		{"first other", "a b", true}, {"plain", "a b", false},
		{"allow", "a", false}, {"none", "a", false}, {"", "a", false},
	} {
		by := user("bob", strings.Fields(tt.groups)...)
		if got := p.Approves(strings.Fields(tt.rules), &by); got != tt.want {
			t.Errorf("%+v: got %v", tt, got)
		}
	}
	unclear := user("bob", "a")
	unclear.Claims = mcp.Raw(`{"a":1,"a":2}`)
	if p.Approves([]string{"first"}, &unclear) {
		t.Error("somebody with ambiguous claims may approve")
	}
}

// TestApproversConfig: what is wrong with approvers.
func TestApproversConfig(t *testing.T) {
	ask := []string{"tools:u/x"}
	who := Who{Groups: []string{"g"}}
	for _, tt := range []struct {
		rule Rule
		want string
	}{
		{Rule{Ask: ask, Approvers: &Approvers{Who: who}}, ""},
		{Rule{Ask: ask, Approvers: &Approvers{Who: who, Timeout: time.Hour}}, ""},
		{Rule{Ask: ask, Approvers: &Approvers{}}, "approvers: who: is needed, such as {groups: [change-managers]}"},
		{Rule{Ask: ask, Approvers: &Approvers{Who: Who{Groups: []string{}}}}, "approvers: who: groups: is empty"},
		{Rule{Allow: ask, Approvers: &Approvers{Who: who}},
			"approvers: they approve of what ask names, but the rule does not ask"},
		{Rule{Ask: ask, ApproveFor: time.Minute, Approvers: &Approvers{Who: who}},
			"approvers: they approve of one call at a time: take approve_for out"},
		{Rule{Ask: ask, Approvers: &Approvers{Who: who, Timeout: -1}}, "approvers: timeout: -1ns is negative"},
		{Rule{Ask: ask, Approvers: &Approvers{Who: who, Timeout: 2 * time.Hour}},
			"approvers: timeout: 2h0m0s is longer than 1h0m0s"},
	} {
		tt.rule.Name = "r"
		err := Config{Rules: []Rule{tt.rule}}.Validate()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), "rules[0] (r): "+tt.want) {
			t.Errorf("%+v: got %v, want %s", tt.rule.Approvers, err, tt.want)
		}
	}
	cfg := Config{Rules: []Rule{{Name: "r", Ask: ask, Approvers: &Approvers{Who: who}}}}
	for want, issuers := range map[string][]string{
		"": {"https://a.example"}, "without auth.mode oauth nobody can prove": nil,
		"approvers: who: there are several issuers": {"https://a.example", "https://b.example"},
	} {
		if err := cfg.CheckIssuers(issuers); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", issuers, err, want)
		}
	}
}
