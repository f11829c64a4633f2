package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// site is an MCP server on HTTP that records its requests.
type site struct {
	url    string
	server *sdk.Server

	mu     sync.Mutex
	begun  int      // sessions, or discoveries of a stateless server
	tokens []string // in the Authorization headers
}

func (s *site) sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

func (s *site) lastToken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tokens) == 0 {
		return ""
	}
	return s.tokens[len(s.tokens)-1]
}

// newSite serves tools that work as the test says.
func newSite(t *testing.T, isStateless bool, tools map[string]sdk.ToolHandler) *site {
	t.Helper()
	s := &site{server: sdk.NewServer(&sdk.Implementation{Name: "site", Version: "1"}, nil)}
	for name, tool := range tools {
		s.server.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, tool)
	}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.server },
		&sdk.StreamableHTTPOptions{Stateless: isStateless, PropagateRequestCancellation: true})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.mu.Lock()
		s.tokens = append(s.tokens, r.Header.Get("Authorization"))
		if bytes.Contains(body, []byte(`"initialize"`)) {
			s.begun++
		}
		s.mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	s.url = web.URL
	t.Cleanup(func() {
		for session := range s.server.Sessions() {
			session.Close()
		}
		web.Close()
	})
	return s
}

func saying(text string) sdk.ToolHandler {
	return func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
	}
}

func one(name string, tool sdk.ToolHandler) map[string]sdk.ToolHandler {
	return map[string]sdk.ToolHandler{name: tool}
}

// configured is a gateway with a file.
type configured struct {
	*Gateway
	file string
	log  *mcptest.Log
	// level is the least level of the log.
	level slog.Level
	look  time.Duration // how often it looks at its file
	// listener is nil for a port of the gateway's own choice.
	listener net.Listener
}

// lookSoon makes a gateway apply a changed file while a test waits.
const lookSoon = 10 * time.Millisecond

// observed makes a call of a client, as the endpoint does, and leaves the answer to its record.
func observed(t *testing.T, c *configured, call *mcp.Call) {
	t.Helper()
	call.Verdict = &mcp.Verdict{}
	_, _ = c.observer.Observe(t.Context(), call, c.current.calls)
}

func startConfigured(t *testing.T, text string) *configured {
	t.Helper()
	c := &configured{file: filepath.Join(t.TempDir(), "gatehouse.yaml"), log: &mcptest.Log{}, look: lookSoon}
	c.write(t, text)
	c.run(t)
	return c
}

// startUnwatched is startConfigured for tests that count their reloads.
func startUnwatched(t *testing.T, text string) *configured {
	t.Helper()
	c := &configured{file: filepath.Join(t.TempDir(), "gatehouse.yaml"), log: &mcptest.Log{}, look: time.Hour}
	c.write(t, text)
	c.run(t)
	return c
}

// withIssuer returns a gateway that is not started yet, and an issuer of tokens for it. Their
// addresses are known before the configuration is written.
func withIssuer(t *testing.T) (*configured, *mcptest.Issuer) {
	t.Helper()
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{})
	t.Cleanup(issuer.Close)
	c := onListener(t)
	issuer.Audience = "http://" + c.listener.Addr().String() + "/mcp"
	return c, issuer
}

// onListener returns a gateway that is not started yet. It does not watch its file.
func onListener(t *testing.T) *configured {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return &configured{
		file: filepath.Join(t.TempDir(), "gatehouse.yaml"), log: &mcptest.Log{}, look: time.Hour, listener: listener,
	}
}

func (c *configured) run(t *testing.T) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(c.log, &slog.HandlerOptions{Level: c.level}))
	g, err := New(Options{ConfigFile: c.file, Listener: c.listener, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	c.Gateway = g
	g.lookEvery = c.look
	g.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	waitReady(t, g)
}

// signedIn returns a client with a token, its connections and its session.
func (c *configured) signedIn(ctx context.Context, t *testing.T, revision, token string) *mcptest.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := mcptest.NewClient(c.URL(), wire.Lookup(revision))
	client.HTTP = &http.Client{Transport: transport}
	client.Header = http.Header{"Authorization": {"Bearer " + token}}
	if err := client.Open(ctx); err != nil {
		t.Fatal(err)
	}
	return client
}

// write replaces a configuration, as editors do.
func (c *configured) write(t *testing.T, text string) {
	t.Helper()
	next := c.file + ".next"
	if err := os.WriteFile(next, []byte("listen: 127.0.0.1:0\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, c.file); err != nil {
		t.Fatal(err)
	}
}

func (c *configured) reload(t *testing.T, text string) {
	t.Helper()
	c.write(t, text)
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
		pause := time.NewTimer(5 * time.Millisecond)
		<-pause.C
	}
}

// hearing is a client that counts the notifications that tools changed.
func hearing(t *testing.T, g *Gateway, revision string) (session *sdk.ClientSession, heard chan struct{}) {
	t.Helper()
	return hearingAt(t, g.URL(), revision)
}

func hearingAt(t *testing.T, url, revision string) (session *sdk.ClientSession, heard chan struct{}) {
	t.Helper()
	heard = make(chan struct{}, 16)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { heard <- struct{}{} },
	})
	transport := &http.Transport{}
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: transport},
	}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close()
		transport.CloseIdleConnections()
	})
	return session, heard
}

func TestReloadUpstreams(t *testing.T) {
	for _, revision := range []string{stateful, stateless} {
		t.Run(revision, func(t *testing.T) {
			running, finish := make(chan struct{}), make(chan struct{})
			kept := newSite(t, false, one("work", saying("kept")))
			old := newSite(t, false, one("work", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				close(running)
				<-finish
				return saying("from the old one")(nil, nil)
			}))
			other := newSite(t, true, map[string]sdk.ToolHandler{"work": saying("from the new one"), "more": saying("more")})
			added := newSite(t, true, one("work", saying("added")))
			upstreams := "upstreams:\n- {name: kept, url: %q, revision: 2025-06-18}\n- {name: changed, url: %q}\n"
			c := startConfigured(t, fmt.Sprintf(upstreams, kept.url, old.url))
			session, heard := hearing(t, c.Gateway, revision)
			if got, err := callTool(t.Context(), session, "kept__work"); err != nil || got != "kept" {
				t.Fatalf("got %q, %v", got, err)
			}
			sessions := kept.sessions()
			answer := make(chan string, 1)
			go func() {
				got, err := callTool(t.Context(), session, "changed__work")
				answer <- fmt.Sprint(got, err)
			}()
			<-running

			c.reload(t, fmt.Sprintf(upstreams+"- {name: added, url: %q}\n", kept.url, other.url, added.url))
			if !strings.Contains(c.log.String(), "changed=upstreams added=added replaced=changed") {
				t.Errorf("the log does not say what changed:\n%s", c.log.String())
			}
			eventually(t, "the new list", func() bool {
				return cmp.Equal([]string{"kept__work", "changed__more", "changed__work", "added__work"}, listTools(t, session))
			})
			for tool, want := range map[string]string{"kept__work": "kept", "changed__work": "from the new one",
				"added__work": "added"} {
				if got, err := callTool(t.Context(), session, tool); err != nil || got != want {
					t.Errorf("%s: got %q, %v; want %q", tool, got, err, want)
				}
			}
			if now := kept.sessions(); now != sessions {
				t.Errorf("%d sessions were begun at the upstream that did not change", now-sessions)
			}
			select {
			case <-heard:
			case <-time.After(patience):
				t.Error("the client was not told that tools changed")
			}
			close(finish)
			if got := <-answer; got != "from the old one<nil>" {
				t.Errorf("the call that ran: %s", got)
			}
			eventually(t, "the upstream that was replaced is closed", func() bool { return len(c.current.members()) == 3 })
		})
	}
}

// TestReloadRemovesWithCalls: a call that runs at an upstream which a reload removes is answered,
// and for new ones the tool does not exist.
func TestReloadRemovesWithCalls(t *testing.T) {
	running, finish := make(chan struct{}), make(chan struct{})
	gone := newSite(t, true, one("work", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		close(running)
		<-finish
		return saying("done")(nil, nil)
	}))
	other := newSite(t, true, one("work", saying("x")))
	rest := fmt.Sprintf("upstreams:\n- {name: other, url: %q}\n", other.url)
	c := startConfigured(t, rest+fmt.Sprintf("- {name: gone, url: %q}\n", gone.url))
	session, _ := hearing(t, c.Gateway, stateful)
	answer := make(chan string, 1)
	go func() {
		got, err := callTool(t.Context(), session, "gone__work")
		answer <- fmt.Sprint(got, err)
	}()
	<-running
	c.reload(t, rest)
	if _, err := callTool(t.Context(), session, "gone__work"); err == nil || !strings.Contains(err.Error(), "gone__work") {
		t.Errorf("a new call: got %v, want that the tool is not known", err)
	}
	close(finish)
	if got := <-answer; got != "done<nil>" {
		t.Errorf("the call that ran: %s", got)
	}
	eventually(t, "the upstream is closed", func() bool { return len(c.current.members()) == 1 })
}

// TestReloadRemoves: what an upstream offered is removed with it, and its session there is
// ended. A reload that changes nothing for a client is not announced to it.
func TestReloadRemoves(t *testing.T) {
	p, other := startPeer(t, false, says("x")), newSite(t, true, one("work", saying("x")))
	both := fmt.Sprintf("upstreams:\n- {name: other, url: %q}\n- {name: gone, url: %q, revision: 2025-06-18}\n",
		other.url, p.url)
	c := startConfigured(t, both)
	session, heard := hearing(t, c.Gateway, stateful)
	if _, err := callTool(t.Context(), session, "gone__work"); err != nil {
		t.Fatal(err)
	}
	c.reload(t, both+"shutdown_timeout: 20s\n")
	c.reload(t, fmt.Sprintf("upstreams:\n- {name: other, url: %q}\n", other.url))
	if diff := cmp.Diff([]string{"other__work"}, listTools(t, session)); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if _, err := callTool(t.Context(), session, "gone__work"); err == nil || !strings.Contains(err.Error(), "gone__work") {
		t.Errorf("got %v, want that it is not known", err)
	}
	for range 2 { // the client's session and the gateway's own
		select {
		case <-p.deleted:
		case <-time.After(patience):
			t.Fatal("a session at the upstream was not ended")
		}
	}
	<-heard
}

func TestReloadPolicy(t *testing.T) {
	p := newSite(t, true, map[string]sdk.ToolHandler{"read": saying("read"), "write": saying("written")})
	upstreams := fmt.Sprintf("upstreams: [{name: a, url: %q}]\n", p.url)
	for _, revision := range []string{stateful, stateless} {
		t.Run(revision, func(t *testing.T) {
			c := startConfigured(t, upstreams)
			session, heard := hearing(t, c.Gateway, revision)
			if diff := cmp.Diff([]string{"a__read", "a__write"}, listTools(t, session)); diff != "" {
				t.Fatalf("tools (-want +got):\n%s", diff)
			}
			c.reload(t, upstreams+`policy: {default: allow, rules: [{name: r, deny: ["tools:a/write"]}]}`+"\n")
			select { // before the client lists tools: who has the new list is told nothing
			case <-heard:
			case <-time.After(patience):
				t.Error("the client was not told that it sees other tools")
			}
			if _, err := callTool(t.Context(), session, "a__write"); err == nil {
				t.Error("a call passed that the policy denies")
			}
			if diff := cmp.Diff([]string{"a__read"}, listTools(t, session)); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			c.reload(t, upstreams+`limits: [{name: l, rate: 1/d}]`+"\n")
			if _, err := callTool(t.Context(), session, "a__write"); err != nil {
				t.Errorf("the first call: %v", err)
			}
			c.reload(t, upstreams+`limits: [{name: l, rate: 1/d}]`+"\nshutdown_timeout: 5s\n")
			if _, err := callTool(t.Context(), session, "a__write"); err == nil || !strings.Contains(err.Error(), "Too Many") {
				t.Errorf("got %v, want that the allowance was used up before the reload", err)
			}
		})
	}
}

func TestReloadRefused(t *testing.T) {
	p := newSite(t, true, one("work", saying("x")))
	upstreams := fmt.Sprintf("upstreams: [{name: a, url: %q}]\n", p.url)
	c := startUnwatched(t, upstreams)
	session := connect(t, c.Gateway, stateless)
	for _, tt := range []struct{ name, text, want string }{
		{"no YAML", "upstreams: [", ":2:"},
		{"unknown key", upstreams + "polices: {}\n", `:3: unknown key "polices"`},
		{"several at once", upstreams + "shutdown_timeout: -1s\npolicy: {default: maybe}\n", ":3: shutdown_timeout"},
		{"a rule that does not compile",
			upstreams + "policy: {rules: [{name: r, allow: [\"tools:a/*\"], when: \"args.\"}]}\n", ":3: policy"},
		{"rules that need what waits for a restart", upstreams +
			"admin: {listen: \"127.0.0.1:0\", api: {loopback: viewer}}\n" +
			"auth: {mode: oauth, issuers: [{url: \"https://i.example\"}]}\npolicy: {rules: [{name: r, ask: [\"tools:a/*\"], approvers: {who: {groups: [g]}}}]}\n",
			":3: admin: waits for a restart"},
		{"a secret that is not there", upstreams + "telemetry: {log: {format: \"${file:none}\"}}\n",
			":3: telemetry.log.format: ${file:none}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := c.graph()
			c.write(t, tt.text)
			err := c.Reload()
			bad, ok := errors.AsType[*config.Error](err)
			if !ok || !strings.Contains(bad.Error(), c.file+tt.want) {
				t.Fatalf("got %v, want a problem with %s", err, tt.want)
			}
			if status := c.ReloadStatus(); status.Err != err || !status.Tried.After(status.Loaded) {
				t.Errorf("status %+v", status)
			}
			for _, p := range bad.Problems {
				if !strings.Contains(c.log.String(), fmt.Sprintf("problem=%q", p.String())) &&
					!strings.Contains(c.log.String(), "problem="+p.String()) {
					t.Errorf("the log lacks %s:\n%s", p, c.log.String())
				}
			}
			if c.graph() != before {
				t.Error("something was replaced")
			}
			if got, err := callTool(t.Context(), session, "a__work"); err != nil || got != "x" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	c.reload(t, upstreams)
	if status := c.ReloadStatus(); status.Err != nil || status.Tried != status.Loaded {
		t.Errorf("after a good file: %+v", status)
	}
	t.Run("without a file", func(t *testing.T) {
		if err := start(t, upstream.Config{Name: "a", URL: p.url}).Reload(); err == nil {
			t.Error("no error")
		}
	})
}

// TestReloadWatches: the gateway notices by itself that a file was replaced, whether by an
// editor or as Kubernetes does, and that a secret which the file only names was replaced.
func TestReloadWatches(t *testing.T) {
	p := newSite(t, true, one("work", saying("x")))
	text := fmt.Sprintf("upstreams: [{name: a, url: %q, auth: {type: bearer, token: \"${file:token}\"}}]\n", p.url)
	root := t.TempDir()
	version := func(name, text, token string) {
		t.Helper()
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string]string{"gatehouse.yaml": "listen: 127.0.0.1:0\n" + text, "token": token} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		link := filepath.Join(root, "..next")
		if err := os.Symlink(name, link); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link, filepath.Join(root, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("v1", text, "first")
	for _, name := range []string{"gatehouse.yaml", "token"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	c := &configured{file: filepath.Join(root, "gatehouse.yaml"), log: &mcptest.Log{}, look: lookSoon}
	c.run(t)
	session := connect(t, c.Gateway, stateless)
	call := func() string {
		t.Helper()
		if _, err := callTool(t.Context(), session, "a__work"); err != nil {
			t.Fatal(err)
		}
		return p.lastToken()
	}
	if got := call(); got != "Bearer first" {
		t.Fatalf("the token is %q", got)
	}
	version("v2", text, "second")
	eventually(t, "another secret", func() bool { return call() == "Bearer second" })
	version("v3", text+"no_such_key: 1\n", "third")
	eventually(t, "a bad file is told of", func() bool { return c.ReloadStatus().Err != nil })
	if got := call(); got != "Bearer second" {
		t.Errorf("with a bad file, the token is %q", got)
	}
	version("v4", text+"policy: {default: deny}\n", "third")
	eventually(t, "another policy", func() bool { return len(listTools(t, session)) == 0 })
	if strings.Contains(c.log.String(), "Bearer") || strings.Contains(c.log.String(), "third") {
		t.Errorf("the log has a secret:\n%s", c.log.String())
	}
}

// TestReloadWhileAsked: a call waits for its user while its upstream is replaced, and ends
// where it began.
func TestReloadWhileAsked(t *testing.T) {
	asking := func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		answer, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "sure?"})
		if err != nil {
			return nil, err
		}
		return saying("old "+answer.Action)(nil, nil)
	}
	old := newSite(t, false, one("work", asking))
	other := newSite(t, true, one("work", saying("new")))
	c := startConfigured(t, fmt.Sprintf("upstreams: [{name: a, url: %q, revision: 2025-06-18}]\n", old.url))
	var asked atomic.Int64
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			asked.Add(1)
			c.reload(t, fmt.Sprintf("upstreams: [{name: a, url: %q}]\nlimits: [{name: l, rate: 100/s}]\n", other.url))
			return &sdk.ElicitResult{Action: "accept"}, nil
		},
	})
	for _, revision := range []string{stateful, stateless} {
		t.Run(revision, func(t *testing.T) {
			c.reload(t, fmt.Sprintf("upstreams: [{name: a, url: %q, revision: 2025-06-18}]\n", old.url))
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
				Endpoint: c.URL(), HTTPClient: &http.Client{Transport: transport},
			}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			for _, want := range []string{"old accept", "new"} {
				if got, err := callTool(t.Context(), session, "a__work"); err != nil || got != want {
					t.Errorf("got %q, %v; want %q", got, err, want)
				}
			}
		})
	}
	if got := asked.Load(); got != 2 {
		t.Errorf("asked %d times", got)
	}
	eventually(t, "the upstreams that were replaced are closed", func() bool { return len(c.current.members()) == 1 })
}

// TestReloadLogLevel: a running gateway can be asked to log more or less.
func TestReloadLogLevel(t *testing.T) {
	upstreams := fmt.Sprintf("upstreams: [{name: a, url: %q}]\n", newSite(t, true, one("work", saying("x"))).url)
	c := startUnwatched(t, upstreams)
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelWarn, slog.LevelInfo} {
		c.reload(t, upstreams+fmt.Sprintf("telemetry: {log: {level: %s}}\n", level))
		if got := c.logLevel.Level(); got != level {
			t.Errorf("the level is %s, want %s", got, level)
		}
	}
	c.write(t, upstreams+"telemetry: {log: {level: debug, format: json}}\n")
	if err := c.Reload(); err != nil || len(c.ReloadStatus().Pending) != 1 {
		t.Errorf("another format: %v", err)
	}
	if got := c.logLevel.Level(); got != slog.LevelDebug {
		t.Errorf("a format that waits for a restart keeps the level at %s", got)
	}
}
