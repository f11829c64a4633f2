package vault

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

const (
	serverURL    = "https://crm.example.com/mcp"
	clientSecret = "100% client+secret:&"
	keyA         = "0123456789abcdef0123456789abcdef"
	keyB         = "fedcba9876543210fedcba9876543210"
)

var alice, bob = Owner{"https://login.example.com", "alice"}, Owner{"https://login.example.com", "bob"}

// authServer is an authorization server whose refresh tokens rotate: each may be used once. Its
// tokens say whose they are: "access <tag> <n>", with dots for spaces.
type authServer struct {
	*httptest.Server

	mu       sync.Mutex            // guards the fields below
	latest   map[string]int        // the number of the last refresh token, by tag
	reused   []string              // refresh tokens that came again
	forms    []map[string]string   // of requests for tokens
	revoked  []string              // hint and token
	answer   http.HandlerFunc      // in place of the usual one; nil for that
	lifetime int                   // in seconds
	hook     func(r *http.Request) // before an answer; nil for none
}

func newAuthServer(t testing.TB) *authServer {
	t.Helper()
	s := &authServer{latest: make(map[string]int), lifetime: 3600}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", s.token)
	mux.HandleFunc("POST /revoke", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.revoked = append(s.revoked, r.PostFormValue("token_type_hint")+" "+r.PostFormValue("token"))
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *authServer) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	s.mu.Lock()
	form := map[string]string{}
	for name := range r.PostForm {
		form[name] = r.PostForm.Get(name)
	}
	if id, secret, ok := r.BasicAuth(); ok {
		form["basic"] = id + " " + secret
	}
	s.forms = append(s.forms, form)
	answer, hook := s.answer, s.hook
	s.mu.Unlock()
	if hook != nil {
		hook(r)
	}
	if answer != nil {
		answer(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := strings.Split(form["refresh_token"], ".")
	n := 0
	if len(parts) == 3 {
		_, _ = fmt.Sscan(parts[2], &n)
	}
	if len(parts) != 3 || parts[0] != "refresh" || n != s.latest[parts[1]] {
		s.reused = append(s.reused, form["refresh_token"])
		fail(w, http.StatusBadRequest, "invalid_grant")
		return
	}
	s.latest[parts[1]]++
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"access_token":%q,"refresh_token":%q,"token_type":"Bearer","expires_in":%d}`,
		accessToken(parts[1], n+1), refreshToken(parts[1], n+1), s.lifetime)
}

func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": code, "error_description": "in its own words"})
}

func accessToken(tag string, n int) string  { return fmt.Sprintf("access.%s.%d", tag, n) }
func refreshToken(tag string, n int) string { return fmt.Sprintf("refresh.%s.%d", tag, n) }

// set changes how the server behaves.
func (s *authServer) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// asked returns the forms of the requests for tokens.
func (s *authServer) asked() []map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]map[string]string(nil), s.forms...)
}

// grant is what a sign-in brings for a tag, with a token that has ended if life is negative.
func (s *authServer) grant(tag string, life time.Duration) Grant {
	return Grant{
		AccessToken: accessToken(tag, 0), RefreshToken: refreshToken(tag, 0), Expires: time.Now().Add(life), Scope: "read",
		AuthServer: s.URL, TokenURL: s.URL + "/token", RevokeURL: s.URL + "/revoke",
		ClientID: "gatehouse", ClientSecret: clientSecret, Resource: serverURL, URL: serverURL,
	}
}

// open opens a vault that trusts the authorization server.
func (s *authServer) open(t testing.TB, cfg Config, redis *redisdb.DB) (*Vault, *mcptest.Log) {
	t.Helper()
	log := &mcptest.Log{}
	v, err := New(cfg, Deps{
		Log:   slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Base:  expiring.Base{Redis: redis},
		Reach: func(string) ([]string, egress.Config) { return []string{s.URL}, egress.Config{} },
		URL:   func(string) string { return serverURL },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v, log
}

func openRedis(t testing.TB, url string) *redisdb.DB {
	t.Helper()
	db, err := redisdb.Open(redisdb.Config{URL: mcp.Secret(url)}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func localKeys(keys ...string) (c Config) {
	for _, k := range keys {
		id := "a"
		if k == keyB {
			id = "b"
		}
		c.Keys = append(c.Keys, Key{ID: id, Key: mcp.Secret(k)})
	}
	return c
}

func keep(t testing.TB, v *Vault, owner Owner, server string, g Grant) {
	t.Helper()
	if err := v.Keep(t.Context(), owner, server, g); err != nil {
		t.Fatal(err)
	}
}

// wantToken requires a token.
func wantToken(t testing.TB, v *Vault, owner Owner, server, want string) {
	t.Helper()
	if got, _, err := v.Token(t.Context(), owner, server, serverURL); got != want || err != nil {
		t.Errorf("%s at %s: %q %v, want %q", owner.User, server, got, err, want)
	}
}

// wantState requires the state of an account, and that Token agrees with it.
func wantState(t testing.TB, v *Vault, owner Owner, server, want string) State {
	t.Helper()
	all, err := v.States(t.Context(), owner, []string{server})
	if err != nil || len(all) != 1 || all[0].State != want {
		t.Fatalf("%s at %s: %+v %v, want %s", owner.User, server, all, err, want)
	}
	return all[0]
}
