package fake

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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

// Tokens is a token endpoint. It issues "<subject token or machine>-<n>" and records what
// it got.
type Tokens struct {
	*httptest.Server
	Refuse atomic.Pointer[string] // the subject token to refuse

	mu  sync.Mutex // guards the fields below
	n   int
	got []string // bodies
}

// NewTokens starts a token endpoint.
func NewTokens(t *testing.T) *Tokens {
	t.Helper()
	s := &Tokens{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.got = append(s.got, string(body))
		s.n++
		n := s.n
		s.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		subject := r.PostFormValue("subject_token")
		if refused := s.Refuse.Load(); refused != nil && *refused == subject {
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

// Requests returns the bodies of all requests.
func (s *Tokens) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// Machine configures client credentials of this endpoint.
func (s *Tokens) Machine() outbound.Config {
	return outbound.Config{Type: outbound.TypeClientCredentials, TokenURL: s.URL, ClientID: "gatehouse",
		ClientSecret: "s3cret"}
}

// Exchange configures an exchange of users' tokens at this endpoint.
func (s *Tokens) Exchange() outbound.Config {
	c := s.Machine()
	c.Type, c.Issuer = outbound.TypeTokenExchange, userIssuer
	return c
}

// User is a caller with the token "inbound-<name>".
func User(name string) mcp.Caller {
	return mcp.NewCaller(mcp.Caller{
		Issuer: userIssuer, Subject: name, Token: mcp.Secret("inbound-" + name), Expires: time.Now().Add(time.Hour),
		Claims: mcp.Raw(`{"sub":"` + name + `"}`),
	})
}

// Of assigns the call to a user, in a session of that user.
func Of(name string, c *mcp.Call) *mcp.Call {
	c.Caller = User(name)
	if c.Session != "" {
		c.Session = c.Caller.User() + ":session"
	}
	return c
}

// StartAuthorized is Start with the credentials from cfg.Auth, and also returns the log.
func StartAuthorized(t *testing.T, cfg upstream.Config) (*Upstream, *mcptest.Log) {
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
	deps := upstream.Deps{Log: log, HTTP: transport, HTTPFor: transport.For, Credentials: credentials}
	u, err := NewUpstream(t, cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Close(t, u) })
	return u, out
}

// Eras runs a test for servers of both eras.
func Eras(t *testing.T, test func(t *testing.T, stateful bool)) {
	t.Run("stateful", func(t *testing.T) { test(t, true) })
	t.Run("stateless", func(t *testing.T) { test(t, false) })
}

// AuthorizationOf returns the credential of a request.
func AuthorizationOf(s Seen) string { return s.Header.Get("Authorization") }
