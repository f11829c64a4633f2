package front

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// silent is a client that sends one request and reads only what the test reads.
type silent struct {
	*bufio.Reader
	conn net.Conn
}

// silent sends a request to a server with small system buffers, which could otherwise hold
// megabytes.
func (b *bench) silent(t *testing.T, body string, header http.Header) *silent {
	t.Helper()
	server := httptest.NewUnstartedServer(b)
	server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if err := conn.(*net.TCPConn).SetWriteBuffer(4 << 10); err != nil {
			t.Error(err)
		}
		return ctx
	}
	server.Start()
	t.Cleanup(server.Close)
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header.Clone()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	return &silent{bufio.NewReaderSize(conn, 256), conn}
}

// line reads up to a line with a prefix, and returns the rest of that line.
func (s *silent) line(t *testing.T, prefix string) string {
	t.Helper()
	_ = s.conn.SetReadDeadline(time.Now().Add(tooLong))
	for {
		line, err := s.ReadString('\n')
		if err != nil {
			t.Fatalf("no line %q: %v", prefix, err)
		}
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
}

// held is how many bytes the process holds, as exactly as the collector knows.
func held() int64 {
	runtime.GC()
	runtime.GC() // sync.Pools give up what they hold
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// flood is a handler whose calls send far more than anybody may hold, and then wait.
type flood struct {
	sent, finish chan struct{}
}

const (
	floodEvents = 300
	floodSize   = 100 << 10
)

func (f *flood) Handle(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	if c.Method == mcp.MethodDiscover {
		return result(`{"capabilities":{}}`), nil
	}
	data := strings.Repeat("x", floodSize)
	if c.Method == mcp.MethodListen {
		c.Notify(mcp.Event{Method: mcp.NoteAcknowledged,
			Params: mcp.Raw(`{"notifications":{"resourceSubscriptions":["doc://1"]}}`)})
	}
	for i := range floodEvents {
		if c.Method == mcp.MethodListen {
			c.Notify(mcp.Event{Method: mcp.NoteResourceUpdated, Params: mcp.Raw(fmt.Sprintf(`{"uri":"doc://%d%s"}`, i, data))})
			continue
		}
		c.Notify(mcp.Event{Method: mcp.NoteMessage, Params: mcp.Raw(fmt.Sprintf(`{"level":"info","data":"%d%s"}`, i, data))})
	}
	f.sent <- struct{}{}
	select {
	case <-f.finish:
		return &mcp.Reply{Result: mcp.Raw(`{"content":[{"type":"text","text":"the end"}]}`)}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// TestASlowReaderHoldsLittle: a client that does not read its stream holds no more than its
// bound.
func TestASlowReaderHoldsLittle(t *testing.T) {
	// 1 MiB that was not sent yet, as much that is being sent, 1 MiB for resumption, and
	// buffers that grow.
	const bound = 5 << 20
	for _, tt := range []struct {
		name, revision, body string
	}{
		{"stateful", v2511, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`},
		{"stateless", v2607, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x",` +
			strings.Replace(meta, "{", `{"io.modelcontextprotocol/logLevel":"debug",`, 1) + `}}`},
		{"a subscription", v2607,
			`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["doc://1"]},` + meta + `}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{})
			f := &flood{make(chan struct{}, 1), make(chan struct{})}
			b.front.endpoint.Handler = f
			b.front.endpoint.Writer.Timeout = tooLong // it is not cut off while we look
			header := modern("tools/call", "x")
			if strings.Contains(tt.body, "listen") {
				header = modern(mcp.MethodListen, "")
			}
			c := b.client(tt.revision)
			if c.Session != "" {
				header = http.Header{wire.HeaderSession: {c.Session}}
			}
			before := held()
			client := b.silent(t, tt.body, header)
			receive(t, "all that was sent", f.sent)
			if grown := held() - before; grown > bound {
				t.Errorf("a client that does not read holds %d bytes of %d that came, want at most %d", grown,
					floodEvents*floodSize, bound)
			}
			if m := b.front.endpoint.Metrics; strings.Contains(tt.body, "listen") {
				wantCount(t, "subscriptions that ended", m.SlowSubscriptions, 1)
			} else if lost := countOf(t, m.SlowEvents); lost == 0 || lost >= floodEvents {
				t.Errorf("%v of %d events are counted as lost", lost, floodEvents)
			}
			client.conn.Close()
			close(f.finish)
		})
	}
}

// TestASlowReaderIsCutOff: it is, and gets its answer if its revision can resume streams.
func TestASlowReaderIsCutOff(t *testing.T) {
	b := newBench(t, Config{})
	f := &flood{make(chan struct{}, 1), make(chan struct{})}
	b.front.endpoint.Handler = f
	b.front.endpoint.Writer.Timeout = 2 * time.Second // the first event has no more
	c := b.client(v2511)
	client := b.silent(t, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`,
		http.Header{wire.HeaderSession: {c.Session}})
	first := client.line(t, "id: ")
	receive(t, "all that was sent", f.sent)
	close(f.finish)
	x, err := c.Get(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if m, err := x.Response(); err != nil || !strings.Contains(m.Text, "the end") || string(m.ID) != "7" {
		t.Errorf("the answer, gone on with: %.200s %v", m.Text, err)
	}
	client.cutOff(t)
	wantCount(t, "connections that were cut", b.front.endpoint.Metrics.Written.Cut, 1)
}

// cutOff reads what is left, and expects the end of the connection before the answer.
func (s *silent) cutOff(t *testing.T) {
	t.Helper()
	_ = s.conn.SetReadDeadline(time.Now().Add(tooLong))
	rest, err := io.ReadAll(s)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Error("the connection stays open")
	}
	if strings.Contains(string(rest), "the end") {
		t.Error("the client was not cut off")
	}
}

// TestAnAnswerThatNobodyReads: it is given up, with everything that it holds.
func TestAnAnswerThatNobodyReads(t *testing.T) {
	const size = 16 << 20
	b := newBench(t, Config{})
	b.front.endpoint.Writer.Timeout = 200 * time.Millisecond
	began, over := make(chan struct{}), make(chan struct{})
	b.front.endpoint.Handler = mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		if !c.Room.Take(size) {
			t.Error("there is no room")
		}
		close(began)
		return &mcp.Reply{Result: mcp.Raw(`{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}`),
			Release: func() { close(over) }}, nil
	})
	client := b.silent(t, call("1", "x"), modern("tools/call", "x"))
	receive(t, "the call", began)
	receive(t, "the end of its answer", over)
	if rest, err := io.ReadAll(client); err == nil && len(rest) > size {
		t.Error("the client was not cut off")
	}
	b.front.endpoint.Running.Requests.Wait() // the call has ended
	wantCount(t, "connections that were cut", b.front.endpoint.Metrics.Written.Cut, 1)
	if n := b.front.endpoint.Memory.Held(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}
