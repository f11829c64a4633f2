package outbound

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

const (
	upstreamURL = "https://crm.example.com/mcp"
	issuerURL   = "https://login.example.com/realm"
	clientID    = "gate:house"
	secret      = "p+s %3A: é&=" // every letter matters in its encoding
)

// tokenRequest is what a token endpoint got.
type tokenRequest struct {
	form   url.Values
	header http.Header
	user   string // of HTTP Basic, decoded as RFC 6749 §2.3.1 says
	secret string
}

// tokenServer is a token endpoint that does what the test says.
type tokenServer struct {
	*httptest.Server

	mu     sync.Mutex // guards the fields below
	got    []tokenRequest
	answer func(w http.ResponseWriter, r tokenRequest)
}

func newTokenServer(t *testing.T, tls bool) *tokenServer {
	t.Helper()
	s := &tokenServer{answer: func(w http.ResponseWriter, r tokenRequest) {
		give(w, map[string]any{"access_token": "token-of-" + r.form.Get("subject_token"), "expires_in": 3600})
	}}
	handler := http.HandlerFunc(s.serve)
	if tls {
		s.Server = httptest.NewTLSServer(handler)
	} else {
		s.Server = httptest.NewServer(handler)
	}
	t.Cleanup(s.Close)
	return s
}

func (s *tokenServer) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != typeForm || r.ParseForm() != nil ||
		r.URL.RawQuery != "" {
		http.Error(w, "not a token request", http.StatusTeapot)
		return
	}
	got := tokenRequest{form: r.PostForm, header: r.Header}
	if user, password, ok := r.BasicAuth(); ok {
		got.user, _ = url.QueryUnescape(user)
		got.secret, _ = url.QueryUnescape(password)
	}
	s.mu.Lock()
	s.got = append(s.got, got)
	answer := s.answer
	s.mu.Unlock()
	answer(w, got)
}

func (s *tokenServer) answers(f func(http.ResponseWriter, tokenRequest)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

func (s *tokenServer) requests() []tokenRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]tokenRequest(nil), s.got...)
}

// give writes a successful answer; members replace those of a good one, nil takes one
// out.
func give(w http.ResponseWriter, members map[string]any) {
	all := map[string]any{"token_type": "Bearer", "issued_token_type": tokenTypePrefix + "access_token"}
	maps.Copy(all, members)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(all); err != nil {
		panic(err)
	}
}

func refuse(w http.ResponseWriter, status int, code, description string) {
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(map[string]string{"error": code, "error_description": description}); err != nil {
		panic(err)
	}
}

func newCredentials(t *testing.T, cfg Config, route egress.Config) (*Credentials, *mcptest.Log) {
	t.Helper()
	log := &mcptest.Log{}
	c, err := New(cfg, Deps{
		Log:      slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Upstream: "crm", URL: upstreamURL, Route: route,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, log
}

func machineConfig(s *tokenServer) Config {
	return Config{Type: TypeClientCredentials, TokenURL: s.URL + "/token", ClientID: clientID, ClientSecret: secret}
}

func userConfig(s *tokenServer) Config {
	c := machineConfig(s)
	c.Type, c.Issuer = TypeTokenExchange, issuerURL
	return c
}

func caller(subject, token string) mcp.Caller {
	return mcp.NewCaller(mcp.Caller{Issuer: issuerURL, Subject: subject, Token: mcp.Secret(token),
		Expires: time.Now().Add(time.Hour)})
}

// authorization is what a request of this caller gets.
func authorization(t *testing.T, c *Credentials, who mcp.Caller) (string, uint64) {
	t.Helper()
	h := http.Header{}
	stamp, err := c.Authorize(t.Context(), who, h)
	if err != nil {
		t.Fatal(err)
	}
	return h.Get("Authorization"), stamp
}

// why is the reason for which a caller gets no credential.
func why(t *testing.T, c *Credentials, who mcp.Caller) string {
	t.Helper()
	h := http.Header{}
	_, err := c.Authorize(t.Context(), who, h)
	failure, ok := err.(*Error)
	if !ok || len(h) > 0 {
		t.Fatalf("got %v and headers %v, want an *Error and none", err, h)
	}
	return failure.Why
}
