package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// eras has one revision of a client for each era.
var eras = []string{statefulClient, stateless}

type claims = map[string]any

// guarded is a gateway that requires a token.
type guarded struct {
	served *gateway.Gateway
	url    string // the endpoint, which is its public URL
	issuer *mcptest.Issuer
	log    *mcptest.Log // at level debug
}

// guard starts a gateway in mode oauth with an issuer of its own. cfg may set issuers and
// policy; by default every token may do everything.
func guard(t *testing.T, cfg gateway.Config) *guarded {
	t.Helper()
	return guardWith(t, newIssuer(t), cfg)
}

func newIssuer(t *testing.T) *mcptest.Issuer {
	t.Helper()
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{})
	t.Cleanup(issuer.Close)
	return issuer
}

// guardWith is guard with an existing issuer, whose tokens are for this gateway from now
// on.
func guardWith(t *testing.T, issuer *mcptest.Issuer, cfg gateway.Config) *guarded {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listen = listener.Addr().String()
	cfg.PublicURL = "http://" + cfg.Listen + "/mcp"
	issuer.Audience = cfg.PublicURL
	cfg.Auth.Mode = auth.ModeOAuth
	if cfg.Auth.Issuers == nil {
		cfg.Auth.Issuers = []auth.Issuer{{URL: issuer.URL}}
	}
	if cfg.Policy.IsZero() {
		cfg.Policy = policy.Config{Default: policy.DefaultAllow}
	}
	log := &mcptest.Log{}
	g, err := gateway.New(gateway.Options{
		Config: cfg, Version: "test", Listener: listener,
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		listener.Close()
		t.Fatal(err)
	}
	untilTheEnd(t, g)
	return &guarded{served: g, url: cfg.PublicURL, issuer: issuer, log: log}
}

// raw makes a scripted client with a token and an open session.
func (g *guarded) raw(t *testing.T, revision, token string) *mcptest.Client {
	t.Helper()
	return g.rawWith(t, revision, token, "{}")
}

// rawWith is raw for a client that declares capabilities.
func (g *guarded) rawWith(t *testing.T, revision, token, caps string) *mcptest.Client {
	t.Helper()
	c := unopened(t, g.url, revision)
	c.Caps = caps
	present(c, token)
	if err := c.Open(deadline(t)); err != nil {
		t.Fatal(err)
	}
	return c
}

// present makes a scripted client use a token from now on.
func present(c *mcptest.Client, token string) {
	c.Header = http.Header{"Authorization": {"Bearer " + token}}
}

// as returns a copy of a scripted client, with its session, that uses another token.
func as(t *testing.T, c *mcptest.Client, token string) *mcptest.Client {
	t.Helper()
	other := unopened(t, c.URL, c.Revision.Name)
	other.Caps, other.Session = c.Caps, c.Session
	present(other, token)
	return other
}

// connect makes a go-sdk client with a token.
func (g *guarded) connect(t *testing.T, revision, token string) *client {
	t.Helper()
	c := newClient(revision)
	c.open(t, g.transport(t, token))
	return c
}

func (g *guarded) transport(t *testing.T, token string) *sdk.StreamableClientTransport {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &sdk.StreamableClientTransport{Endpoint: g.url,
		HTTPClient: &http.Client{Transport: bearer{token, watchSkills(t, transport)}}}
}

// bearer sends a token with every request.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// wholeAnswer returns everything that a client can see of an answer: status, headers except
// Date, and body.
func wholeAnswer(t *testing.T, c *mcptest.Client, verb, body string, header http.Header) string {
	t.Helper()
	x, err := c.Do(deadline(t), verb, body, header)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	return seen(x)
}

// wholeCall is wholeAnswer for a request, always with the same id.
func wholeCall(t *testing.T, c *mcptest.Client, method, params string) string {
	t.Helper()
	x, err := c.SendID(deadline(t), "4711", method, params)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	return seen(x)
}

func seen(x *mcptest.Exchange) string {
	var b strings.Builder
	fmt.Fprintln(&b, x.Status)
	for _, name := range slices.Sorted(maps.Keys(x.Header)) {
		if name != "Date" {
			fmt.Fprintln(&b, name, x.Header[name])
		}
	}
	return b.String() + x.Text()
}

// mustCall makes a request that must succeed.
func mustCall(t *testing.T, c *mcptest.Client, method, params string) mcptest.Message {
	t.Helper()
	m, _, err := c.Call(deadline(t), method, params)
	if err != nil || m.Error != nil {
		t.Fatalf("%s %s: %s, %v", method, params, m.Text, err)
	}
	return m
}

// obey waits as long as an answer says.
func obey(t *testing.T, retryAfter string) {
	t.Helper()
	wait, err := time.ParseDuration(retryAfter + "s")
	if err != nil || wait <= 0 || wait > patience {
		t.Fatalf("Retry-After is %q", retryAfter)
	}
	select {
	case <-time.After(wait):
	case <-deadline(t).Done():
		t.Fatal("it is over")
	}
}

// untilTheEnd starts a gateway, waits until it is ready, and stops it when the test ends.
func untilTheEnd(t *testing.T, g *gateway.Gateway) {
	t.Helper()
	g.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience) // the context of t has ended
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Error("stopping the gateway:", err)
		}
	})
	if err := g.WaitReady(deadline(t)); err != nil {
		t.Fatal(err)
	}
}
