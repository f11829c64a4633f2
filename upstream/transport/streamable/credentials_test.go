package streamable_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// sessionless answers as the fake does, but with a new session id for each initialize, and
// with a GET stream that stays open.
func sessionless(next *atomic.Int32) fake.Handler {
	return func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		switch {
		case f.Stateful && m.Method == mcp.MethodInitialize:
			w.Header().Set("Mcp-Session-Id", fmt.Sprintf("s%d", next.Add(1)))
			fake.Result(w, m, `{"protocolVersion":"`+f.Version+`","capabilities":`+f.Caps+
				`,"serverInfo":{"name":"fake","version":"1"}}`)
			return true
		case f.Stateful && r.Method == http.MethodGet:
			fake.Events(w, ": hello\n\n")
			<-r.Context().Done()
			return true
		case m.Method == mcp.MethodToolsList:
			fake.Result(w, m, `{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`)
			return true
		}
		return false
	}
}

// No credential of a client leaves the gateway. The credential headers are on this
// list, and the user's token is in nothing that is sent or logged, except in the exchange
// at its own issuer.
func TestInboundTokenStays(t *testing.T) {
	allowed := []string{"Accept", "Accept-Encoding", "Authorization", "Content-Length", "Content-Type",
		"Last-Event-Id", "User-Agent",
		"X-Team", "X-Api-Key", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"}
	endpoint := fake.NewTokens(t)
	for _, tt := range []struct {
		name string
		auth outbound.Config
		want string // the beginning of Authorization
	}{
		{"none", outbound.Config{}, ""},
		{"header", outbound.Config{Type: outbound.TypeHeader, Header: "X-Api-Key", Token: "key"}, ""},
		{"bearer", outbound.Config{Type: outbound.TypeBearer, Token: "fixed"}, "Bearer fixed"},
		{"client_credentials", endpoint.Machine(), "Bearer machine-"},
		{"token_exchange", endpoint.Exchange(), "Bearer exchanged-alice-"},
	} {
		for _, client := range []string{"own", "standard"} {
			t.Run(tt.name+" "+client, func(t *testing.T) {
				fake.Eras(t, func(t *testing.T, stateful bool) {
					before := len(endpoint.Requests())
					var sessions atomic.Int32
					f := fake.New(t, stateful, sessionless(&sessions))
					u, log := fake.StartAuthorized(t, upstream.Config{URL: f.URL, Auth: tt.auth, HTTPClient: client,
						Headers: map[string]mcp.Secret{"X-Team": "sales"}})
					ctx := mcp.WithCaller(t.Context(), fake.User("alice"))
					for _, c := range []*mcp.Call{fake.List(mcp.MethodDiscover), fake.List(mcp.MethodToolsList),
						fake.Asked("a"), fake.Tool("b")} {
						if _, err := u.Handle(ctx, fake.Of("alice", c)); err != nil {
							t.Fatalf("%s: %v", c.Method, err)
						}
					}
					if stateful {
						f.Await(t, http.MethodGet, 1)
					}
					fake.Close(t, u)
					verbs := map[string]bool{}
					for _, s := range f.Requests("") {
						verbs[s.Verb] = true
						for name := range s.Header {
							if !slices.Contains(allowed, name) {
								t.Errorf("%s %s has the header %s", s.Verb, s.Method, name)
							}
						}
						if got := fake.AuthorizationOf(s); !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
							t.Errorf("%s %s: Authorization %q", s.Verb, s.Method, got)
						}
						if all := fmt.Sprint(s.Header, string(s.Params), string(s.Result)); strings.Contains(all, "inbound") {
							t.Errorf("%s %s has the user's token: %s", s.Verb, s.Method, all)
						}
					}
					if stateful && len(verbs) != 3 {
						t.Errorf("got the verbs %v, want POST, GET and DELETE", verbs)
					}
					if strings.Contains(log.String(), "inbound") || strings.Contains(log.String(), "exchanged-") {
						t.Errorf("a token is in the log: %s", log)
					}
					sent := endpoint.Requests()[before:]
					if exchanged := strings.Contains(strings.Join(sent, " "),
						"inbound"); exchanged != (tt.auth.Type == outbound.TypeTokenExchange) {
						t.Errorf("the token endpoint got %q", sent)
					}
				})
			})
		}
	}
	t.Run("stdio", func(t *testing.T) {
		dir := t.TempDir()
		cfg := fake.Command(t, "env")
		script := `env >"$DIR/env"; tee "$DIR/stdin" | "$SELF"`
		cfg.Env["DIR"], cfg.Env["SELF"] = mcp.Secret(dir), mcp.Secret(cfg.Command[0])
		cfg.Command = []string{"sh", "-c", script}
		u, log := fake.StartAuthorized(t, cfg)
		if _, err := u.Handle(t.Context(), fake.Of("alice", fake.Tool("env"))); err != nil {
			t.Fatal(err)
		}
		fake.Close(t, u)
		for _, name := range []string{"env", "stdin"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || len(text) == 0 || bytes.Contains(text, []byte("inbound")) {
				t.Errorf("%s: %v: %s", name, err, text)
			}
		}
		if strings.Contains(log.String(), "inbound") {
			t.Errorf("the token is in the log: %s", log)
		}
	})
}

// refusing refuses requests with certain credentials, as a resource server does.
func refusing(status int, challenge string, refuse func(authorization string) bool) fake.Handler {
	return func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if !refuse(r.Header.Get("Authorization")) {
			return false
		}
		w.Header().Set("WWW-Authenticate", challenge)
		if m.ID != nil {
			fake.Failure(w, status, m, `{"code":-32600,"message":"see https://evil.example/login"}`)
		} else {
			w.WriteHeader(status)
		}
		return true
	}
}

const challenge = `Bearer resource_metadata="https://evil.example/meta", error="insufficient_scope", scope="crm.admin"`

// A request that got a 401 did not run, so it is repeated once with a new
// credential.
func TestRenewed(t *testing.T) {
	fake.Eras(t, func(t *testing.T, stateful bool) {
		endpoint := fake.NewTokens(t)
		var revoked atomic.Bool
		f := fake.New(t, stateful, refusing(http.StatusUnauthorized, challenge, func(a string) bool {
			return revoked.Load() && a == "Bearer machine-1"
		}))
		u, _ := fake.StartAuthorized(t, upstream.Config{URL: f.URL, Auth: endpoint.Machine()})
		fake.WantOK(t, u, fake.Tool("a"))
		revoked.Store(true)
		fake.WantOK(t, u, fake.Tool("a"))
		fake.WantOK(t, u, fake.Tool("a"))
		var got []string
		for _, s := range f.Requests(mcp.MethodToolsCall) {
			got = append(got, fake.AuthorizationOf(s))
		}
		if want := []string{"Bearer machine-1", "Bearer machine-1", "Bearer machine-2",
			"Bearer machine-2"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := len(endpoint.Requests()); got != 2 {
			t.Errorf("%d tokens were asked for, want 2", got)
		}
		fake.Close(t, u)
		for _, s := range f.Requests(http.MethodDelete) {
			if fake.AuthorizationOf(s) != "Bearer machine-2" {
				t.Errorf("the session is ended with %q", fake.AuthorizationOf(s))
			}
		}
	})
}

// A final refusal of a server is an error of ours; its challenge goes
// only to the operator's log.
func TestChallengeStays(t *testing.T) {
	for _, tt := range []struct {
		status int
		each   int // requests for a call
	}{{http.StatusUnauthorized, 2}, {http.StatusForbidden, 1}} {
		t.Run(fmt.Sprintf("H/%d %d", 154+btoi(tt.status == http.StatusForbidden), tt.status), func(t *testing.T) {
			fake.Eras(t, func(t *testing.T, stateful bool) {
				endpoint := fake.NewTokens(t)
				var closed atomic.Bool
				f := fake.New(t, stateful, refusing(tt.status, challenge, func(string) bool { return closed.Load() }))
				u, log := fake.StartAuthorized(t, upstream.Config{URL: f.URL, Auth: endpoint.Machine()})
				fake.WantOK(t, u, fake.Tool("a"))
				closed.Store(true)
				for i := range 3 {
					before := len(f.Requests(mcp.MethodToolsCall))
					_, err := fake.Do(t, u, fake.Tool("a"))
					e := fake.WantError(t, err, mcp.CodeUpstreamAuthFailed, mcp.ExecutedNo)
					if all := e.Message + string(e.Data); strings.Contains(all, "evil") || strings.Contains(all, "crm.admin") ||
						!strings.Contains(all, "fake") {
						t.Errorf("got %s", all)
					}
					want := tt.each
					if i > 0 {
						want = 1 // there was no use in a new credential
					}
					if got := len(f.Requests(mcp.MethodToolsCall)) - before; got != want {
						t.Errorf("call %d: %d requests, want %d", i, got, want)
					}
				}
				if !strings.Contains(log.String(), "crm.admin") {
					t.Errorf("the operator cannot see what is wanted: %s", log)
				}
				if u.Status().State != upstream.StateNeedsLogin {
					t.Errorf("got state %s", u.Status().State)
				}
			})
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A token endpoint that fails causes an error that says so, and nothing is sent.
func TestNoToken(t *testing.T) {
	fake.Eras(t, func(t *testing.T, stateful bool) {
		endpoint := fake.NewTokens(t)
		cfg := endpoint.Machine()
		endpoint.Close()
		f := fake.New(t, stateful, nil)
		u, _ := fake.StartAuthorized(t, upstream.Config{URL: f.URL, Auth: cfg})
		_, err := fake.Do(t, u, fake.Tool("a"))
		e := fake.WantError(t, err, mcp.CodeUpstreamAuthFailed, mcp.ExecutedNo)
		if !strings.Contains(e.Message, "Upstream fake cannot be used: the token endpoint does not answer; try again later") {
			t.Errorf("got %q", e.Message)
		}
		if got := f.Requests(""); len(got) > 0 {
			t.Errorf("the server was asked: %v", got)
		}
	})
}

// Two users share neither sessions nor credentials, whatever the call.
func TestPerUser(t *testing.T) {
	fake.Eras(t, func(t *testing.T, stateful bool) {
		endpoint := fake.NewTokens(t)
		var next atomic.Int32
		var mu sync.Mutex
		owners := map[string]string{} // of sessions
		base := sessionless(&next)
		f := fake.New(t, stateful, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			if id := r.Header.Get("Mcp-Session-Id"); id != "" {
				owner, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer exchanged-"), "-")
				mu.Lock()
				if owners[id] == "" {
					owners[id] = owner
				}
				if owners[id] != owner {
					t.Errorf("session %s of %s is used by %s for %s %s", id, owners[id], owner, r.Method, m.Method)
				}
				mu.Unlock()
			}
			return base(f, w, r, m)
		})
		u, _ := fake.StartAuthorized(t, upstream.Config{URL: f.URL, Auth: endpoint.Exchange()})
		if !u.PerUser() || u.Status().State != upstream.StateConnecting {
			t.Errorf("per user %t, state %s", u.PerUser(), u.Status().State)
		}
		_, err := fake.Do(t, u, fake.List(mcp.MethodToolsList))
		if e := fake.WantError(t, err, mcp.CodeUpstreamAuthFailed, mcp.ExecutedNo); !strings.Contains(e.Message,
			"in the name of each user") {
			t.Errorf("got %q", e.Message)
		}
		if u.Status().State != upstream.StateConnecting || len(f.Requests("")) > 0 {
			t.Errorf("state %s after %d requests", u.Status().State, len(f.Requests("")))
		}
		var all sync.WaitGroup
		for i := range 40 {
			name := []string{"alice", "bob", "carol", "dave"}[i%4]
			all.Go(func() {
				for _, c := range []*mcp.Call{fake.List(mcp.MethodDiscover), fake.List(mcp.MethodToolsList),
					fake.Tool("a"), fake.Asked("b")} {
					if _, err := fake.Do(t, u, fake.Of(name, c)); err != nil {
						t.Errorf("%s: %s: %v", name, c.Method, err)
					}
				}
				ephemeral := fake.Of(name, fake.Tool("c"))
				ephemeral.Ephemeral, ephemeral.Session = true, "stateless-clients" // even if all such clients shared one
				if _, err := fake.Do(t, u, ephemeral); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := len(endpoint.Requests()); got != 4 {
			t.Errorf("%d exchanges, want one for each user", got)
		}
		if u.Status().State != upstream.StateReady {
			t.Errorf("got state %s", u.Status().State)
		}
		mu.Lock()
		if want := 4 * 3; stateful && len(owners) != want { // neutral, with a session, ephemeral
			t.Errorf("%d sessions, want %d", len(owners), want)
		}
		mu.Unlock()
		fake.Close(t, u)
		if stateful {
			for _, s := range f.Requests(http.MethodDelete) {
				if !strings.HasPrefix(fake.AuthorizationOf(s), "Bearer exchanged-") {
					t.Errorf("a session is ended with %q", fake.AuthorizationOf(s))
				}
			}
		}
	})
}

// The answer to server/discover for the first user is not reused for another user, who asks
// again.
func TestDiscoverPerUser(t *testing.T) {
	endpoint := fake.NewTokens(t)
	f := fake.New(t, false, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodDiscover {
			return false
		}
		owner, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer exchanged-"), "-")
		fake.Result(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},`+
			`"instructions":"for `+
			owner+`"}`)
		return true
	})
	u, _ := fake.StartAuthorized(t, upstream.Config{URL: f.URL, Auth: endpoint.Exchange()})
	fake.WantOK(t, u, fake.Of("alice", fake.Tool("a")))
	for _, name := range []string{"bob", "alice"} {
		reply := fake.MustDo(t, u, fake.Of(name, fake.List(mcp.MethodDiscover)))
		if text, _ := reply.Result.Member("instructions"); text.Text() != "for "+name {
			t.Errorf("%s gets the instructions %s", name, text)
		}
	}
}

// One user's failure concerns only that user: it neither takes the server down nor fails a
// probe that others wait for.
func TestTroubleOfOneUser(t *testing.T) {
	fake.Eras(t, func(t *testing.T, stateful bool) {
		endpoint := fake.NewTokens(t)
		revoked := "inbound-mallory"
		endpoint.Refuse.Store(&revoked)
		probing, others := make(chan struct{}), make(chan struct{})
		var first sync.Once
		f := fake.New(t, stateful, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer exchanged-eve") {
				first.Do(func() { close(probing) })
				<-others
				w.WriteHeader(http.StatusForbidden)
				return true
			}
			return false
		})
		u, _ := fake.StartAuthorized(t, upstream.Config{URL: f.URL, Auth: endpoint.Exchange()})
		_, err := fake.Do(t, u, fake.Of("mallory", fake.Tool("a")))
		if e := fake.WantError(t, err, mcp.CodeUpstreamAuthFailed, mcp.ExecutedNo); !strings.Contains(e.Message,
			"your token could not be exchanged") {
			t.Errorf("got %q", e.Message)
		}
		evil, good := make(chan error, 1), make(chan error, 1)
		go func() { // probes
			_, err := fake.Do(t, u, fake.Of("eve", fake.Tool("a")))
			evil <- err
		}()
		<-probing
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { // waits for that probe
			_, err := u.Handle(ctx, fake.Of("alice", fake.Tool("a")))
			good <- err
		}()
		close(others)
		if e := fake.WantError(t, <-evil, mcp.CodeUpstreamAuthFailed, mcp.ExecutedNo); !strings.Contains(e.Message,
			"does not let you") {
			t.Errorf("got %q", e.Message)
		}
		if err := <-good; err != nil {
			t.Errorf("alice: %v", err)
		}
		_, err = fake.Do(t, u, fake.Of("eve", fake.Tool("a")))
		fake.WantError(t, err, mcp.CodeUpstreamAuthFailed, mcp.ExecutedNo)
		if u.Status().State != upstream.StateReady {
			t.Errorf("one user's trouble makes the server %s", u.Status().State)
		}
	})
}

// Two tokens of one user may have different rights: each call uses the credential that its
// own token was exchanged for, even within one session.
func TestTokensOfOneUser(t *testing.T) {
	fake.Eras(t, func(t *testing.T, stateful bool) {
		endpoint := fake.NewTokens(t)
		f := fake.New(t, stateful, nil)
		u, _ := fake.StartAuthorized(t, upstream.Config{URL: f.URL, Auth: endpoint.Exchange()})
		for i, token := range []mcp.Secret{"inbound-broad", "inbound-narrow", "inbound-broad"} {
			c := fake.Of("alice", fake.Tool("a"))
			c.Caller.Token, c.Caller.Expires = token, time.Now().Add(time.Hour-time.Duration(i)*time.Minute)
			fake.WantOK(t, u, c)
		}
		var got []string
		for _, s := range f.Requests(mcp.MethodToolsCall) {
			got = append(got, fake.AuthorizationOf(s))
		}
		if want := []string{"Bearer exchanged-broad-1", "Bearer exchanged-narrow-2",
			"Bearer exchanged-broad-1"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if n := len(f.Requests(mcp.MethodInitialize)); stateful && n != 1 {
			t.Errorf("%d sessions, want one", n)
		}
	})
}

// A session's own requests use the latest credential of its user.
func TestOwnTraffic(t *testing.T) {
	endpoint := fake.NewTokens(t)
	f := fake.New(t, true, nil)
	u, _ := fake.StartAuthorized(t, upstream.Config{URL: f.URL, Auth: endpoint.Exchange()})
	old, fresh := fake.Of("alice", fake.Tool("a")), fake.Of("alice", fake.Tool("a"))
	fresh.Caller.Token, fresh.Caller.Expires = "inbound-fresh", old.Caller.Expires.Add(time.Hour)
	fake.WantOK(t, u, old)
	fake.WantOK(t, u, fresh)
	fake.WantOK(t, u, old)
	u.EndSession(old.Session, true)
	if got := fake.AuthorizationOf(f.Await(t, http.MethodDelete, 1)[0]); got != "Bearer exchanged-fresh-2" {
		t.Errorf("the session is ended with %q", got)
	}
}

// A user's session without a client session, such as for lists, ends by idle time.
func TestNeutralSessionsOfUsersEnd(t *testing.T) {
	endpoint := fake.NewTokens(t)
	f := fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
		if m.Method == mcp.MethodToolsList {
			fake.Result(w, m, `{"tools":[]}`)
			return true
		}
		return false
	})
	u, _ := fake.StartAuthorized(t, upstream.Config{URL: f.URL, Auth: endpoint.Exchange(),
		Timeout: upstream.Timeout{Idle: time.Millisecond}})
	fake.MustDo(t, u, fake.Of("alice", fake.List(mcp.MethodToolsList)))
	if got := fake.AuthorizationOf(f.Await(t, http.MethodDelete, 1)[0]); got != "Bearer exchanged-alice-1" {
		t.Errorf("the session is ended with %q", got)
	}
}

// If the server refuses an answer for want of a credential, it is unknown whether the call
// ran: it was under way.
func TestAnswerRefused(t *testing.T) {
	endpoint := fake.NewTokens(t)
	f := fake.New(t, true, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		switch {
		case m.Method == mcp.MethodToolsCall:
			fake.Events(w, `data: {"jsonrpc":"2.0","id":"q1",`+fake.Elicit+"}\n\n")
			<-r.Context().Done()
			return true
		case m.Method == "" && m.Result != nil:
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		return false
	})
	u, _ := fake.StartAuthorized(t, upstream.Config{URL: f.URL, Auth: endpoint.Machine()})
	c := fake.Asked("a")
	ask := fake.MustDo(t, u, c).Ask
	if ask == nil {
		t.Fatal("no question")
	}
	c.Round, c.Answers = ask.Round, map[string]mcp.Raw{ask.Requests[0].Key: mcp.Raw(`{"action":"accept","content":{}}`)}
	_, err := fake.Do(t, u, c)
	fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
}
