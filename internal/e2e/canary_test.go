package e2e

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/tracing"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// recording records every request before it is served.
type recording struct {
	next http.Handler

	mu  sync.Mutex // guards the fields below
	all strings.Builder
}

func (r *recording) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	text, err := httputil.DumpRequest(req, true)
	r.mu.Lock()
	fmt.Fprintf(&r.all, "%s\n%v\n", text, err)
	r.mu.Unlock()
	r.next.ServeHTTP(w, req)
}

func (r *recording) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.String()
}

// recorded serves next and records the requests.
func recorded(t *testing.T, next http.Handler) (url string, r *recording) {
	t.Helper()
	r = &recording{next: next}
	served := httptest.NewServer(r)
	t.Cleanup(func() {
		served.CloseClientConnections()
		served.Close()
	})
	return served.URL, r
}

// recordedIssuer is an issuer whose requests are recorded.
func recordedIssuer(t *testing.T) (*mcptest.Issuer, *recording) {
	t.Helper()
	var issuer *mcptest.Issuer
	url, r := recorded(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { issuer.ServeHTTP(w, req) }))
	issuer = mcptest.NewIssuer(mcptest.IssuerOptions{URL: url})
	t.Cleanup(issuer.Close)
	return issuer, r
}

// serveRecorded is a stdio peer that records its arguments, its environment and its input
// in a file.
func serveRecorded(revision, file string) {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintf(out, "%q\n%q\n", os.Args, os.Environ())
	// go-sdk returns an error when the gateway closes our standard input.
	_ = newPeer(revision, func(string) {}).Run(context.Background(), &sdk.IOTransport{
		Reader: struct {
			io.Reader
			io.Closer
		}{io.TeeReader(os.Stdin, out), os.Stdin},
		Writer: os.Stdout,
	})
}

// TestTheCanary does everything that a client can do, with recognizable tokens. Then
// it searches everything that has left the gateway for the tokens, their claims, and the
// client's other handles.
func TestTheCanary(t *testing.T) {
	t.Parallel()
	canary := "canary-" + rand.Text()
	issuer, atIssuer := recordedIssuer(t)
	other, atOther := recordedIssuer(t)
	left := map[string]fmt.Stringer{"another issuer": atOther}
	var upstreams []upstream.Config

	for name, revision := range map[string]string{"old-http": statefulServer, "new-http": stateless} {
		peer := newPeer(revision, func(string) {})
		t.Cleanup(func() {
			for session := range peer.Sessions() {
				session.Close()
			}
		})
		url, r := recorded(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return peer },
			&sdk.StreamableHTTPOptions{Stateless: revision == stateless, PropagateRequestCancellation: true}))
		left[name] = r
		upstreams = append(upstreams, upstream.Config{Name: name, URL: url,
			Auth: outbound.Config{Type: "bearer", Token: "the-gateways-own"}})
	}
	for name, revision := range map[string]string{"old-stdio": statefulServer, "new-stdio": stateless} {
		file := writtenTo(filepath.Join(t.TempDir(), name))
		left[name] = file
		upstreams = append(upstreams, upstream.Config{Name: name,
			Command: []string{os.Args[0], recordedCommand, revision, string(file)}})
	}
	behind := scripted(t, stateless)
	behind.Tools("echo")
	behind.Tool("echo", func(c *mcptest.Call) { c.Text("x") })
	d := newDoor(t, behind, issuer)
	url, r := recorded(t, d)
	d.url, left["exchanged"] = url, r
	var g *guarded
	spans := mcptest.NewCollector()
	t.Cleanup(spans.Close)
	records := writtenTo(filepath.Join(t.TempDir(), "audit.jsonl"))
	tokens := newDesk(issuer, func(r *http.Request) (claims, error) {
		subject, err := verified(r.PostFormValue("subject_token"), jose.ES256, issuer.Key().Public(), g.url)
		return claims{"sub": subject["sub"], "aud": d.url}, err
	})
	how := tokens.clientAt(outbound.TypeTokenExchange)
	how.Issuer = issuer.URL
	upstreams = append(upstreams, upstream.Config{Name: "exchanged", URL: d.url, Auth: how})
	g = guardWith(t, issuer, gateway.Config{
		Auth: auth.Config{Issuers: []auth.Issuer{{URL: issuer.URL}, {URL: other.URL,
			Introspection: &auth.Introspection{ClientID: other.ClientID, ClientSecret: mcp.Secret(other.ClientSecret)}}}},
		Upstreams: upstreams,
		Audit:     audit.Config{Sinks: []audit.Sink{{Type: audit.TypeFile, Path: string(records)}}},
		Tracing:   tracing.Config{Collector: tracing.Collector{Endpoint: spans.URL}},
		Admin:     config.Admin{Listen: "127.0.0.1:0", API: admin.Config{Loopback: admin.RoleOperator}},
	})

	alice := claims{"sub": "alice", "canary": canary, "email": canary + "@example.com", "groups": []string{canary}}
	var secrets []string
	token := func(more claims) string {
		token := issuer.Token(with(alice, more))
		parts := strings.Split(token, ".")
		secrets = append(secrets, parts[1], parts[2], base64.StdEncoding.EncodeToString([]byte(token)))
		return token
	}
	for _, revision := range eras {
		raw := g.rawWith(t, revision, token(nil), `{"elicitation":{}}`)
		if raw.Session != "" {
			secrets = append(secrets, raw.Session)
		}
		cookie := "cookie-" + rand.Text()
		secrets = append(secrets, cookie)
		// A client could try to have an undeclared Mcp-Param forwarded. The gateway
		// derives these headers from the arguments and drops all others.
		for name, value := range map[string]string{"Cookie": "a=" + cookie, "Proxy-Authorization": "Basic " + cookie,
			"X-Forwarded-Access-Token": cookie, "X-Authorization": cookie, "Mcp-Param-Token": cookie} {
			raw.Header[name] = []string{value}
		}
		for _, u := range upstreams {
			useEverything(t, raw, u.Name)
		}
		c := g.connect(t, revision, token(nil))
		for _, u := range upstreams[:4] {
			if got := c.text(t, u.Name+"__confirm", nil); got != "accept because it is time" {
				t.Errorf("%s: %s", u.Name, got)
			}
		}
		if raw.Session != "" {
			if status, err := raw.Delete(deadline(t)); err != nil || status != 204 {
				t.Error(status, err)
			}
		}
		// Refused tokens leave no trace either.
		for _, bad := range []string{token(claims{"exp": 1}), token(claims{"aud": "other"}),
			token(claims{"nbf": int64(1 << 33)}), token(nil) + "x", token(nil) + ".", "x" + token(nil)} {
			c := unopened(t, g.url, revision)
			present(c, bad)
			if got := wholeAnswer(t, c, "POST", `{}`, nil); !strings.HasPrefix(got, "401\n") {
				t.Errorf("a bad token: %s", got)
			}
		}
		inQuery := unopened(t, g.url+"?access_token="+token(nil), revision)
		if got := wholeAnswer(t, inQuery, "POST", `{}`, nil); !strings.HasPrefix(got, "401\n") {
			t.Errorf("a token in the query: %s", got)
		}
	}
	opaque := other.Opaque(claims{"aud": g.url, "sub": "bob", "canary": canary})
	secrets = append(secrets, opaque)
	mustCall(t, g.raw(t, stateless, opaque), "tools/list", "")

	for where, what := range left {
		text := what.String()
		if where == "another issuer" {
			text = strings.ReplaceAll(text, "token="+opaque, "") // this one is its own
		} else if !strings.Contains(text, "echo") {
			t.Errorf("%s has written down nothing", where)
		}
		wantNowhere(t, where, text, append(secrets, canary)...)
	}
	secrets = append(secrets, canary, argument)
	wantNowhere(t, "the log", g.log.String(), secrets...)
	withoutGroups := strings.NewReplacer(`"groups":["`+canary+`"]`, "") // whose calls they are is recorded
	for _, path := range []string{"/metrics", "/readyz", "/api/v1/decisions?limit=1000", "/api/v1/sessions",
		"/api/v1/upstreams", "/api/v1/pins", "/api/v1/replicas", "/api/v1/config"} {
		resp, err := ownClient(t).Get("http://" + g.served.AdminAddr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %v: %.200s", path, resp.Status, err, text)
		}
		wantNowhere(t, path, withoutGroups.Replace(string(text)), append(secrets, "the-gateways-own")...)
		if strings.Contains(path, "decisions") && !strings.Contains(string(text), "__echo") {
			t.Errorf("%s has no calls", path)
		}
	}
	if err := g.served.Stop(deadline(t)); err != nil {
		t.Error(err)
	}
	recorded := withoutGroups.Replace(records.String())
	wantNowhere(t, "the audit", recorded, secrets...)
	wantNowhere(t, "the collector of traces", spans.String(), secrets...)
	if len(spans.Spans("")) == 0 {
		t.Error("nothing was traced")
	}
	for _, kind := range []string{"call", "signin", "session", "credential"} {
		if !strings.Contains(recorded, `"kind":"`+kind+`"`) {
			t.Errorf("the audit has no %s", kind)
		}
	}
	asked := 0
	for line := range strings.Lines(atIssuer.String()) {
		if strings.HasPrefix(line, "grant_type=") || strings.Contains(line, "&subject_token=") {
			asked++
			continue // the token is exchanged there
		}
		wantNowhere(t, "its own issuer, but for the exchange", line, append(secrets, canary)...)
	}
	if asked == 0 {
		t.Error("no token was exchanged")
	}
}

// writtenTo is what a process has written to a file.
type writtenTo string

func (f writtenTo) String() string {
	text, err := os.ReadFile(string(f))
	return fmt.Sprintf("%s %v", text, err)
}

// argument is an argument of calls, which only their servers may see.
const argument = "argument-canary"

// useEverything makes each request of a client once. The upstream need not have what it
// requests.
func useEverything(t *testing.T, c *mcptest.Client, name string) {
	t.Helper()
	calls := []struct{ method, params string }{
		{"tools/list", ""},
		{"prompts/list", ""},
		{"resources/list", ""},
		{"resources/templates/list", ""},
		{"tools/call", `{"name":"` + name + `__echo","arguments":{"text":"` + argument + `"},"_meta":{"progressToken":1}}`},
		{"tools/call", `{"name":"` + name + `__fail"}`},
		{"tools/call", `{"name":"` + name + `__count","arguments":{"to":1},"_meta":{"progressToken":2}}`},
		{"tools/call", `{"name":"` + name + `__nothing"}`},
		{"prompts/get", `{"name":"` + name + `__greet","arguments":{"name":"` + argument + `"}}`},
		{"resources/read", `{"uri":"` + name + `+test://static"}`},
		{"resources/read", `{"uri":"` + name + `+test://item/none"}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"` + name +
			`__greet"},"argument":{"name":"name","value":"A"}}`},
	}
	if c.Revision.Stateful {
		calls = append(calls, []struct{ method, params string }{
			{"logging/setLevel", `{"level":"debug"}`},
			{"resources/subscribe", `{"uri":"` + name + `+test://static"}`},
			{"tools/call", `{"name":"` + name + `__touch","arguments":{"uri":"test://static"}}`},
			{"resources/unsubscribe", `{"uri":"` + name + `+test://static"}`},
		}...)
	} else {
		calls = append(calls, struct{ method, params string }{"server/discover", ""})
	}
	for _, call := range calls {
		if _, _, err := c.Call(deadline(t), call.method, call.params); err != nil {
			t.Errorf("%s at %s: %v", call.method, name, err)
		}
	}
}
