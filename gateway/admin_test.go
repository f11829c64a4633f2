package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/diagnose"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

type readiness struct {
	Ready         bool
	Reasons       []string
	Upstreams     []diagnose.Upstream
	Configuration *struct{ Problems []string }
}

// ask makes an operator's request, on a connection of its own.
func ask(t *testing.T, address, path string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func readyOf(t *testing.T, g *Gateway) (status int, answer readiness) {
	t.Helper()
	status, text := ask(t, g.admin.Addr().String(), "/readyz")
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return status, answer
}

func TestReadyz(t *testing.T) {
	const dead = "127.0.0.1:1" // nobody listens there, and no other test can get it
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer closed.Close()
	good := newSite(t, true, one("work", saying("x")))
	c := startConfigured(t,
		fmt.Sprintf("admin: {listen: \"127.0.0.1:0\"}\nupstreams:\n- {name: good, url: %q}\n- {name: dead, url: \"http://%s/mcp?key=s3cret\"}\n"+
			"- {name: closed, url: %q}\n", good.url, dead, closed.URL))
	status, answer := readyOf(t, c.Gateway)
	if status != http.StatusOK || !answer.Ready || answer.Configuration == nil || answer.Configuration.Problems != nil {
		t.Errorf("%d %+v", status, answer)
	}
	want := map[string]struct {
		state upstream.State
		stage string
	}{"good": {upstream.StateReady, ""}, "dead": {upstream.StateDown, upstream.StageConnect},
		"closed": {upstream.StateNeedsLogin, upstream.StageLogin}}
	for _, u := range answer.Upstreams {
		w := want[u.Name]
		if u.State != w.state || u.Since.IsZero() || (u.LastFailure == nil) != (w.stage == "") ||
			u.LastFailure != nil && u.LastFailure.Stage != w.stage {
			t.Errorf("%s is %+v %+v, want %+v", u.Name, u, u.LastFailure, w)
		}
	}
	_, text := ask(t, c.admin.Addr().String(), "/readyz")
	if want := `"cause":"` + dead + `: dial tcp ` + dead +
		`: connect: connection refused"`; !strings.Contains(text, want) {
		t.Errorf("why an upstream is down is not told by %s: %s", want, text)
	}
	for _, secret := range []string{"s3cret", "mcp?"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is told: %s", secret, text)
		}
	}
	if status, text := ask(t, c.admin.Addr().String(), "/healthz"); status != http.StatusOK || text != "ok\n" {
		t.Errorf("healthz: %d %s", status, text)
	}
	for _, path := range []string{"/", "/mcp", "/debug/pprof/"} {
		if status, _ := ask(t, c.admin.Addr().String(), path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, _ := ask(t, c.Addr().String(), path); status != http.StatusNotFound {
			t.Errorf("%s on the listener of clients: %d", path, status)
		}
	}
	c.write(t, "no_such_key: 1\n")
	if c.Reload() == nil {
		t.Fatal("a bad file was taken")
	}
	if status, answer = readyOf(t, c.Gateway); status != http.StatusOK || len(answer.Configuration.Problems) == 0 ||
		!strings.Contains(answer.Configuration.Problems[0], "gatehouse.yaml:") {
		t.Errorf("with a bad file: %d %+v", status, answer.Configuration)
	}
}

// TestReadyzWithoutStore: a balancer may ask about the replica alone, since one without the
// store is no worse than any other.
func TestReadyzWithoutStore(t *testing.T) {
	const dead = "127.0.0.1:1" // nobody listens there, and no other test can get it
	good := newSite(t, true, one("work", saying("x")))
	c := startConfigured(t,
		fmt.Sprintf("admin: {listen: \"127.0.0.1:0\"}\nsessions: {store: redis, key: %s, redis: {url: \"redis://%s\"}}\nreplicas: {alone: true}\n"+
			"upstreams:\n- {name: good, url: %q}\n", "0123456789abcdef0123456789abcdef", dead, good.url))
	for query, want := range map[string]int{"": 503, "?exclude=store": 200, "?exclude=other": 503} {
		if status, text := ask(t, c.admin.Addr().String(), "/readyz"+query); status != want ||
			strings.Contains(text, `"reasons":["the session store`) != (want == 503) {
			t.Errorf("/readyz%s: %d %s", query, status, text)
		}
	}
	c.draining.Store(true)
	if status, text := ask(t, c.admin.Addr().String(), "/readyz?exclude=store"); status != http.StatusServiceUnavailable {
		t.Errorf("while it stops: %d %s", status, text)
	}
}

// TestReadyzTellsStrangersLittle: a client that is not on this machine learns only whether the
// gateway is ready.
func TestReadyzTellsStrangersLittle(t *testing.T) {
	g := start(t, upstream.Config{Name: "hidden", URL: newSite(t, true, one("work", saying("x"))).url})
	waitReady(t, g)
	for _, tt := range []struct {
		name, from, host, header string
		told                     bool
	}{
		{"here", "127.0.0.1:5000", "127.0.0.1:9090", "", true},
		{"here, by name", "[::1]:5000", "localhost:9090", "", true},
		{"another machine", "10.0.0.7:5000", "127.0.0.1:9090", "", false},
		{"by a proxy", "127.0.0.1:5000", "localhost:9090", "X-Forwarded-For", false},
		{"a web page", "127.0.0.1:5000", "localhost:9090", "Origin", false},
		{"a name that leads here", "127.0.0.1:5000", "evil.example:9090", "", false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/readyz", nil)
		r.RemoteAddr, r.Host = tt.from, tt.host
		if tt.header != "" {
			r.Header.Set(tt.header, "x")
		}
		w := httptest.NewRecorder()
		g.adminRoutes().ServeHTTP(w, r)
		if told := strings.Contains(w.Body.String(), "hidden"); told != tt.told || w.Code != http.StatusOK ||
			!strings.Contains(w.Body.String(), `"ready":true`) {
			t.Errorf("%s: %d %s", tt.name, w.Code, w.Body)
		}
	}
}

// TestDrain: from the signal on, the gateway is not ready and takes no new sessions.
// Subscriptions end; calls continue for a while, and those that run then end well.
func TestDrain(t *testing.T) {
	running, finish := make(chan struct{}), make(chan struct{})
	p := startPeer(t, true, func(context.Context) string {
		select {
		case <-running: // a call that comes late
		default:
			close(running)
			<-finish
		}
		return "done"
	})
	cfg := Config{Listen: "127.0.0.1:0", Admin: config.Admin{Listen: "127.0.0.1:0"},
		Upstreams: []upstream.Config{{Name: "a", URL: p.url}}}
	g, err := New(Options{Config: cfg, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	g.Start()
	defer g.Stop(t.Context()) // in case the test ends early
	waitReady(t, g)
	clients := map[string]*mcptest.Client{}
	for _, revision := range []string{stateful, stateless} {
		c := mcptest.NewClient(g.URL(), wire.Lookup(revision))
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		c.HTTP = &http.Client{Transport: transport}
		if err := c.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		clients[revision] = c
	}
	answer := make(chan string, 1)
	go func() {
		m, _, err := clients[stateful].Call(t.Context(), "tools/call", `{"name":"a__work"}`)
		answer <- fmt.Sprint(string(m.Result), err)
	}()
	<-running
	subscribed, err := clients[stateless].Send(t.Context(), "subscriptions/listen",
		`{"notifications":{"toolsListChanged":true}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer subscribed.Close()
	if _, err := subscribed.Next(); err != nil { // the acknowledgement
		t.Fatal(err)
	}

	g.drain()
	if m, err := subscribed.Response(); err != nil || m.Error != nil {
		t.Errorf("the subscription ended with %+v, %v", m, err)
	}
	if status, answer := readyOf(t, g); status != http.StatusServiceUnavailable || answer.Ready ||
		len(answer.Reasons) != 1 {
		t.Errorf("readyz: %d %+v", status, answer)
	}
	late := mcptest.NewClient(g.URL(), wire.Lookup(stateful))
	late.HTTP = clients[stateful].HTTP
	for what, send := range map[string]func() (*mcptest.Exchange, error){
		"a new session": func() (*mcptest.Exchange, error) {
			return late.Post(t.Context(),
				`{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
		},
		"a new subscription": func() (*mcptest.Exchange, error) {
			return clients[stateless].Send(t.Context(), "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
		},
		"a new stream": func() (*mcptest.Exchange, error) { return clients[stateful].Get(t.Context(), "") },
	} {
		x, err := send()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		text := x.Text()
		x.Close()
		if x.Status != http.StatusServiceUnavailable || x.Header.Get("Retry-After") == "" ||
			!strings.Contains(text, `"code":50301`) {
			t.Errorf("%s: %d %v %s", what, x.Status, x.Header, text)
		}
		if what == "a new session" && !strings.Contains(text, `"id":7`) {
			t.Errorf("%s: not the request's id: %s", what, text)
		}
	}
	if m, _, err := clients[stateful].Call(t.Context(), "tools/call", `{"name":"a__work"}`); err != nil ||
		!strings.Contains(string(m.Result), "done") {
		t.Errorf("a call that comes late: %+v, %v", m, err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- g.Stop(t.Context()) }()
	close(finish)
	if got := <-answer; !strings.Contains(got, "done") {
		t.Errorf("the call that ran: %s", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", g.admin.Addr().String()); err == nil {
		c.Close()
		t.Error("operators are still served")
	}
}

// TestDrainKeepsIdleConnections: a balancer that has not noticed the drain sends its next
// request on an idle connection, and the request is not lost.
func TestDrainKeepsIdleConnections(t *testing.T) {
	g := start(t, upstream.Config{Name: "a", URL: newSite(t, true, one("work", saying("done"))).url})
	waitReady(t, g)
	var transport http.Transport
	defer transport.CloseIdleConnections()
	send := func() (reused bool, resp *http.Response) {
		t.Helper()
		ctx := httptrace.WithClientTrace(t.Context(),
			&httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }})
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL(),
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if resp, err = transport.RoundTrip(r); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return reused, resp
	}
	if _, resp := send(); resp.Close {
		t.Error("a connection is closed without a reason")
	}
	g.drain()
	// If somebody had closed it, that would have happened before this answer.
	ask(t, g.Addr().String(), "/nothing")
	if reused, resp := send(); !reused || !resp.Close {
		t.Errorf("after the signal the connection is used again: %t, and closed then: %t", reused, resp.Close)
	}
}

// TestReadyzKnowsIssuersAndStore: a gateway where nobody can sign in is not ready, and reports
// the state of its issuers and its store. Once one issuer has been reached, the gateway stays
// ready.
func TestReadyzKnowsIssuersAndStore(t *testing.T) {
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{})
	defer issuer.Close()
	issuer.BreakAll(mcptest.Status(500))
	good := newSite(t, true, one("work", saying("x")))
	c := startConfigured(t,
		fmt.Sprintf("admin: {listen: \"127.0.0.1:0\"}\npublic_url: https://gateway.example/mcp\npolicy: {default: allow}\n"+
			"auth: {mode: oauth, issuers: [{url: %q}, {url: \"http://127.0.0.1:1\"}]}\nupstreams:\n- {name: good, url: %q}\n",
			issuer.URL, good.url))
	ready := func() (int, string) { return ask(t, c.admin.Addr().String(), "/readyz") }
	if err := c.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, text := ready(); status != http.StatusServiceUnavailable ||
		!strings.Contains(text, "no issuer of tokens has been reached yet") ||
		!strings.Contains(text, `"issuers":[{"url":"`+issuer.URL+`","state":"down","reason":`) {
		t.Errorf("before an issuer was reached: %d %s", status, text)
	}
	issuer.Mend()
	eventually(t, "the issuer is reached", func() bool {
		status, text := ready()
		return status == http.StatusOK && strings.Contains(text, `"state":"ready"`) &&
			strings.Contains(text, `"store":{"kind":"memory","ready":true}`)
	})
	issuer.BreakAll(mcptest.Status(500))
	if status, text := ready(); status != http.StatusOK {
		t.Errorf("after it was: %d %s", status, text)
	}
}
