package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/trial"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

const (
	stateful  = "2025-11-25"
	stateless = "2026-07-28"
)

func TestMain(m *testing.M) {
	mcptest.VerifyMain(m)
}

// patience bounds each wait for what must happen. It is long, since the machine may be busy.
const patience = time.Minute

// peer is an MCP server of the official SDK with one tool, work, which does what the test
// says.
type peer struct {
	url     string
	deleted chan struct{} // receives for each session that is ended
}

func startPeer(t *testing.T, isStateless bool, work func(context.Context) string) *peer {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "peer", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "work"}, func(ctx context.Context, _ *sdk.CallToolRequest,
		_ struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: work(ctx)}}}, nil, nil
	})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: isStateless, PropagateRequestCancellation: true})
	p := &peer{deleted: make(chan struct{}, 16)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
		if r.Method == http.MethodDelete {
			p.deleted <- struct{}{}
		}
	}))
	p.url = s.URL
	t.Cleanup(func() {
		for session := range server.Sessions() {
			session.Close()
		}
		s.Close()
	})
	return p
}

func says(text string) func(context.Context) string {
	return func(context.Context) string { return text }
}

// start starts a gateway on a free port and stops it at the end of the test.
func start(t *testing.T, upstreams ...upstream.Config) *Gateway {
	t.Helper()
	g, err := New(Options{
		Config: Config{Listen: "127.0.0.1:0", Upstreams: upstreams},
		Log:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	g.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	return g
}

// waitReady returns when the gateway knows its upstreams. Before that, a call waits for them
// only for a limited time.
func waitReady(t *testing.T, g *Gateway) {
	t.Helper()
	if err := g.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T, g *Gateway, revision string) *sdk.ClientSession {
	t.Helper()
	transport := &http.Transport{}
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: g.URL(), HTTPClient: &http.Client{Transport: transport},
	}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close()
		transport.CloseIdleConnections()
	})
	return session
}

func listTools(t *testing.T, session *sdk.ClientSession) (names []string) {
	t.Helper()
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

func callTool(ctx context.Context, session *sdk.ClientSession, name string) (string, error) {
	result, err := session.CallTool(ctx, &sdk.CallToolParams{Name: name})
	if err != nil {
		return "", err
	}
	return result.Content[0].(*sdk.TextContent).Text, nil
}

func TestListAndCall(t *testing.T) {
	g := start(t,
		upstream.Config{Name: "new", URL: startPeer(t, true, says("from new")).url},
		upstream.Config{Name: "old", URL: startPeer(t, false, says("from old")).url, Revision: "2025-06-18"},
	)
	waitReady(t, g)
	for _, revision := range []string{stateful, stateless} {
		t.Run(revision, func(t *testing.T) {
			session := connect(t, g, revision)
			if got := session.InitializeResult().ProtocolVersion; got != revision {
				t.Errorf("the client speaks %s, want %s", got, revision)
			}
			if diff := cmp.Diff([]string{"new__work", "old__work"}, listTools(t, session)); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			for tool, want := range map[string]string{"new__work": "from new", "old__work": "from old"} {
				if got, err := callTool(t.Context(), session, tool); err != nil || got != want {
					t.Errorf("%s: got %q, %v; want %q", tool, got, err, want)
				}
			}
		})
	}
}

// TestBadUpstreamsHinderNobody: one upstream refuses connections, and one accepts them but
// never answers. The third one works as if it were alone.
func TestBadUpstreamsHinderNobody(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	const dead = "127.0.0.1:1" // nobody listens there, and no other test can get it
	g := start(t,
		upstream.Config{Name: "dead", URL: "http://" + dead + "/mcp"},
		upstream.Config{Name: "silent", URL: "http://" + silent.Addr().String() + "/mcp"},
		upstream.Config{Name: "good", URL: startPeer(t, true, says("fine")).url},
	)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	session := connect(t, g, stateful)
	for len(listTools(t, session)) == 0 && ctx.Err() == nil { // a list does not wait for long
	}
	if diff := cmp.Diff([]string{"good__work"}, listTools(t, session)); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if got, err := callTool(ctx, session, "good__work"); err != nil || got != "fine" {
		t.Errorf("got %q, %v; want fine", got, err)
	}
	if _, err := callTool(ctx, session, "dead__work"); err == nil || !strings.Contains(err.Error(), "dead") {
		t.Errorf("got %v, want an error that names the upstream", err)
	}
}

// TestSessionsEndTogether: what an upstream keeps for a client's session ends with that
// session.
func TestSessionsEndTogether(t *testing.T) {
	p := startPeer(t, false, says("done"))
	g := start(t, upstream.Config{Name: "old", URL: p.url, Revision: "2025-06-18"})
	waitReady(t, g)
	session := connect(t, g, stateful)
	if _, err := callTool(t.Context(), session, "old__work"); err != nil {
		t.Fatal(err)
	}
	session.Close()
	select {
	case <-p.deleted:
	case <-time.After(patience):
		t.Error("the upstream's session was not ended")
	}
}

func TestStopLetsCallsFinish(t *testing.T) {
	running, finish := make(chan struct{}), make(chan struct{})
	p := startPeer(t, true, func(context.Context) string {
		close(running)
		<-finish
		return "done"
	})
	g := start(t, upstream.Config{Name: "slow", URL: p.url})
	waitReady(t, g)
	session := connect(t, g, stateful)
	answer := make(chan error, 1)
	go func() {
		got, err := callTool(t.Context(), session, "slow__work")
		if err == nil && got != "done" {
			err = errors.New("got " + got)
		}
		answer <- err
	}()
	<-running
	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		stopped <- g.Stop(ctx)
	}()
	select {
	case err := <-stopped:
		t.Fatalf("stopped while a call ran: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(finish)
	if err := <-answer; err != nil {
		t.Errorf("the call that ran: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stopping: %v", err)
	}
	if c, err := net.Dial("tcp", g.Addr().String()); err == nil {
		c.Close()
		t.Error("the port still takes connections")
	}
}

func TestStopCutsOffInTime(t *testing.T) {
	running := make(chan struct{})
	p := startPeer(t, true, func(ctx context.Context) string {
		close(running)
		<-ctx.Done()
		return "cancelled"
	})
	g, err := New(Options{
		Config: Config{Listen: "127.0.0.1:0", Upstreams: []upstream.Config{{Name: "slow", URL: p.url}}},
		Log:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	g.Start()
	waitReady(t, g)
	session := connect(t, g, stateless)
	answer := make(chan error, 1)
	go func() {
		_, err := callTool(t.Context(), session, "slow__work")
		answer <- err
	}()
	<-running
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := g.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stopping: %v, want that a call was cut off", err)
	}
	if took := time.Since(begin); took > patience/2 { // less than the call's own limit
		t.Errorf("stopping took %s", took)
	}
	if err := <-answer; err == nil {
		t.Error("the call that was cut off has an answer")
	}
}

func TestTwoGateways(t *testing.T) {
	one := start(t, upstream.Config{Name: "a", URL: startPeer(t, true, says("one")).url})
	other := start(t, upstream.Config{Name: "a", URL: startPeer(t, true, says("other")).url})
	for want, g := range map[string]*Gateway{"one": one, "other": other} {
		waitReady(t, g)
		if got, err := callTool(t.Context(), connect(t, g, stateful), "a__work"); err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
}

func TestNewFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	ups := []upstream.Config{{Name: "a", URL: "https://a.example"}}
	t.Run("port in use", func(t *testing.T) {
		_, err := New(Options{Config: Config{Listen: taken.Addr().String(), Upstreams: ups}})
		if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
			t.Errorf("got %v, want an error with the address", err)
		}
	})
	t.Run("bad configuration", func(t *testing.T) {
		_, err := New(Options{Config: Config{Listen: "0.0.0.0:1", Upstreams: slices.Concat(ups, ups)}})
		bad, ok := errors.AsType[*config.Error](err)
		if !ok || len(bad.Problems) != 2 {
			t.Errorf("got %v, want a config.Error of two problems", err)
		}
	})
}

// TestRun: Run does what New, Start and Stop do, with the log that the configuration asks for,
// and with a given listener.
func TestRun(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log mcptest.Log
	g, err := New(Options{
		Config: Config{Upstreams: []upstream.Config{{Name: "a", URL: startPeer(t, true, says("x")).url}},
			ShutdownDelay: 50 * time.Millisecond},
		Log:      slog.New(slog.NewTextHandler(&log, nil)),
		Listener: listener,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- g.Run(ctx) }()
	waitReady(t, g)
	if got, err := callTool(t.Context(), connect(t, g, stateless), "a__work"); err != nil || got != "x" {
		t.Errorf("got %q, %v; want x", got, err)
	}
	begun := time.Now()
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took < 50*time.Millisecond {
		t.Errorf("stopped after %s, before the delay", took)
	}
	for _, want := range []string{"msg=serving url=" + g.URL(), "msg=stopping", "name=a__work"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
}

func TestRunListenerFails(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(Options{
		Config:   Config{Upstreams: []upstream.Config{{Name: "a", URL: startPeer(t, true, says("x")).url}}},
		Log:      slog.New(slog.DiscardHandler),
		Listener: listener,
	})
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := g.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "serving:") {
		t.Errorf("got %v, want why it does not serve", err)
	}
}

func TestInspector(t *testing.T) {
	const dead = "127.0.0.1:1" // nobody listens there, and no other test can get it
	off := false
	reports, _, _, err := trial.Connect(t.Context(), Inspector("1", slog.New(slog.DiscardHandler)),
		Config{Upstreams: []upstream.Config{
			{Name: "good", URL: startPeer(t, false, says("x")).url, Revision: "2025-06-18"},
			{Name: "off", URL: "https://off.example", Enabled: &off},
			{Name: "dead", URL: "http://" + dead},
		}}, "")
	if err != nil || len(reports) != 2 {
		t.Fatalf("%v, %d reports; want 2", err, len(reports))
	}
	want := trial.Report{Name: "good", State: "up", Revision: "2025-06-18", Server: "peer 1", Tools: 1}
	if diff := cmp.Diff(want, reports[0]); diff != "" {
		t.Errorf("good (-want +got):\n%s", diff)
	}
	if r := reports[1]; r.Name != "dead" || r.State != "down" || r.Error == "" {
		t.Errorf("dead: %+v, want it down with an error", r)
	}
}
