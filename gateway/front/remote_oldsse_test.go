package front

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestOldSSEElsewhere: a stream takes messages by way of another replica, of whose it is
// alone, and each answer to a POST is the one that the stream's own replica gives.
func TestOldSSEElsewhere(t *testing.T) {
	offers := func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		if c.Method == mcp.MethodDiscover {
			return &mcp.Reply{Result: mcp.Raw(`{"capabilities":{}}`)}, nil
		}
		return unexpected(ctx, c)
	}
	fronts, _ := replicaFronts(t, offers, unexpected)
	urls := map[string]string{}
	for name, f := range fronts {
		as := func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				caller := mcp.NewCaller(mcp.Caller{Issuer: "i", Subject: r.Header.Get("X-User"), ClientID: r.Header.Get("X-Client"), Token: "t0ken"})
				next.ServeHTTP(w, r.WithContext(mcp.WithCaller(r.Context(), caller)))
			})
		}
		mux := http.NewServeMux()
		stream, messages := f.SSEPaths()
		mux.Handle(stream, f.SSEBehind(as))
		mux.Handle(messages, f.MessagesBehind(as))
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		urls[name] = server.URL
	}
	ann := http.Header{"X-User": {"ann"}, "X-Client": {"c"}}
	c, err := mcptest.OpenSSE(t.Context(), http.DefaultClient, urls["a"]+ssePath, ann)
	if err != nil || c.Status != http.StatusOK {
		t.Fatal(c, err)
	}
	defer c.Close()
	c.Messages = urls["b"] + c.Endpoint
	answer, err := c.Begin(t.Context(), v2024, `{}`)
	if err != nil || !strings.Contains(answer.Text, `"protocolVersion":"2024-11-05"`) {
		t.Fatalf("initialize: %s %v", answer.Text, err)
	}
	if answer, err = c.Call(t.Context(), "ping", "{}"); err != nil || answer.Text != `{"jsonrpc":"2.0","id":2,"result":{}}` {
		t.Errorf("ping: %s %v", answer.Text, err)
	}
	ping := `{"jsonrpc":"2.0","id":9,"method":"ping"}`
	for name, tt := range map[string]struct {
		body, more string
		header     http.Header
		status     int
	}{
		"its own":          {ping, "", ann, http.StatusAccepted},
		"H/51 a user":      {ping, "", http.Header{"X-User": {"bob"}, "X-Client": {"c"}}, http.StatusNotFound},
		"H/51 a client":    {ping, "", http.Header{"X-User": {"ann"}, "X-Client": {"d"}}, http.StatusNotFound},
		"no such stream":   {ping, "0", ann, http.StatusNotFound},
		"malformed":        {ping[1:], "", ann, http.StatusBadRequest},
		"not of this type": {ping, "", http.Header{"X-User": {"ann"}, "X-Client": {"c"}, "Content-Type": {"text/plain"}}, http.StatusUnsupportedMediaType},
	} {
		var first string
		for _, at := range []string{"a", "b"} {
			other := &mcptest.SSEClient{Messages: urls[at] + c.Endpoint + tt.more, HTTP: http.DefaultClient}
			x, err := other.Post(t.Context(), tt.body, tt.header)
			if err != nil {
				t.Fatal(err)
			}
			text := x.Text()
			x.Close()
			if x.Status != tt.status || at == "b" && text != first {
				t.Errorf("%s at %s: %d %s, want %d %s", name, at, x.Status, text, tt.status, first)
			}
			first = text
		}
	}
	fronts["b"].mu.Lock()
	defer fronts["b"].mu.Unlock()
	if n := len(fronts["b"].pending); n != 0 {
		t.Errorf("%d messages are still waited for", n)
	}
}

// postedTo posts a ping to a stream.
func postedTo(f *Front, stream string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/sse/messages?"+queryConn+"="+stream, strings.NewReader(`{"jsonrpc":"2.0","id":9,"method":"ping"}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.postOld(w, r.WithContext(mcp.WithCaller(r.Context(), mcp.NewCaller(mcp.Caller{Subject: "ann"}))))
	return w
}

// A replica that is slow has not lost its streams: a client that is told so would begin
// anew.
func TestOldSSESlowReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fronts, posts := replicaFronts(t, unexpected, unexpected)
		start := time.Now()
		w := postedTo(fronts["a"], "slow-STREAM")
		if w.Code != http.StatusGatewayTimeout || !strings.Contains(w.Body.String(), `"executed":"unknown"`) || time.Since(start) != takenTime {
			t.Errorf("one that does not answer, after %s: %d %s", time.Since(start), w.Code, w.Body)
		}
		posts["a"].lose("gone")
		if w := postedTo(fronts["a"], "gone-STREAM"); w.Code != http.StatusNotFound {
			t.Errorf("one that has gone: %d %s", w.Code, w.Body)
		}
	})
}

// stuck is a client that reads nothing until goOn is closed.
type stuck struct {
	http.ResponseWriter
	goOn chan struct{}
	read bytes.Buffer
}

func (s *stuck) Write(data []byte) (int, error) {
	<-s.goOn
	return s.read.Write(data)
}

func (s *stuck) Flush() {}

// A client that does not read its stream holds up nobody who brings messages for it:
// the letters of other replicas have so many places, and no more.
func TestOldSSEUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fronts, _ := replicaFronts(t, unexpected, unexpected)
		f := fronts["a"]
		client := &stuck{ResponseWriter: httptest.NewRecorder(), goOn: make(chan struct{})}
		o := &oldStream{f: f, begun: make(chan struct{}), stream: f.newStream(client, http.NewResponseController(client), nil)}
		for range 2 { // one is being written, the other waits
			if !o.stream.send("", make([]byte, maxUnsent)) {
				t.Fatal("there is no room")
			}
			synctest.Wait()
		}
		ping := func() int {
			w := httptest.NewRecorder()
			ref := o.message(&posted{w: w, message: wire.Message{Kind: wire.Request, ID: mcp.Raw("9"), Method: mcp.MethodPing}})
			if ref != nil {
				return ref.Status
			}
			return w.Code
		}
		got := make(chan int, maxAtOnce+1)
		go func() {
			for range cap(got) {
				got <- ping()
			}
		}()
		synctest.Wait()
		if len(got) < cap(got) {
			t.Errorf("the POST of ping %d waits for a client that reads nothing", len(got))
		}
		for i := range len(got) {
			want := http.StatusAccepted
			if i == maxAtOnce {
				want = http.StatusTooManyRequests
			}
			if status := <-got; status != want {
				t.Errorf("ping %d: %d, want %d", i, status, want)
			}
		}
		close(client.goOn)
		synctest.Wait()
		o.stream.end("", nil)
		if n := strings.Count(client.read.String(), `"result":{}`); n != maxAtOnce {
			t.Errorf("%d of %d pings were answered", n, maxAtOnce)
		}
	})
}
