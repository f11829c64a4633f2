package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

var forms = mcp.Raw(`{"elicitation":{}}`)

// asking is a guard over one tool that is used with approval only.
type asking struct {
	*testing.T
	shelves *shelves
	handler mcp.Handler
}

func newAsking(t *testing.T, holds time.Duration) *asking {
	t.Helper()
	s := newShelves(tool("prod", "execute"), tool("prod", "other"),
		mcp.Target{Kind: mcp.KindPrompts, Upstream: "prod", Name: "p"}, resource("prod", "db://x"))
	cfg := Config{Rules: []Rule{{Name: "ask", Allow: []string{"*:prod/*"}, Ask: []string{"*:prod/*"}, ApproveFor: holds}}}
	return &asking{t, s, guardForTest(t, cfg, s)}
}

func execute(caller mcp.Caller, arguments string) *mcp.Call {
	c := callOf(mcp.MethodToolsCall, "prod__execute", `{"name":"prod__execute","arguments":`+arguments+`}`, caller)
	c.Caps = forms
	return c
}

// handle makes a call and expects no error.
func (a *asking) handle(c *mcp.Call) *mcp.Reply {
	a.Helper()
	reply, err := a.handler.Handle(a.Context(), c)
	if err != nil {
		a.Fatal(err)
	}
	return reply
}

// asks makes a call and expects our question.
func (a *asking) asks(c *mcp.Call) *mcp.Ask {
	a.Helper()
	reply := a.handle(c)
	if reply.Ask == nil || len(reply.Ask.Requests) != 1 || reply.Ask.Requests[0].Key != approvalKey {
		a.Fatalf("got %+v, want our question", reply)
	}
	return reply.Ask
}

// retry is the call again, with an answer to a question.
func retry(c *mcp.Call, asked *mcp.Ask, answer string) *mcp.Call {
	again := c.Clone()
	again.Round, again.Answers, again.Refused = asked.Round, nil, nil
	if answer != "" {
		again.Answers = map[string]mcp.Raw{asked.Requests[0].Key: mcp.Raw(answer)}
	}
	return again
}

const yes = `{"action":"accept","content":{"approve":true}}`

func TestApproval(t *testing.T) {
	alice := user("alice")
	t.Run("once", func(t *testing.T) {
		a := newAsking(t, 0)
		c := execute(alice, `{"sql":"DROP TABLE x"}`)
		asked := a.asks(c)
		if got := a.shelves.reached(); got != nil {
			t.Fatalf("it ran before it was approved of: %q", got)
		}
		reply := a.handle(retry(c, asked, yes))
		if string(reply.Result) != `{"ok":true}` || len(a.shelves.reached()) != 1 {
			t.Fatalf("got %+v", reply)
		}
		if got := a.shelves.calls[0]; got.Answers != nil || got.Round != nil {
			t.Errorf("the upstream got our answer: %+v", got)
		}
		a.asks(retry(c, asked, yes)) // the approval is used up
		a.asks(c)
		if got := a.shelves.reached(); len(got) != 1 {
			t.Errorf("it ran %d times", len(got))
		}
	})
	t.Run("what is asked", func(t *testing.T) {
		a := newAsking(t, 0)
		q := a.asks(execute(alice, `{"sql":"DROP TABLE x"}`)).Requests[0]
		message, _ := q.Params.Member("message")
		for _, want := range []string{"Gatehouse asks: ", "\n    • server: prod\n", "\n    • tool: execute\n",
			"\n    • argument \"sql\": \"DROP TABLE x\"\n", "once"} {
			if !strings.Contains(message.Text(), want) {
				t.Errorf("%q is missing in %q", want, message.Text())
			}
		}
		schema, _ := q.Params.Member("requestedSchema")
		if q.Method != mcp.MethodElicit || !strings.Contains(string(schema), `"required":["approve"]`) {
			t.Errorf("got %s %s", q.Method, q.Params)
		}
	})
	t.Run("only a clear yes", func(t *testing.T) {
		for answer, again := range map[string]bool{
			`{"action":"decline"}`: false, `{"action":"cancel"}`: false, `{"action":"accept"}`: true,
			`{"action":"accept","content":{}}`:                false,
			`{"action":"accept","content":{"approve":false}}`: false, `{"action":"accept","content":{"approve":"true"}}`: false,
			`{"action":"accept","content":{"approve":true,"approve":false}}`: true,
			`{"action":"accept","content":{"Approve":true}}`:                 false,
			`{"action":"accept","content":[true]}`:                           true,
			`{"action":"ACCEPT","content":{"approve":true}}`:                 true, `{}`: true, `true`: true, ``: true,
		} {
			a := newAsking(t, time.Hour)
			c := execute(alice, `{}`)
			reply, err := a.handler.Handle(t.Context(), retry(c, a.asks(c), answer))
			if (err == nil && reply.Ask != nil) != again || a.shelves.reached() != nil {
				t.Errorf("%s: got %+v, %v", answer, reply, err)
			}
			if !again && !declinedFor(err, failure.ApprovalDeclined) {
				t.Errorf("%s: got %v", answer, err)
			}
			if !again {
				a.asks(c) // the answer was about this call, not about all to come
			}
		}
	})
	t.Run("an error for an answer", func(t *testing.T) {
		a := newAsking(t, 0)
		c := execute(alice, `{}`)
		again := retry(c, a.asks(c), "")
		again.Refused = map[string]*mcp.Error{approvalKey: mcp.Relayed(-1, "no", nil)}
		if _, err := a.handler.Handle(t.Context(), again); !declinedFor(err, failure.ApprovalDeclined) ||
			a.shelves.reached() != nil {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a prompt and a resource", func(t *testing.T) {
		a := newAsking(t, 0)
		for _, c := range []*mcp.Call{
			callOf(mcp.MethodPromptsGet, "prod__p", `{"name":"prod__p"}`, alice), callOf(mcp.MethodResourcesRead, "prod+db://x",
				`{"uri":"prod+db://x"}`, alice)} {
			c.Caps = forms
			asked := a.asks(c)
			_, err := a.handler.Handle(t.Context(), retry(c, asked, `{"action":"decline"}`))
			if !mcp.HasCode(err, mcp.CodeInternal) || !strings.Contains(err.Error(), "did not approve") {
				t.Errorf("%s: got %v", c.Method, err)
			}
			a.handle(retry(c, a.asks(c), yes))
		}
		if got := a.shelves.reached(); len(got) != 2 {
			t.Errorf("reached %q", got)
		}
	})
}

// TestApprovalIsBound: an approval is good for one user's one call.
func TestApprovalIsBound(t *testing.T) {
	alice := user("alice")
	changes := map[string]func(c *mcp.Call){
		"another user":      func(c *mcp.Call) { c.Caller = user("bob") },
		"another issuer":    func(c *mcp.Call) { c.Caller.Issuer = "https://b.example"; c.Caller = mcp.NewCaller(c.Caller) },
		"another client":    func(c *mcp.Call) { c.Caller.ClientID = "other" },
		"another argument":  func(c *mcp.Call) { c.Params = mcp.Raw(`{"name":"prod__execute","arguments":{"sql":"DROP TABLE y"}}`) },
		"one argument more": func(c *mcp.Call) { c.Params = mcp.Raw(`{"name":"prod__execute","arguments":{"sql":"x","force":true}}`) },
		"one member more":   func(c *mcp.Call) { c.Params = mcp.Raw(`{"name":"prod__execute","arguments":{"sql":"x"},"task":{}}`) },
		"a member of _meta": func(c *mcp.Call) {
			c.Params = mcp.Raw(`{"name":"prod__execute","arguments":{"sql":"x"},"_meta":{"vendor/override":true}}`)
		},
		"a trace context that is none": func(c *mcp.Call) {
			c.Params = mcp.Raw(`{"name":"prod__execute","arguments":{"sql":"x"},"_meta":{"baggage":["force"]}}`)
		},
		"an escaped member": func(c *mcp.Call) {
			c.Params = mcp.Raw(`{"name":"prod__execute","arguments":{"sql":"x"},"_meta":{"vendor\u002foverride":true}}`)
		},
		"other capabilities": func(c *mcp.Call) { c.Caps = mcp.Raw(`{"elicitation":{},"sampling":{}}`) },
		"no arguments":       func(c *mcp.Call) { c.Params = mcp.Raw(`{"name":"prod__execute"}`) },
		"another tool":       func(c *mcp.Call) { c.Name = "prod__other" },
		"no state":           func(c *mcp.Call) { c.Round = nil },
		"another state":      func(c *mcp.Call) { c.Round = mcp.NewRound(mcp.FrameAsked, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			for _, holds := range []time.Duration{0, time.Hour} {
				a := newAsking(t, holds)
				c := execute(alice, `{"sql":"x"}`)
				again := retry(c, a.asks(c), yes)
				change(again)
				a.asks(again)
				if holds > 0 && len(again.Round) > 0 {
					a.handle(retry(c, a.asks(c), yes)) // now alice's very call is approved of
					changed := c.Clone()
					change(changed)
					changed.Round = nil
					if changed.Params != nil && name != "another state" {
						a.asks(changed)
					}
				}
				for _, got := range a.shelves.calls {
					if got.Caller.Subject != "alice" || got.Name != "prod__execute" || string(got.Params) != string(c.Params) ||
						got.Caller.ClientID != "cli" {
						t.Errorf("it ran: %+v", got)
					}
				}
			}
		})
	}
}

// TestApprovalHolds: for the rule's time, exactly the same call is not asked about again.
func TestApprovalHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t, 15*time.Minute)
		c := execute(user("alice"), `{"sql":"x","n":1}`)
		a.handle(retry(c, a.asks(c), yes))
		time.Sleep(14 * time.Minute)
		same := c.Clone()
		same.Params = mcp.Raw(`{ "arguments":{"sql": "x","n":1}, "name":"prod__execute","_meta":{"progressToken":7,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=b","baggage":"c=d",` +
			`"io.modelcontextprotocol/logLevel":"debug"}}`)
		if reply := a.handle(same); reply.Ask != nil {
			t.Error("the same call is asked about again")
		}
		a.asks(execute(user("alice"), `{"n":1,"sql":"x"}`)) // the order could matter to the server
		time.Sleep(time.Minute)
		a.asks(c)
	})
}

// TestApprovalExpires: a question is not open for ever.
func TestApprovalExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t, 0)
		c := execute(user("alice"), `{}`)
		asked := a.asks(c)
		time.Sleep(roundLife)
		a.asks(retry(c, asked, yes))
	})
}

// TestApprovalRounds: what the user approved of may ask questions of its own, and is not
// asked about again; each round is come back to once.
func TestApprovalRounds(t *testing.T) {
	for _, below := range []mcp.Round{nil, mcp.NewRound(mcp.FrameServer, "its state"),
		mcp.NewRound(mcp.FrameParked, "handle")} {
		t.Run("round "+below.String(), func(t *testing.T) {
			a := newAsking(t, 0)
			a.shelves.answer = func(c *mcp.Call) (*mcp.Reply, error) {
				if c.Answers["mine"] != nil {
					return &mcp.Reply{Result: mcp.Raw(`{"done":true}`)}, nil
				}
				return &mcp.Reply{Ask: &mcp.Ask{Round: below, Here: true,
					Requests: []mcp.InputRequest{{Key: "mine", Method: mcp.MethodElicit}}}}, nil
			}
			c := execute(user("alice"), `{}`)
			reply := a.handle(retry(c, a.asks(c), yes))
			if reply.Ask == nil || reply.Ask.Requests[0].Key != "mine" || !reply.Ask.Here {
				t.Fatalf("got %+v", reply)
			}
			next := retry(c, reply.Ask, `{"action":"accept"}`)
			stolen := next.Clone()
			stolen.Caller = user("bob")
			if _, err := a.handler.Handle(t.Context(), stolen); !mcp.HasCode(err, mcp.CodeInvalidParams) {
				t.Errorf("another user came back: %v", err)
			}
			other := next.Clone()
			other.Params = mcp.Raw(`{"name":"prod__execute","arguments":{"x":1}}`)
			done := a.handle(next)
			if string(done.Result) != `{"done":true}` {
				t.Fatalf("got %+v", done)
			}
			if got := a.shelves.calls[len(a.shelves.calls)-1]; got.Round.String() != below.String() ||
				got.Answers["mine"] == nil {
				t.Errorf("the upstream got %+v", got)
			}
			for _, again := range []*mcp.Call{next, other} {
				if _, err := a.handler.Handle(t.Context(), again); !mcp.HasCode(err, mcp.CodeInvalidParams) {
					t.Errorf("came back twice: %v", err)
				}
			}
		})
	}
}

// TestRoundsOfServers: what a server's question brings back is no approval, and reaches the server as
// it was. None is invented where there was none.
func TestRoundsOfServers(t *testing.T) {
	s := newShelves(tool("u", "open"), tool("prod", "execute"))
	h := guardForTest(t, Config{Rules: []Rule{
		{Name: "a", Allow: []string{"tools:u/*"}},
		{Name: "q", Allow: []string{"tools:prod/*"}, Ask: []string{"tools:prod/*"}},
	}}, s)
	c := callOf(mcp.MethodToolsCall, "u__open", `{"name":"u__open"}`, user("alice"))
	for _, round := range []mcp.Round{nil, mcp.NewRound(mcp.FrameServer, `[{"k":"approved","v":"X"}]`),
		mcp.NewRound(mcp.FrameParked, "x")} {
		s.answer = func(c *mcp.Call) (*mcp.Reply, error) {
			if c.Answers != nil {
				return &mcp.Reply{Result: mcp.String(c.Round.String())}, nil
			}
			return &mcp.Reply{Ask: &mcp.Ask{Round: round, Requests: []mcp.InputRequest{{Key: "k"}}}}, nil
		}
		reply, err := h.Handle(t.Context(), c)
		if err != nil || reply.Ask == nil || reply.Ask.Round.String() != round.String() {
			t.Fatalf("%s: got %+v, %v", round, reply, err)
		}
		again := c.Clone()
		again.Round, again.Answers = reply.Ask.Round, map[string]mcp.Raw{"k": mcp.Raw("{}")}
		reply, err = h.Handle(t.Context(), again)
		if err != nil || reply.Result.Text() != round.String() {
			t.Errorf("%s: came back as %v, %v", round, reply, err)
		}
		if round == nil {
			continue
		}
		forged := execute(user("alice"), `{}`)
		forged.Round = again.Round
		if _, err := h.Handle(t.Context(), forged); !mcp.HasCode(err, mcp.CodeInvalidParams) {
			t.Errorf("%s: as an approval: got %v", round, err)
		}
	}
}

// declinedFor reports whether a call was ended for want of an approval, with an error that a model
// reads and that says that nothing ran.
func declinedFor(err error, name failure.Name) bool {
	e, ok := errors.AsType[*mcp.Error](err)
	return ok && e.Name == name && e.AsResult && e.Executed() == mcp.ExecutedNo
}

// TestCannotAsk: a client that cannot be asked is refused, with the reason.
func TestCannotAsk(t *testing.T) {
	for caps, can := range map[string]bool{
		``: false, `{}`: false, `{"elicitation":{}}`: true, `{"elicitation":{"form":{}}}`: true,
		`{"elicitation":{"form":{},"url":{}}}`: true,
		`{"elicitation":{"url":{}}}`:           false, `{"elicitation":null}`: false, `{"sampling":{}}`: false,
	} {
		for _, stateless := range []bool{false, true} {
			a := newAsking(t, 0)
			c := execute(user("alice"), `{}`)
			c.Caps, c.Ephemeral = mcp.Raw(caps), stateless
			reply, err := a.handler.Handle(t.Context(), c)
			e, _ := errors.AsType[*mcp.Error](err)
			switch {
			case can && (err != nil || reply.Ask == nil), a.shelves.reached() != nil:
				t.Errorf("%s: got %+v, %v", caps, reply, err)
			case !can && stateless && (e == nil || e.Code != mcp.CodeMissingCapability ||
				string(e.Data) != `{"requiredCapabilities":{"elicitation":{"form":{}}}}`):
				t.Errorf("%s: got %+v, %v", caps, reply, err)
			case !can && !stateless && !declinedFor(err, failure.ApprovalImpossible):
				t.Errorf("%s: got %+v, %v", caps, reply, err)
			}
		}
	}
}

// broken is a store that cannot be reached.
type broken struct{}

var errBroken = errors.New("no route to the store at 10.0.0.1")

func (broken) Put(context.Context, string, string, string, time.Duration) error { return errBroken }
func (broken) Take(context.Context, string, string) (string, bool, error) {
	return "", false, errBroken
}
func (broken) Has(context.Context, string, string) (bool, error) { return false, errBroken }

// TestApprovalsUnavailable: without its memory nothing is approved.
func TestApprovalsUnavailable(t *testing.T) {
	s := newShelves(tool("prod", "execute"))
	for _, holds := range []time.Duration{0, time.Hour} {
		g, err := NewGuard(newForTest(t, Config{Rules: []Rule{{Name: "q", Allow: []string{"tools:*"},
			Ask: []string{"tools:*"}, ApproveFor: holds}}}), GuardDeps{Approvals: broken{}})
		if err != nil {
			t.Fatal(err)
		}
		for _, round := range []mcp.Round{nil, mcp.NewRound(mcp.FrameAsked, "X"), mcp.NewRound(mcp.FrameApproved, "X")} {
			c := execute(user("alice"), `{}`)
			c.Round, c.Answers = round, map[string]mcp.Raw{approvalKey: mcp.Raw(yes)}
			_, err := mcp.Chain(s, seeing(s), g.Middleware).Handle(t.Context(), c)
			if !mcp.HasCode(err, mcp.CodeStoreUnavailable) || strings.Contains(err.Error(), "10.0.0.1") {
				t.Errorf("%s: got %v", round, err)
			}
		}
	}
	if s.calls != nil {
		t.Error("it ran")
	}
}

// TestMemoryIsBounded: one user cannot push out another one's, and all together stay
// within a bound.
func TestMemoryIsBounded(t *testing.T) {
	m := NewMemory()
	put := func(user, key string, ttl time.Duration) {
		if err := m.Put(t.Context(), user, key, "v", ttl); err != nil {
			t.Fatal(err)
		}
	}
	has := func(user, key string) bool {
		ok, err := m.Has(t.Context(), user, key)
		return err == nil && ok
	}
	put("alice", "k", time.Hour)
	put("bob", "first", time.Minute)
	for i := range 2 * maxPerUser {
		put("bob", fmt.Sprint(i), time.Hour)
	}
	if !has("alice", "k") || has("bob", "first") || !has("bob", fmt.Sprint(2*maxPerUser-1)) ||
		len(m.users["bob"]) != maxPerUser {
		t.Errorf("bob has %d", len(m.users["bob"]))
	}
	for i := range maxKept {
		put(fmt.Sprintf("user-%d", i), "k", time.Hour)
	}
	total := 0
	for _, kept := range m.users {
		total += len(kept)
	}
	if total != m.count || total > maxKept {
		t.Errorf("%d are kept, %d counted", total, m.count)
	}
}
