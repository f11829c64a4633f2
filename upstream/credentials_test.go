package upstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

const userIssuer = "https://login.example.com"

// tokens is a token endpoint. It issues "<subject token or machine>-<n>" and records what
// it got.
type tokens struct {
	*httptest.Server
	refuse atomic.Pointer[string] // the subject token to refuse

	mu  sync.Mutex // guards the fields below
	n   int
	got []string // bodies
}

func newTokens(t *testing.T) *tokens {
	t.Helper()
	s := &tokens{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.got = append(s.got, string(body))
		s.n++
		n := s.n
		s.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		subject := r.PostFormValue("subject_token")
		if refused := s.refuse.Load(); refused != nil && *refused == subject {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		name := strings.Replace(subject, "inbound", "exchanged", 1)
		if subject == "" {
			name = "machine"
		}
		fmt.Fprintf(w, `{"access_token":"%s-%d","token_type":"Bearer","expires_in":3600,"issued_token_type":"urn:ietf:params:oauth:token-type:access_token"}`, name, n)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *tokens) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func (s *tokens) machine() outbound.Config {
	return outbound.Config{Type: outbound.TypeClientCredentials, TokenURL: s.URL, ClientID: "gatehouse",
		ClientSecret: "s3cret"}
}

func (s *tokens) exchange() outbound.Config {
	c := s.machine()
	c.Type, c.Issuer = outbound.TypeTokenExchange, userIssuer
	return c
}

// user is a caller with the token "inbound-<name>".
func user(name string) mcp.Caller {
	return mcp.NewCaller(mcp.Caller{
		Issuer: userIssuer, Subject: name, Token: mcp.Secret("inbound-" + name), Expires: time.Now().Add(time.Hour),
		Claims: mcp.Raw(`{"sub":"` + name + `"}`),
	})
}

// of assigns the call to a user, in a session of that user.
func of(name string, c *mcp.Call) *mcp.Call {
	c.Caller = user(name)
	if c.Session != "" {
		c.Session = c.Caller.User() + ":session"
	}
	return c
}

// startAuthorized is start with the credentials from cfg.Auth, and with the log.
func startAuthorized(t *testing.T, cfg upstream.Config) (*upstream.Upstream, *mcptest.Log) {
	t.Helper()
	cfg.Name = "fake"
	out := &mcptest.Log{}
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	credentials, err := outbound.New(cfg.Auth, outbound.Deps{Log: log, Upstream: cfg.Name, URL: cfg.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(credentials.Close)
	transport := upstream.NewTransport(nil, cfg)
	t.Cleanup(transport.CloseIdleConnections)
	u, err := withHomes(t, cfg, upstream.Deps{Log: log, HTTP: transport, HTTPFor: transport.For, Credentials: credentials})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, u) })
	return u, out
}

// eras runs a test for servers of both eras.
func eras(t *testing.T, test func(t *testing.T, stateful bool)) {
	t.Run("stateful", func(t *testing.T) { test(t, true) })
	t.Run("stateless", func(t *testing.T) { test(t, false) })
}

func authorizationOf(s seen) string { return s.header.Get("Authorization") }

// sessionless answers as the fake does, but with a new session id for each initialize, and
// with a GET stream that stays open.
func sessionless(next *atomic.Int32) func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
	return func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		switch {
		case f.stateful && m.Method == mcp.MethodInitialize:
			w.Header().Set("Mcp-Session-Id", fmt.Sprintf("s%d", next.Add(1)))
			result(w, m, `{"protocolVersion":"`+f.version+`","capabilities":`+f.caps+
				`,"serverInfo":{"name":"fake","version":"1"}}`)
			return true
		case f.stateful && r.Method == http.MethodGet:
			events(w, ": hello\n\n")
			<-r.Context().Done()
			return true
		case m.Method == mcp.MethodToolsList:
			result(w, m, `{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`)
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
	endpoint := newTokens(t)
	for _, tt := range []struct {
		name string
		auth outbound.Config
		want string // the beginning of Authorization
	}{
		{"none", outbound.Config{}, ""},
		{"header", outbound.Config{Type: outbound.TypeHeader, Header: "X-Api-Key", Token: "key"}, ""},
		{"bearer", outbound.Config{Type: outbound.TypeBearer, Token: "fixed"}, "Bearer fixed"},
		{"client_credentials", endpoint.machine(), "Bearer machine-"},
		{"token_exchange", endpoint.exchange(), "Bearer exchanged-alice-"},
	} {
		for _, client := range []string{"own", "standard"} {
			t.Run(tt.name+" "+client, func(t *testing.T) {
				eras(t, func(t *testing.T, stateful bool) {
					before := len(endpoint.requests())
					var sessions atomic.Int32
					f := newFake(t, stateful, sessionless(&sessions))
					u, log := startAuthorized(t, upstream.Config{URL: f.URL, Auth: tt.auth, HTTPClient: client,
						Headers: map[string]mcp.Secret{"X-Team": "sales"}})
					ctx := mcp.WithCaller(t.Context(), user("alice"))
					for _, c := range []*mcp.Call{list(mcp.MethodDiscover), list(mcp.MethodToolsList), asked("a"), tool("b")} {
						if _, err := u.Handle(ctx, of("alice", c)); err != nil {
							t.Fatalf("%s: %v", c.Method, err)
						}
					}
					if stateful {
						f.await(t, http.MethodGet, 1)
					}
					shut(t, u)
					verbs := map[string]bool{}
					for _, s := range f.requests("") {
						verbs[s.verb] = true
						for name := range s.header {
							if !slices.Contains(allowed, name) {
								t.Errorf("%s %s has the header %s", s.verb, s.Method, name)
							}
						}
						if got := authorizationOf(s); !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
							t.Errorf("%s %s: Authorization %q", s.verb, s.Method, got)
						}
						if all := fmt.Sprint(s.header, string(s.Params), string(s.Result)); strings.Contains(all, "inbound") {
							t.Errorf("%s %s has the user's token: %s", s.verb, s.Method, all)
						}
					}
					if stateful && len(verbs) != 3 {
						t.Errorf("got the verbs %v, want POST, GET and DELETE", verbs)
					}
					if strings.Contains(log.String(), "inbound") || strings.Contains(log.String(), "exchanged-") {
						t.Errorf("a token is in the log: %s", log)
					}
					sent := endpoint.requests()[before:]
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
		cfg := command(t, "env")
		script := `env >"$DIR/env"; tee "$DIR/stdin" | "$SELF"`
		cfg.Env["DIR"], cfg.Env["SELF"] = mcp.Secret(dir), mcp.Secret(cfg.Command[0])
		cfg.Command = []string{"sh", "-c", script}
		u, log := startAuthorized(t, cfg)
		if _, err := u.Handle(t.Context(), of("alice", tool("env"))); err != nil {
			t.Fatal(err)
		}
		shut(t, u)
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
func refusing(status int, challenge string, refuse func(authorization string) bool) func(f *fake, w http.ResponseWriter,
	r *http.Request, m rpc) bool {
	return func(_ *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if !refuse(r.Header.Get("Authorization")) {
			return false
		}
		w.Header().Set("WWW-Authenticate", challenge)
		if m.ID != nil {
			failure(w, status, m, `{"code":-32600,"message":"see https://evil.example/login"}`)
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
	eras(t, func(t *testing.T, stateful bool) {
		endpoint := newTokens(t)
		var revoked atomic.Bool
		f := newFake(t, stateful, refusing(http.StatusUnauthorized, challenge, func(a string) bool {
			return revoked.Load() && a == "Bearer machine-1"
		}))
		u, _ := startAuthorized(t, upstream.Config{URL: f.URL, Auth: endpoint.machine()})
		wantOK(t, u, tool("a"))
		revoked.Store(true)
		wantOK(t, u, tool("a"))
		wantOK(t, u, tool("a"))
		var got []string
		for _, s := range f.requests(mcp.MethodToolsCall) {
			got = append(got, authorizationOf(s))
		}
		if want := []string{"Bearer machine-1", "Bearer machine-1", "Bearer machine-2",
			"Bearer machine-2"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := len(endpoint.requests()); got != 2 {
			t.Errorf("%d tokens were asked for, want 2", got)
		}
		shut(t, u)
		for _, s := range f.requests(http.MethodDelete) {
			if authorizationOf(s) != "Bearer machine-2" {
				t.Errorf("the session is ended with %q", authorizationOf(s))
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
			eras(t, func(t *testing.T, stateful bool) {
				endpoint := newTokens(t)
				var closed atomic.Bool
				f := newFake(t, stateful, refusing(tt.status, challenge, func(string) bool { return closed.Load() }))
				u, log := startAuthorized(t, upstream.Config{URL: f.URL, Auth: endpoint.machine()})
				wantOK(t, u, tool("a"))
				closed.Store(true)
				for i := range 3 {
					before := len(f.requests(mcp.MethodToolsCall))
					_, err := do(t, u, tool("a"))
					e := wantError(t, err, mcp.CodeUpstreamAuthFailed, mcp.ExecutedNo)
					if all := e.Message + string(e.Data); strings.Contains(all, "evil") || strings.Contains(all, "crm.admin") ||
						!strings.Contains(all, "fake") {
						t.Errorf("got %s", all)
					}
					want := tt.each
					if i > 0 {
						want = 1 // there was no use in a new credential
					}
					if got := len(f.requests(mcp.MethodToolsCall)) - before; got != want {
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
	eras(t, func(t *testing.T, stateful bool) {
		endpoint := newTokens(t)
		cfg := endpoint.machine()
		endpoint.Close()
		f := newFake(t, stateful, nil)
		u, _ := startAuthorized(t, upstream.Config{URL: f.URL, Auth: cfg})
		_, err := do(t, u, tool("a"))
		e := wantError(t, err, mcp.CodeUpstreamAuthFailed, mcp.ExecutedNo)
		if !strings.Contains(e.Message, "Upstream fake cannot be used: the token endpoint does not answer; try again later") {
			t.Errorf("got %q", e.Message)
		}
		if got := f.requests(""); len(got) > 0 {
			t.Errorf("the server was asked: %v", got)
		}
	})
}

// Two users share neither sessions nor credentials, whatever the call.
func TestPerUser(t *testing.T) {
	eras(t, func(t *testing.T, stateful bool) {
		endpoint := newTokens(t)
		var next atomic.Int32
		var mu sync.Mutex
		owners := map[string]string{} // of sessions
		base := sessionless(&next)
		f := newFake(t, stateful, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
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
		u, _ := startAuthorized(t, upstream.Config{URL: f.URL, Auth: endpoint.exchange()})
		if !u.PerUser() || u.Status().State != upstream.StateConnecting {
			t.Errorf("per user %t, state %s", u.PerUser(), u.Status().State)
		}
		_, err := do(t, u, list(mcp.MethodToolsList))
		if e := wantError(t, err, mcp.CodeUpstreamAuthFailed, mcp.ExecutedNo); !strings.Contains(e.Message,
			"in the name of each user") {
			t.Errorf("got %q", e.Message)
		}
		if u.Status().State != upstream.StateConnecting || len(f.requests("")) > 0 {
			t.Errorf("state %s after %d requests", u.Status().State, len(f.requests("")))
		}
		var all sync.WaitGroup
		for i := range 40 {
			name := []string{"alice", "bob", "carol", "dave"}[i%4]
			all.Go(func() {
				for _, c := range []*mcp.Call{list(mcp.MethodDiscover), list(mcp.MethodToolsList), tool("a"), asked("b")} {
					if _, err := do(t, u, of(name, c)); err != nil {
						t.Errorf("%s: %s: %v", name, c.Method, err)
					}
				}
				ephemeral := of(name, tool("c"))
				ephemeral.Ephemeral, ephemeral.Session = true, "stateless-clients" // even if all such clients shared one
				if _, err := do(t, u, ephemeral); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := len(endpoint.requests()); got != 4 {
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
		shut(t, u)
		if stateful {
			for _, s := range f.requests(http.MethodDelete) {
				if !strings.HasPrefix(authorizationOf(s), "Bearer exchanged-") {
					t.Errorf("a session is ended with %q", authorizationOf(s))
				}
			}
		}
	})
}

// The answer to server/discover for the first user is not reused for another user, who asks
// again.
func TestDiscoverPerUser(t *testing.T) {
	endpoint := newTokens(t)
	f := newFake(t, false, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method != mcp.MethodDiscover {
			return false
		}
		owner, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer exchanged-"), "-")
		result(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"instructions":"for `+
			owner+`"}`)
		return true
	})
	u, _ := startAuthorized(t, upstream.Config{URL: f.URL, Auth: endpoint.exchange()})
	wantOK(t, u, of("alice", tool("a")))
	for _, name := range []string{"bob", "alice"} {
		reply := mustDo(t, u, of(name, list(mcp.MethodDiscover)))
		if text, _ := reply.Result.Member("instructions"); text.Text() != "for "+name {
			t.Errorf("%s gets the instructions %s", name, text)
		}
	}
}

// One user's failure concerns only that user: it neither takes the server down nor fails a
// probe that others wait for.
func TestTroubleOfOneUser(t *testing.T) {
	eras(t, func(t *testing.T, stateful bool) {
		endpoint := newTokens(t)
		revoked := "inbound-mallory"
		endpoint.refuse.Store(&revoked)
		probing, others := make(chan struct{}), make(chan struct{})
		var first sync.Once
		f := newFake(t, stateful, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
			if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer exchanged-eve") {
				first.Do(func() { close(probing) })
				<-others
				w.WriteHeader(http.StatusForbidden)
				return true
			}
			return false
		})
		u, _ := startAuthorized(t, upstream.Config{URL: f.URL, Auth: endpoint.exchange()})
		_, err := do(t, u, of("mallory", tool("a")))
		if e := wantError(t, err, mcp.CodeUpstreamAuthFailed, mcp.ExecutedNo); !strings.Contains(e.Message,
			"your token could not be exchanged") {
			t.Errorf("got %q", e.Message)
		}
		evil, good := make(chan error, 1), make(chan error, 1)
		go func() { // probes
			_, err := do(t, u, of("eve", tool("a")))
			evil <- err
		}()
		<-probing
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { // waits for that probe
			_, err := u.Handle(ctx, of("alice", tool("a")))
			good <- err
		}()
		close(others)
		if e := wantError(t, <-evil, mcp.CodeUpstreamAuthFailed, mcp.ExecutedNo); !strings.Contains(e.Message,
			"does not let you") {
			t.Errorf("got %q", e.Message)
		}
		if err := <-good; err != nil {
			t.Errorf("alice: %v", err)
		}
		_, err = do(t, u, of("eve", tool("a")))
		wantError(t, err, mcp.CodeUpstreamAuthFailed, mcp.ExecutedNo)
		if u.Status().State != upstream.StateReady {
			t.Errorf("one user's trouble makes the server %s", u.Status().State)
		}
	})
}

// Two tokens of one user may have different rights: each call uses the credential that its
// own token was exchanged for, even within one session.
func TestTokensOfOneUser(t *testing.T) {
	eras(t, func(t *testing.T, stateful bool) {
		endpoint := newTokens(t)
		f := newFake(t, stateful, nil)
		u, _ := startAuthorized(t, upstream.Config{URL: f.URL, Auth: endpoint.exchange()})
		for i, token := range []mcp.Secret{"inbound-broad", "inbound-narrow", "inbound-broad"} {
			c := of("alice", tool("a"))
			c.Caller.Token, c.Caller.Expires = token, time.Now().Add(time.Hour-time.Duration(i)*time.Minute)
			wantOK(t, u, c)
		}
		var got []string
		for _, s := range f.requests(mcp.MethodToolsCall) {
			got = append(got, authorizationOf(s))
		}
		if want := []string{"Bearer exchanged-broad-1", "Bearer exchanged-narrow-2",
			"Bearer exchanged-broad-1"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if n := len(f.requests(mcp.MethodInitialize)); stateful && n != 1 {
			t.Errorf("%d sessions, want one", n)
		}
	})
}

// A session's own requests use the latest credential of its user.
func TestOwnTraffic(t *testing.T) {
	endpoint := newTokens(t)
	f := newFake(t, true, nil)
	u, _ := startAuthorized(t, upstream.Config{URL: f.URL, Auth: endpoint.exchange()})
	old, fresh := of("alice", tool("a")), of("alice", tool("a"))
	fresh.Caller.Token, fresh.Caller.Expires = "inbound-fresh", old.Caller.Expires.Add(time.Hour)
	wantOK(t, u, old)
	wantOK(t, u, fresh)
	wantOK(t, u, old)
	endSession(u, old.Session, true)
	if got := authorizationOf(f.await(t, http.MethodDelete, 1)[0]); got != "Bearer exchanged-fresh-2" {
		t.Errorf("the session is ended with %q", got)
	}
}

// A user's session without a client session, such as for lists, ends by idle time.
func TestNeutralSessionsOfUsersEnd(t *testing.T) {
	endpoint := newTokens(t)
	f := newFake(t, true, func(_ *fake, w http.ResponseWriter, _ *http.Request, m rpc) bool {
		if m.Method == mcp.MethodToolsList {
			result(w, m, `{"tools":[]}`)
			return true
		}
		return false
	})
	u, _ := startAuthorized(t, upstream.Config{URL: f.URL, Auth: endpoint.exchange(),
		Timeout: upstream.Timeout{Idle: time.Millisecond}})
	mustDo(t, u, of("alice", list(mcp.MethodToolsList)))
	if got := authorizationOf(f.await(t, http.MethodDelete, 1)[0]); got != "Bearer exchanged-alice-1" {
		t.Errorf("the session is ended with %q", got)
	}
}

// If the server refuses an answer for want of a credential, it is unknown whether the call
// ran: it was under way.
func TestAnswerRefused(t *testing.T) {
	endpoint := newTokens(t)
	f := newFake(t, true, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		switch {
		case m.Method == mcp.MethodToolsCall:
			events(w, `data: {"jsonrpc":"2.0","id":"q1",`+elicit+"}\n\n")
			<-r.Context().Done()
			return true
		case m.Method == "" && m.Result != nil:
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		return false
	})
	u, _ := startAuthorized(t, upstream.Config{URL: f.URL, Auth: endpoint.machine()})
	c := asked("a")
	ask := mustDo(t, u, c).Ask
	if ask == nil {
		t.Fatal("no question")
	}
	c.Round, c.Answers = ask.Round, map[string]mcp.Raw{ask.Requests[0].Key: mcp.Raw(`{"action":"accept","content":{}}`)}
	_, err := do(t, u, c)
	wantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
}

func TestAuthConfig(t *testing.T) {
	bearer := outbound.Config{Type: outbound.TypeBearer, Token: "x"}
	for _, tt := range []struct {
		name string
		cfg  upstream.Config
		want string
	}{
		{"alone", upstream.Config{URL: "https://a.example", Auth: bearer}, ""},
		{"beside another header", upstream.Config{URL: "https://a.example", Auth: bearer,
			Headers: map[string]mcp.Secret{"X-A": "b"}}, ""},
		{"none beside Authorization", upstream.Config{URL: "https://a.example", Auth: outbound.Config{Type: "none"},
			Headers: map[string]mcp.Secret{"Authorization": "b"}}, ""},
		{"twice", upstream.Config{URL: "https://a.example", Auth: bearer,
			Headers: map[string]mcp.Secret{"authorization": "b"}}, "headers[authorization]: auth sets it already"},
		{"a header of the protocol", upstream.Config{URL: "https://a.example",
			Auth: outbound.Config{Type: "header", Header: "mcp-session-id",
				Token: "x"}}, "auth: header: Mcp-Session-Id is set by the gateway itself"},
		{"cookies", upstream.Config{URL: "https://a.example",
			Auth: outbound.Config{Type: "header", Header: "Cookie", Token: "x"}}, "auth: header: Cookie is set"},
		{"a command", upstream.Config{Command: []string{"x"}, Auth: bearer},
			"auth: is for a url; a command gets its credentials by env"},
		{"problems of its own", upstream.Config{URL: "https://a.example", Auth: outbound.Config{Type: "bearer"}},
			"auth: token: is needed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Name = "a"
			err := tt.cfg.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	_, err := upstream.New(upstream.Config{Name: "a", URL: "https://a.example", Auth: bearer},
		upstream.Deps{Log: slog.New(slog.DiscardHandler), HTTP: http.DefaultTransport})
	if err == nil {
		t.Error("an upstream is made without the credentials that it is to have")
	}
	if text, err := json.Marshal(upstream.Config{Auth: bearer}); err != nil || strings.Contains(string(text), `"x"`) {
		t.Errorf("a secret is shown: %s %v", text, err)
	}
}
