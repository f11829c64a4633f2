package accounts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// stage is the stage that asks, at one replica, above a server that wants its user to sign in.
type stage struct {
	*Accounts
	handler mcp.Handler
	vault   *vaultOf

	mu      sync.Mutex  // guards the fields below
	calls   []*mcp.Call // that the server got
	changed int
}

const issuer = "https://login.example.com"

func newStage(t *testing.T, key *seal.Key, store *expiring.Store, accounts *vaultOf) *stage {
	t.Helper()
	s := &stage{vault: accounts}
	a, err := New(Deps{
		Flow: Flow{PublicURL: public, Store: store, Key: key}, Vault: accounts,
		People:  signin.NewSessions(expiring.Base{}, key),
		Log:     slog.New(slog.DiscardHandler),
		OneUser: func() bool { return false }, SignIn: func() *signin.Flow { return &signin.Flow{Issuer: issuer} },
		Changed: func(string, *mcp.Caller) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.changed++
		},
		Others: func(context.Context, vault.Owner, string) { t.Error("a call that goes on told other replicas") },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Accounts = a
	s.handler = a.Middleware(mcp.HandlerFunc(func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
		s.mu.Lock()
		s.calls = append(s.calls, c)
		s.mu.Unlock()
		if s.vault.of(vault.OwnerOf(c.Caller), "crm").AccessToken == "" {
			return nil, mcp.UpstreamError(failure.SignInNeeded, "crm", mcp.ExecutedNo, "Upstream crm needs you to sign in")
		}
		return &mcp.Reply{Result: mcp.Raw(`{"content":[]}`)}, nil
	}))
	return s
}

func alone(t *testing.T) *stage {
	key := newKey(t)
	return newStage(t, key, expiring.New(expiring.Base{}, key, "accounts", 100), &vaultOf{})
}

// call is a call of alice, whose client opens pages.
func call(method string) *mcp.Call {
	return &mcp.Call{
		Method: method, Caller: mcp.NewCaller(mcp.Caller{Issuer: issuer, Subject: "alice"}),
		Target: mcp.Target{Upstream: "crm", Name: "export"},
		Caps:   mcp.Raw(`{"elicitation":{"url":{}}}`), Notify: func(mcp.Event) {},
	}
}

func (s *stage) do(t *testing.T, c *mcp.Call) *mcp.Reply {
	t.Helper()
	reply, err := s.handler.Handle(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// answer is the call again, with an answer to a question.
func answer(c *mcp.Call, asked *mcp.Ask, action string) *mcp.Call {
	next := c.Clone()
	next.Round, next.Answers = asked.Round, map[string]mcp.Raw{asked.Requests[0].Key: mcp.Object("action",
		mcp.String(action))}
	return next
}

// signIn is what the pages do when the user of a question has signed in.
func (s *stage) signIn(t *testing.T, asked *mcp.Ask) {
	t.Helper()
	ticket, err := s.openTicket(asked.Round.Top().Value)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.vault.Keep(t.Context(), ticket.owner(), ticket.Server, vault.Grant{AccessToken: "x"})
	if err := s.arrived(t.Context(), ticket.owner(), ticket.Server); err != nil {
		t.Fatal(err)
	}
}

// TestAsk: a call asks its user, and goes on when the user has signed in, here or at another replica.
func TestAsk(t *testing.T) {
	for _, method := range []string{mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead} {
		synctest.Test(t, func(t *testing.T) {
			key := newKey(t)
			store, accounts := expiring.New(expiring.Base{}, key, "accounts", 100), &vaultOf{}
			s, other := newStage(t, key, store, accounts), newStage(t, key, store, accounts)
			c := call(method)
			asked := s.do(t, c).Ask
			if asked == nil || len(asked.Requests) != 1 || asked.Requests[0].Method != mcp.MethodElicit ||
				asked.Here || asked.Restart {
				t.Fatalf("%+v", asked)
			}
			params := asked.Requests[0].Params
			link := params.At("url").Text()
			if params.At("mode").Text() != "url" || !strings.HasPrefix(link, public+linkPath) ||
				strings.Contains(string(params), "alice") || time.Until(asked.Expires) != longest {
				t.Errorf("asked %s", params)
			}
			for _, replica := range []*stage{s, other} { // the user is not done yet
				again := replica.do(t, answer(c, asked, "accept")).Ask
				if again == nil || again.Requests[0].Params.At("url").Text() != link {
					t.Errorf("asked again: %+v", again)
				}
			}
			if len(s.calls)+len(other.calls) != 1 {
				t.Errorf("%d calls while the user signs in", len(s.calls)+len(other.calls))
			}
			done := make(chan *mcp.Reply)
			go func() { done <- s.do(t, answer(c, asked, "accept")) }()
			beside := make(chan *mcp.Reply) // a call that was made at the same time, with a link of its own
			also := s.do(t, c).Ask
			go func() { beside <- s.do(t, answer(c, also, "accept")) }()
			synctest.Wait()
			began := time.Now()
			other.signIn(t, asked)
			if reply := <-done; reply.Result == nil || time.Since(began) > look {
				t.Errorf("%+v after %s", reply, time.Since(began))
			}
			if reply := <-beside; reply.Result == nil || time.Since(began) > look {
				t.Errorf("the other call: %+v after %s", reply, time.Since(began))
			}
			if last := s.calls[len(s.calls)-1]; last.Round != nil || last.Answers != nil || s.changed != 2 {
				t.Errorf("the call that went on: %+v; lists changed %d times", last, s.changed)
			}
			if reply := other.do(t, call(method)); reply.Result == nil {
				t.Errorf("a later call: %+v", reply)
			}
		})
	}
}

// TestRightsThatNobodyGets: a server may want more rights however often its user signs in.
func TestRightsThatNobodyGets(t *testing.T) {
	s := alone(t)
	s.handler = s.Middleware(mcp.HandlerFunc(func(context.Context, *mcp.Call) (*mcp.Reply, error) {
		return nil, mcp.UpstreamError(failure.SignInNeeded, "crm", mcp.ExecutedNo,
			"Upstream crm needs you to sign in there: it asks for more rights")
	}))
	c := call(mcp.MethodToolsCall)
	asked := s.do(t, c).Ask
	for range 2 {
		s.signIn(t, asked)
		asked = s.do(t, answer(c, asked, "accept")).Ask
	}
	s.signIn(t, asked)
	_, err := s.handler.Handle(t.Context(), answer(c, asked, "accept"))
	e, _ := errors.AsType[*mcp.Error](err)
	if e == nil || e.Name != failure.SignInNeeded || !strings.Contains(e.Message, "more rights") ||
		e.Data.At("executed").Text() != string(mcp.ExecutedNo) {
		t.Errorf("got %v", err)
	}
}

// TestNotAsked: what clients get that cannot be asked, and for what cannot ask.
func TestNotAsked(t *testing.T) {
	s := alone(t)
	for name, caps := range map[string]mcp.Raw{"nothing": nil, "forms": mcp.Raw(`{"elicitation":{}}`),
		"forms by name": mcp.Raw(`{"elicitation":{"form":{}}}`)} {
		c := call(mcp.MethodToolsCall)
		c.Caps = caps
		_, err := s.handler.Handle(t.Context(), c)
		text := fmt.Sprint(err)
		if e, _ := errors.AsType[*mcp.Error](err); e == nil || !e.AsResult || e.Executed() != mcp.ExecutedNo ||
			!strings.Contains(text, public+linkPath) || !strings.Contains(text, "Upstream crm needs the user to sign in") {
			t.Errorf("a client with %s: %s", name, text)
		}
		c.Method = mcp.MethodPromptsGet
		_, err = s.handler.Handle(t.Context(), c)
		e, _ := errors.AsType[*mcp.Error](err)
		if e == nil || e.Name != failure.SignInNeeded || !strings.HasPrefix(e.Data.At("url").Text(), public+linkPath) ||
			!strings.Contains(e.Message, public+linkPath) {
			t.Errorf("a prompt for a client with %s: %v", name, err)
		}
	}
	c := call(mcp.MethodToolsList)
	c.Target = mcp.Target{}
	if _, err := s.handler.Handle(t.Context(), c); !mcp.HasCode(err, mcp.CodeUpstreamAuthFailed) ||
		strings.Contains(err.Error(), linkPath) {
		t.Errorf("a list: %v", err)
	}
	c = call(mcp.MethodComplete)
	if _, err := s.handler.Handle(t.Context(), c); err == nil || !strings.Contains(err.Error(), linkPath) {
		t.Errorf("a completion: %v", err)
	}
	c = call(mcp.MethodToolsCall)
	c.Caller = mcp.NewCaller(mcp.Caller{Issuer: "https://other.example.com", Subject: "alice"})
	if _, err := s.handler.Handle(t.Context(), c); err == nil || strings.Contains(err.Error(), linkPath) {
		t.Errorf("a user of another issuer: %v", err)
	}
}

// TestStateOfServer: a server's own state comes back to it.
func TestStateOfServer(t *testing.T) {
	t.Parallel()
	s := alone(t)
	_ = s.vault.Keep(t.Context(), vault.Owner{Issuer: issuer, User: "alice"}, "crm", vault.Grant{AccessToken: "x"})
	c := call(mcp.MethodToolsCall)
	c.Round = mcp.NewRound(mcp.FrameServer, "sign-in")
	s.do(t, c)
	if len(s.calls) != 1 || s.calls[0].Round.Top() != c.Round.Top() {
		t.Errorf("the server got %+v", s.calls)
	}
}

// TestDeclined: a user who does not want to ends the call.
func TestDeclined(t *testing.T) {
	s := alone(t)
	c := call(mcp.MethodToolsCall)
	asked := s.do(t, c).Ask
	refusal := answer(c, asked, "accept")
	refusal.Answers, refusal.Refused = nil, map[string]*mcp.Error{signInKey: mcp.Relayed(-1, "no", nil)}
	calls := []*mcp.Call{answer(c, asked, "decline"), answer(c, asked, "cancel"), refusal}
	ticket, _ := s.openTicket(asked.Round.Top().Value)
	for i, c := range append(calls, answer(c, asked, "accept")) {
		if i == len(calls) { // at the server's authorization server
			_ = s.gaveUp(t.Context(), ticket.owner(), ticket.Server, ticket.ID)
		}
		_, err := s.handler.Handle(t.Context(), c)
		if e, _ := errors.AsType[*mcp.Error](err); e == nil || !strings.Contains(e.Message, "did not sign in") ||
			!e.AsResult || e.Executed() != mcp.ExecutedNo {
			t.Errorf("%d: %v", i, err)
		}
	}
	if len(s.calls) != 1 {
		t.Errorf("%d calls", len(s.calls))
	}
}

// TestStateOfAnotherUser: a state is good for the user who was asked alone.
func TestStateOfAnotherUser(t *testing.T) {
	s := alone(t)
	c := call(mcp.MethodToolsCall)
	asked := s.do(t, c).Ask
	stolen := answer(c, asked, "accept")
	stolen.Caller = mcp.NewCaller(mcp.Caller{Issuer: issuer, Subject: "mallory"})
	forged := answer(c, asked, "accept")
	forged.Round = mcp.NewRound(mcp.FrameSignIn, "x")
	for _, c := range []*mcp.Call{stolen, forged} {
		if _, err := s.handler.Handle(t.Context(), c); mcp.FailureOf(err) != failure.StateInvalid {
			t.Errorf("got %v", err)
		}
	}
}

// TestCallerLeaves: a caller who has left waits for nobody.
func TestCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		c := call(mcp.MethodToolsCall)
		next := answer(c, s.do(t, c).Ask, "accept")
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := s.handler.Handle(ctx, next)
			done <- err
		}()
		synctest.Wait()
		leave()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if len(s.waiting.all) > 0 {
			t.Error("somebody still waits")
		}
		if _, err := s.handler.Handle(ctx, next); !errors.Is(err, context.Canceled) {
			t.Errorf("a call that is let go: %v", err)
		}
	})
}
