package auth_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
)

const publicURL = "https://gateway.example/mcp"

// gate is an Auth that runs, in front of a handler that takes who gets in.
type gate struct {
	*auth.Auth
	handler http.Handler
}

// newGate starts an Auth that trusts the issuers, and ends it with the test. change may
// alter the configuration.
func newGate(t testing.TB, change func(*auth.Config), issuers ...*mcptest.Issuer) *gate {
	t.Helper()
	return startGate(t, auth.Deps{}, change, issuers...)
}

// newBubbleGate is newGate in a bubble of synctest: the issuers are asked without a
// network.
func newBubbleGate(t testing.TB, change func(*auth.Config), issuers ...*mcptest.Issuer) *gate {
	t.Helper()
	origin := func(r *http.Request) mcp.Origin { return mcp.Origin{Address: r.Header.Get("From-Address")} }
	return startGate(t, auth.Deps{Origin: origin, NewClient: func(trust []string) (auth.Client, error) {
		for _, issuer := range issuers {
			if issuer.URL == trust[0] {
				return direct{issuer}, nil
			}
		}
		return nil, fmt.Errorf("there is no issuer %s", trust[0])
	}}, change, issuers...)
}

func startGate(t testing.TB, deps auth.Deps, change func(*auth.Config), issuers ...*mcptest.Issuer) *gate {
	t.Helper()
	cfg := auth.Config{Mode: auth.ModeOAuth}
	for _, issuer := range issuers {
		cfg.Issuers = append(cfg.Issuers, auth.Issuer{URL: issuer.URL})
	}
	if change != nil {
		change(&cfg)
	}
	deps.PublicURL = publicURL
	a, err := auth.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Auth: a}
	g.handler = a.Require(g)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := a.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return g
}

// below is where ServeHTTP leaves the request that got to it.
type below struct{}

// ServeHTTP is what stands behind the gate.
func (g *gate) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	*r.Context().Value(below{}).(**http.Request) = r
}

// answer is what a client got, and what got past the gate.
type answer struct {
	*httptest.ResponseRecorder
	passed *http.Request // nil when nothing did
	caller mcp.Caller
}

func (g *gate) do(r *http.Request) answer {
	a := answer{ResponseRecorder: httptest.NewRecorder()}
	g.handler.ServeHTTP(a, r.WithContext(context.WithValue(r.Context(), below{}, &a.passed)))
	if a.passed != nil {
		a.caller, _ = mcp.CallerFrom(a.passed.Context())
	}
	return a
}

// call makes a POST with these Authorization headers.
func (g *gate) call(authorization ...string) answer {
	r := httptest.NewRequest(http.MethodPost, publicURL, untouchable{})
	for _, line := range authorization {
		r.Header.Add("Authorization", line)
	}
	return g.do(r)
}

func (g *gate) bearer(token string) answer { return g.call("Bearer " + token) }

// untouchable is a body that must not be read.
type untouchable struct{}

func (untouchable) Read([]byte) (int, error) { panic("the body was read") }

// expect checks the status, and for refusals all that every one of them has: a challenge
// with parts, and a JSON-RPC error with id null.
func (a answer) expect(t testing.TB, status int, parts ...string) {
	t.Helper()
	if a.Code != status || (a.passed != nil) != (status == http.StatusOK) {
		t.Errorf("got %d (passed: %t), want %d; %s %s", a.Code, a.passed != nil, status,
			a.Header()["Www-Authenticate"], a.Body)
		return
	}
	if status == http.StatusOK {
		return
	}
	if strings.Contains(a.Body.String(), "eyJ") {
		t.Errorf("the answer tells the token: %s", a.Body)
	}
	var body struct {
		JSONRPC string           `json:"jsonrpc"`
		ID      *json.RawMessage `json:"id"`
		Error   struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal(a.Body.Bytes(), &body); err != nil || body.JSONRPC != "2.0" || body.Error.Message == "" ||
		body.Error.Code == 0 ||
		!strings.Contains(a.Body.String(), `"id":null`) || a.Header().Get("Content-Type") != "application/json" {
		t.Errorf("the body is no JSON-RPC error: %s", a.Body)
	}
	lines := a.Header()["Www-Authenticate"]
	if status == http.StatusServiceUnavailable {
		if retry := a.Header().Get("Retry-After"); len(lines) > 0 || retry == "" ||
			strings.Trim(retry, "0123456789") != "" || retry == "0" {
			t.Errorf("got Retry-After %q and challenges %q", retry, lines)
		}
		return
	}
	if len(lines) != 1 {
		t.Fatalf("got %d challenges: %q", len(lines), lines)
	}
	parts = append(parts, `Bearer `,
		`resource_metadata="https://gateway.example/.well-known/oauth-protected-resource/mcp"`)
	for _, part := range parts {
		if !strings.Contains(lines[0], part) {
			t.Errorf("the challenge %q has no %s", lines[0], part)
		}
	}
}

const invalidToken = `error="invalid_token"`

// direct reaches an issuer without a network, with the time limit of a real client.
type direct struct{ *mcptest.Issuer }

func (d direct) Peer() *x509.Certificate { return nil }

func (d direct) Do(req *http.Request) (*safehttp.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), 5*time.Second)
	defer cancel()
	w := httptest.NewRecorder()
	d.ServeHTTP(w, req.WithContext(ctx))
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if w.Code/100 == 3 {
		return nil, safehttp.ErrRedirect
	}
	return &safehttp.Response{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}, nil
}

func (direct) Close() {}

// newIssuer starts an issuer that ends with the test.
func newIssuer(t testing.TB, opts mcptest.IssuerOptions) *mcptest.Issuer {
	issuer := mcptest.NewIssuer(opts)
	t.Cleanup(issuer.Close)
	return issuer
}
