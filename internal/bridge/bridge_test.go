package bridge_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/bridge"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

// host is a program that has started a bridge.
type host struct {
	t    *testing.T
	in   *io.PipeWriter
	out  chan string
	done chan error
	stop context.CancelFunc
}

// begin starts a bridge, without sign-ins unless cfg says where they are kept.
func begin(t *testing.T, cfg bridge.Config) *host {
	t.Helper()
	cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	if cfg.Directory == "" {
		cfg.Headers = map[string]mcp.Secret{"Authorization": "Bearer key"}
	}
	b, err := bridge.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	in, to := io.Pipe()
	from, out := io.Pipe()
	h := &host{t: t, in: to, out: make(chan string, 100), done: make(chan error, 1), stop: stop}
	go func() {
		h.done <- b.Run(ctx, in, out)
		out.Close()
	}()
	go func() {
		defer close(h.out)
		for lines := bufio.NewReaderSize(from, 1<<20); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			h.out <- strings.TrimSuffix(line, "\n")
		}
	}()
	t.Cleanup(func() {
		to.Close()
		stop()
		for range h.out { // until the bridge has ended
		}
	})
	return h
}

func (h *host) say(text string) {
	h.t.Helper()
	if _, err := io.WriteString(h.in, text+"\n"); err != nil {
		h.t.Fatal(err)
	}
}

// hear returns the next message.
func (h *host) hear() string {
	h.t.Helper()
	select {
	case text, ok := <-h.out:
		if !ok {
			h.t.Fatal("the bridge has ended")
		}
		return text
	case <-time.After(fake.Patience):
		h.t.Fatal("the bridge says nothing")
	}
	return ""
}

// want hears messages that have these parts, in any order.
func (h *host) want(parts ...string) {
	h.t.Helper()
	for len(parts) > 0 {
		text, rest := h.hear(), parts[:0:0]
		for _, part := range parts {
			if !strings.Contains(text, part) {
				rest = append(rest, part)
			}
		}
		if len(rest) == len(parts) {
			h.t.Fatalf("the bridge says %s, want %q", text, parts)
		}
		parts = rest
	}
}

// end closes the input, and waits for the bridge.
func (h *host) end() error {
	h.t.Helper()
	h.in.Close()
	select {
	case err := <-h.done:
		return err
	case <-time.After(fake.Patience):
		h.t.Fatal("the bridge goes on")
	}
	return nil
}

// open opens a session.
func (h *host) open() {
	h.t.Helper()
	h.say(hello)
	h.want(`"protocolVersion":"2025-11-25"`)
	h.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
	`"capabilities":{},"clientInfo":{"name":"host","version":"1"}}}`

// said is an event with a message of the server, without its jsonrpc.
func said(message string) string { return `data: {"jsonrpc":"2.0",` + message + "}\n\n" }

// tool is a call, in both eras.
func tool(id int, name, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name,
		arguments)
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`

func alone(text string) string { return strings.Replace(text, `"params":{`, `"params":{`+meta+`,`, 1) }

// TestSession: everything that a stateful host and its server say to each other.
func TestSession(t *testing.T) {
	f := fake.New(t, true, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		switch {
		case r.Method == http.MethodGet:
			fake.Events(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
			<-r.Context().Done()
		case m.Method == mcp.MethodToolsCall:
			fake.Events(w, said(`"id":"q","method":"elicitation/create","params":{"message":"?"}`))
			f.AwaitAnswer(t, "q")
			fake.Events(w, "data: no message\n\n"+
				said(`"id":`+string(m.ID)+",\ndata: \"result\":{\ndata:  \"big\":12345678901234567890}"))
		default:
			return false
		}
		return true
	})
	h := begin(t, bridge.Config{URL: f.URL})
	h.open()
	h.want("tools/list_changed")
	h.say(tool(7, "a", `{}`))
	h.want(`"elicitation/create"`)
	h.say(`{"jsonrpc":"2.0","id":"q","result":{"action":"accept"}}`)
	h.want(`"id":7,"result":{  "big":12345678901234567890}`)
	if err := h.end(); err != nil {
		t.Error(err)
	}
	for _, s := range f.Requests("") {
		session, version := s.Header.Get("Mcp-Session-Id"), s.Header.Get("Mcp-Protocol-Version")
		if first := s.Method == mcp.MethodInitialize; first != (session == "") || first != (version == "") {
			t.Errorf("%s %s has the session %q and the version %q", s.Verb, s.Method, session, version)
		}
		if s.Header.Get("Authorization") != "Bearer key" {
			t.Errorf("%s %s is without the key", s.Verb, s.Method)
		}
	}
	if len(f.Requests(http.MethodDelete)) != 1 {
		t.Error("the session was not ended")
	}
	if body := f.AwaitAnswer(t, "q"); body != `{"action":"accept"}` {
		t.Errorf("the answer came as %s", body)
	}
}

// TestStateless: the headers that 2026-07-28 demands, which the bridge learns from the lists that the host reads.
func TestStateless(t *testing.T) {
	f := fake.New(t, false, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		switch {
		case m.Method == mcp.MethodToolsList && mcp.Raw(m.Params).At("cursor") == nil:
			fake.Result(w, m, `{"tools":[],"nextCursor":"2"}`)
		case m.Method == mcp.MethodToolsList:
			fake.Result(w, m, `{"tools":[{"name":"é","inputSchema":{"type":"object","properties":{"to":{"type":"string",`+
				`"x-mcp-header":"To"}}}}]}`)
		case m.Method == mcp.MethodToolsCall && r.Header.Get("Mcp-Param-To") != "eu":
			fake.Failure(w, http.StatusBadRequest, m, `{"code":-32020,"message":"a header is missing"}`)
		default:
			return false
		}
		return true
	})
	h := begin(t, bridge.Config{URL: f.URL})
	h.say(alone(tool(1, "é", `{"to":"eu"}`)))
	h.want(`"id":1,"error":{"code":-32020`)
	for id, params := range []string{`{"x":1}`, `{"cursor":"2"}`} {
		h.say(alone(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":%s}`, 2+id, params)))
		h.want(fmt.Sprintf(`"id":%d,"result"`, 2+id))
	}
	h.say(alone(`{"jsonrpc":"2.0","id":4,"method":"server/discover","params":{"x":1}}`))
	h.want(`"id":4,"result"`)
	h.say(alone(tool(5, "é", `{"to":"eu"}`)))
	h.want(`"id":5,"result"`)
	for _, s := range f.Requests("") {
		if s.Header.Get("Mcp-Protocol-Version") != "2026-07-28" || s.Header.Get("Mcp-Method") != s.Method {
			t.Errorf("%s has %v", s.Method, s.Header)
		}
		if s.Method == mcp.MethodToolsCall && s.Header.Get("Mcp-Name") != "=?base64?w6k=?=" {
			t.Errorf("the name came as %q", s.Header.Get("Mcp-Name"))
		}
	}
}

// TestCancelled: a stateful server gets the notification, a stateless one the end of the stream. The host gets no
// answer.
func TestCancelled(t *testing.T) {
	for _, stateful := range []bool{true, false} {
		ended := make(chan struct{})
		f := fake.New(t, stateful, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			if m.Method != mcp.MethodToolsCall {
				return false
			}
			fake.Events(w, ": working\n\n")
			<-r.Context().Done()
			close(ended)
			return true
		})
		h := begin(t, bridge.Config{URL: f.URL})
		call := tool(5, "slow", `{}`)
		if stateful {
			h.open()
		} else {
			call = alone(call)
		}
		h.say(call)
		f.Await(t, mcp.MethodToolsCall, 1)
		h.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
		<-ended
		if got := len(f.Requests(mcp.NoteCancelled)); (got == 1) != stateful {
			t.Errorf("stateful %v: %d notifications", stateful, got)
		}
		if err := h.end(); err != nil {
			t.Error(err)
		}
		if text, ok := <-h.out; ok {
			t.Errorf("the host got %s", text)
		}
	}
}

// TestSessionGone: a call does not notice that the server has ended the session, unless that ends the next one, too.
func TestSessionGone(t *testing.T) {
	var sessions atomic.Int32
	var revision atomic.Value
	revision.Store("2025-11-25")
	f := fake.New(t, true, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		current := strconv.Itoa(int(sessions.Load()))
		switch {
		case m.Method == mcp.MethodInitialize:
			w.Header().Set("Mcp-Session-Id", strconv.Itoa(int(sessions.Add(1))))
			fake.Result(w, m, `{"protocolVersion":"`+revision.Load().(string)+`","capabilities":`+f.Caps+
				`,"serverInfo":{"name":"f","version":"1"}}`)
		case r.Header.Get("Mcp-Session-Id") != current,
			m.Method == mcp.MethodToolsCall && mcp.Raw(m.Params).At("name").Text() == "never":
			w.WriteHeader(http.StatusNotFound)
		default:
			return false
		}
		return true
	})
	h := begin(t, bridge.Config{URL: f.URL})
	h.open()
	f.Await(t, mcp.NoteInitialized, 1)
	sessions.Store(10) // from here the server knows nothing of session 1
	h.say(tool(13, "a", `{}`))
	h.want("notifications/tools/list_changed", "notifications/resources/list_changed", `"id":13,"result"`)
	if all := f.Requests(mcp.NoteInitialized); len(all) != 2 || all[1].Header.Get("Mcp-Session-Id") != "11" {
		t.Errorf("the server was told that the host is ready: %v", all)
	}
	h.say(tool(14, "never", `{}`))
	h.want("notifications/tools/list_changed", "notifications/resources/list_changed", `"id":14,"error":{"code":50205`)
	if n := sessions.Load(); n != 12 {
		t.Errorf("there were %d sessions, want one more", n)
	}
	revision.Store("2025-06-18")
	h.say(tool(15, "never", `{}`))
	h.want(`"id":15,"error":{"code":50205,"message":"` + strings.TrimPrefix(f.URL, "http://")[:9])
	if n := len(f.Requests(http.MethodDelete)); n != 1 {
		t.Errorf("%d sessions were ended, want the one that nobody can use", n)
	}
	revision.Store("2025-11-25")
	h.say(hello) // as hosts may
	h.want(`"id":0,"result"`)
	if n := len(f.Requests(http.MethodDelete)); n != 2 {
		t.Errorf("%d sessions were ended, want that of before, too", n)
	}
}

// TestResumed: streams that break off go on after their last event.
func TestResumed(t *testing.T) {
	var gets atomic.Int32
	f := fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		switch {
		case m.Method == mcp.MethodToolsCall && mcp.Raw(m.Params).At("name").Text() == "lost":
			fake.Events(w, ": nothing to go on from\n\n")
		case m.Method == mcp.MethodToolsCall && mcp.Raw(m.Params).At("name").Text() == "refused":
			fake.Events(w, "id: r1\nretry: 1\ndata:\n\n")
		case r.Method == http.MethodGet && r.Header.Get("Last-Event-Id") == "r1":
			w.WriteHeader(http.StatusForbidden)
		case m.Method == mcp.MethodToolsCall:
			fake.Events(w, "id: c1\nretry: 1\ndata:\n\n")
		case r.Method == http.MethodGet && r.Header.Get("Last-Event-Id") == "c1":
			fake.Events(w, "id: c2\ndata: {\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"late\":true}}\n\n")
		case r.Method == http.MethodGet && gets.Add(1) == 1:
			fake.Events(w, "id: g1\nretry: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/first\"}\n\n")
		case r.Method == http.MethodGet:
			fake.Events(w, said(`"method":"notifications/after/`+r.Header.Get("Last-Event-Id")+`"`))
			<-r.Context().Done()
		default:
			return false
		}
		return true
	})
	h := begin(t, bridge.Config{URL: f.URL})
	h.open()
	h.want("notifications/first")
	h.want("notifications/after/g1")
	h.say(tool(3, "a", `{}`))
	h.want(`"id":3,"result":{"late":true}`)
	for id, name := range []string{"lost", "refused"} { // each may have run
		h.say(tool(4+id, name, `{}`))
		h.want(`"executed":"unknown"`)
	}
}

// TestListenAgain: a subscription to a stateless server goes on when the server comes back, behind a balancer, too.
func TestListenAgain(t *testing.T) {
	var n atomic.Int32
	f := fake.New(t, false, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodListen {
			return false
		}
		first := n.Add(1) == 1
		if n.Load() == 2 {
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
		fake.Events(w, said(fmt.Sprintf(`"method":"notifications/subscriptions/acknowledged","params":{"n":%d}`, n.Load())))
		if !first {
			<-r.Context().Done()
		}
		return true
	})
	h := begin(t, bridge.Config{URL: f.URL})
	h.say(alone(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{}}}`))
	h.want(`"n":1`)
	h.want(`"n":3`)
	if err := h.end(); err != nil { // a subscription keeps no bridge
		t.Error(err)
	}
}

// TestErrors: what the host reads when there is no answer.
func TestErrors(t *testing.T) {
	answers := map[string]func(http.ResponseWriter, *http.Request){
		"401":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"404":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"413":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) },
		"503":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"html": func(w http.ResponseWriter, _ *http.Request) { fake.Raw(w, "text/html", "<p>Welcome") },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		},
		"own": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no such colour"}}`)
		},
		"large": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(bytes.Repeat([]byte(" "), 17<<20))
		},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answers[strings.TrimPrefix(r.URL.Path, "/")](w, r)
	}))
	defer s.Close()
	call := alone(tool(1, "a", `{}`))
	for path, want := range map[string]string{
		"401": "correct the value", "404": "check the URL", "413": "HTTP status 413", "503": "try again later",
		"html": "not MCP", "redirect": "a redirect to", "own": `"id":1,"error":{"code":-1,"message":"no such colour"}`,
		"large": "more than 16 MiB",
	} {
		t.Run(path, func(t *testing.T) {
			h := begin(t, bridge.Config{URL: s.URL + "/" + path})
			h.say(call)
			h.want(want)
			if path == "404" { // as hosts find out the era
				h.say(alone(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"x":1}}`))
				h.want(`"code":-32601`)
			}
		})
	}
	t.Run("input", func(t *testing.T) {
		h := begin(t, bridge.Config{URL: s.URL + "/own"})
		h.say(`{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}`)
		h.want(`"code":-32700`)
		h.say(" ")
		h.say("[" + call + "," + strings.Replace(call, `"id":1`, `"id":2`, 1) + ",3]")
		h.want(`"id":1,"error":{"code":-1`, `"id":2,"error":{"code":-1`, `"id":null,"error"`)
		h.say(`[]`)
		h.want(`"id":null,"error"`)
		go func() { _, _ = h.in.Write(bytes.Repeat([]byte("x"), 17<<20)) }() // as far as it is read
		if err := <-h.done; err == nil || !strings.Contains(err.Error(), "more than 16 MiB") {
			t.Errorf("error %v", err)
		}
	})
}

// TestServerAway: a request waits for a server that starts, and not for ever.
func TestServerAway(t *testing.T) {
	t.Parallel()
	mcptest.Long(t)
	at := mcptest.LoopbackAddress(t)
	h := begin(t, bridge.Config{URL: "http://" + at})
	h.say(alone(tool(1, "a", `{}`)))
	h.want("cannot be reached", `"executed":"no"`)
	h.say(alone(tool(2, "a", `{}`)))
	listener, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: listener, Config: &http.Server{Handler: fake.NewUnstarted(false, nil)}}
	s.Start()
	defer s.Close()
	h.want(`"id":2,"result"`)
}

// TestInputEnds: a request that has no answer soon after the end of the input gets an error.
func TestInputEnds(t *testing.T) {
	t.Parallel()
	mcptest.Long(t)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	for url, executed := range map[string]string{"http://" + mcptest.LoopbackAddress(t): "no", silent.URL: "unknown"} {
		h := begin(t, bridge.Config{URL: url})
		h.say(alone(tool(1, "a", `{}`)))
		h.in.Close()
		h.want(`"id":1,"error"`, "has not answered within 5s", `"executed":"`+executed+`"`)
		if err := <-h.done; err != nil {
			t.Error(err)
		}
	}
}

// TestRefusedURLs: where no bridge leads.
func TestRefusedURLs(t *testing.T) {
	for _, url := range []string{"", "mcp.example.com", "ftp://127.0.0.1/", "https://me:secret@example.com/",
		"https://x/#f", "http://example.com/mcp", "http://10.0.0.1/mcp", "http://localhost.example.com/"} {
		if _, err := bridge.New(bridge.Config{URL: url}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// TestTLS: a server proves who it is, with TLS 1.2 at least, before it gets anything.
func TestTLS(t *testing.T) {
	ours, other := mcptest.NewAuthority(t), mcptest.NewAuthority(t)
	for name, tt := range map[string]struct {
		by   *mcptest.Authority
		life time.Duration
		most uint16
		host string
		want string
	}{
		"good":              {ours, time.Hour, 0, "localhost", `"id":1,"result"`},
		"another authority": {other, time.Hour, 0, "localhost", "--ca-file"},
		"expired":           {ours, -time.Hour, 0, "localhost", "has no safe connection"},
		"another name":      {ours, time.Hour, 0, "127.0.0.2", "has no safe connection"},
		"TLS 1.1":           {ours, time.Hour, tls.VersionTLS11, "localhost", "has no safe connection"},
	} {
		t.Run(name, func(t *testing.T) {
			f := fake.NewUnstarted(false, nil)
			pair, err := tls.LoadX509KeyPair(tt.by.Issue(t, name, tt.life))
			if err != nil {
				t.Fatal(err)
			}
			s := httptest.NewUnstartedServer(f)
			if s.Listener.Close(); tt.host == "127.0.0.2" {
				s.Listener, err = net.Listen("tcp", "127.0.0.2:0")
			} else {
				s.Listener, err = net.Listen("tcp", "127.0.0.1:0")
			}
			if err != nil {
				t.Skip(err) // some systems have no 127.0.0.2, the address of the other server
			}
			s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS10, MaxVersion: tt.most}
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.StartTLS()
			defer s.Close()
			_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
			h := begin(t, bridge.Config{URL: "https://" + net.JoinHostPort(tt.host, port), CAFile: ours.File(t)})
			h.say(alone(tool(1, "a", `{}`)))
			h.want(tt.want)
			if got := len(f.Requests("")); (got == 1) != (name == "good") {
				t.Errorf("it got %d requests", got)
			}
			if err := h.end(); err != nil {
				t.Error(err)
			}
		})
	}
}
