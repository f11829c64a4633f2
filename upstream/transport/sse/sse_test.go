package sse_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// The endpoint must have the origin of the stream: whoever could move it would get the
// gateway's credentials.
func TestSSEEndpoint(t *testing.T) {
	var elsewhere atomic.Int32
	foreign := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer foreign.Close()
	host := strings.TrimPrefix(foreign.URL, "http://")
	for _, tt := range []struct {
		name, endpoint string // $HOST is the server's own
		want           string // where messages go; "" for refused
	}{
		{"a path", "/messages?session=$ID", "/messages?session=s1"},
		{"relative to the stream", "messages?session=$ID", "/messages?session=s1"},
		{"absolute", "http://$HOST/messages?session=$ID", "/messages?session=s1"},
		{"absolute, in another case", "HTTP://$HOST/messages?session=$ID", "/messages?session=s1"},
		{"without a scheme", "//$HOST/messages?session=$ID", "/messages?session=s1"},
		{"with a fragment", "/messages?session=$ID#part", "/messages?session=s1"},
		{"in white space", "  /messages?session=$ID ", "/messages?session=s1"},
		{"at another port", "http://" + host + "/messages?session=$ID", ""},
		{"at another host, without a scheme", "//" + host + "/messages?session=$ID", ""},
		{"of another name for the same host", "http://localhost:$PORT/messages?session=$ID", ""},
		{"of another scheme", "https://$HOST/messages?session=$ID", ""},
		{"javascript", "javascript:alert(1)", ""},
		{"file", "file:///etc/passwd", ""},
		{"opaque", "http:messages?session=$ID", ""},
		{"with backslashes", `http:\\` + host + `\messages`, ""},
		{"with user information", "http://user:secret@$HOST/messages?session=$ID", ""},
		{"user information in place of the host", "http://$HOST@" + host + "/messages?session=$ID", ""},
		{"not a URL", "http://[::1/messages", ""},
		{"nothing", "", "/sse"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fake.NewSSE(t, fake.New)
			own := strings.TrimPrefix(f.URL, "http://")
			f.Endpoint = strings.NewReplacer("$HOST", own, "$PORT", own[strings.LastIndexByte(own, ':')+1:]).Replace(tt.endpoint)
			cfg := fake.OverSSE()
			cfg.Headers = map[string]mcp.Secret{"Authorization": "Bearer for the server only"}
			u := f.Upstream(t, cfg)
			reply, err := fake.Do(t, u, fake.Tool("a"))
			posts := f.Requests(http.MethodPost)
			switch {
			case tt.want == "":
				e := fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedNo)
				if !strings.Contains(e.Message, "another address") || strings.Contains(e.Message, host) || len(posts) > 0 {
					t.Errorf("%d messages were sent, and the error is %v", len(posts), e)
				}
			case len(posts) == 0 || posts[0].Target != tt.want:
				t.Errorf("sent %v, want it at %s (%v, %v)", posts, tt.want, reply, err)
			}
		})
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("another origin got %d requests", n)
	}
}

// A stream that does not begin correctly is given up in time.
func TestSSEWithoutEndpoint(t *testing.T) {
	const connect = 7 * time.Second
	for _, tt := range []struct {
		name string
		open func(s *fake.Stream) bool
		code int
		took time.Duration
	}{
		{"silence", func(s *fake.Stream) bool { s.Say(": hello\n\n"); <-s.Ctx.Done(); return true },
			mcp.CodeUpstreamUnreachable, connect},
		{"comments without an end", func(s *fake.Stream) bool {
			for tick := time.NewTicker(100 * time.Millisecond); ; {
				select {
				case <-tick.C:
					s.Say(": still here\n\n")
				case <-s.Ctx.Done():
					tick.Stop()
					return true
				}
			}
		}, mcp.CodeUpstreamUnreachable, connect},
		{"other events without an end", func(s *fake.Stream) bool {
			for s.Ctx.Err() == nil {
				s.Say("event: ping\ndata: {}\n\n")
			}
			return true
		}, mcp.CodeUpstreamBadAnswer, 0},
		{"the end", func(s *fake.Stream) bool { return true }, mcp.CodeUpstreamBadAnswer, 0},
		{"a message", func(s *fake.Stream) bool { s.Say("data: {}\n\n"); <-s.Ctx.Done(); return true },
			mcp.CodeUpstreamBadAnswer, 0},
		{"an endpoint that is too long", func(s *fake.Stream) bool {
			s.Say("event: endpoint\ndata: /" + strings.Repeat("x", 5000) + "\n\n")
			<-s.Ctx.Done()
			return true
		}, mcp.CodeUpstreamBadAnswer, 0},
		{"half an endpoint", func(s *fake.Stream) bool { s.Say("event: endpoint\ndata: /messages"); return true },
			mcp.CodeUpstreamBadAnswer, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := fake.NewSSE(t, fake.NewBubble)
				f.Opened = tt.open
				cfg := fake.OverSSE()
				cfg.Timeout.Connect = connect
				u := f.Upstream(t, cfg)
				began := time.Now()
				_, err := fake.Do(t, u, fake.Tool("a"))
				fake.WantError(t, err, tt.code, mcp.ExecutedNo)
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %s, want %s", took, tt.took)
				}
				if n := len(f.Requests(http.MethodPost)); n != 0 {
					t.Errorf("%d messages were sent to nowhere", n)
				}
			})
		})
	}
}

// Other events before the endpoint, and a second endpoint, change nothing.
func TestSSEEndpointOnce(t *testing.T) {
	f := fake.NewSSE(t, fake.New)
	f.Opened = func(s *fake.Stream) bool {
		s.Say(": hello\n\nid: 1\ndata:\n\nretry: 10\n\nevent: ping\ndata: {}\n\n")
		s.Welcome()
		s.Say("event: endpoint\ndata: /elsewhere\n\n")
		<-s.Ctx.Done()
		return true
	}
	u := f.Upstream(t, fake.OverSSE())
	for range 2 {
		fake.WantOK(t, u, fake.Tool("a"))
	}
	for _, s := range f.Requests(http.MethodPost) {
		if s.Target != "/messages?session=s1" {
			t.Errorf("%s went to %s", s.Method, s.Target)
		}
	}
}

// Servers answer the POST of a request in many ways; the answer that counts comes on the
// stream.
func TestSSEAnswersToPosts(t *testing.T) {
	for _, tt := range []struct {
		name string
		post func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message)
	}{
		{"accepted, before", func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message) {
			w.WriteHeader(http.StatusAccepted)
			_ = http.NewResponseController(w).Flush()
			s.Answer(m, fake.OK)
		}},
		{"200 with a text", func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message) {
			_, _ = io.WriteString(w, "Accepted")
			s.Answer(m, fake.OK)
		}},
		{"204", func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message) {
			w.WriteHeader(http.StatusNoContent)
			s.Answer(m, fake.OK)
		}},
		{"a result, too", func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message) {
			fake.Result(w, m, `{"content":[{"type":"text","text":"not this one"}]}`)
			_ = http.NewResponseController(w).Flush()
			s.Answer(m, fake.OK)
		}},
		{"only when the answer was taken", func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message) {
			s.Answer(m, fake.OK)
			<-r.Context().Done()
		}},
		{"without an end", func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message) {
			w.WriteHeader(http.StatusAccepted)
			_ = http.NewResponseController(w).Flush()
			s.Answer(m, fake.OK)
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 1<<10))
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fake.NewSSE(t, fake.New)
			f.Posted = func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
				if m.Method == mcp.MethodToolsCall {
					tt.post(s, w, r, m)
				}
				return m.Method == mcp.MethodToolsCall
			}
			u := f.Upstream(t, fake.OverSSE())
			for range 3 {
				fake.WantOK(t, u, fake.Tool("a"))
			}
		})
	}
}

// Answers often come before the responses to their POSTs, whose connections are still
// reused.
func TestSSEConnectionsAreUsedAgain(t *testing.T) {
	f := fake.NewSSE(t, fake.New)
	var connections sync.Map // by the address of their client
	before := make(chan chan struct{}, 1)
	before <- make(chan struct{})
	f.Posted = func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		connections.Store(r.RemoteAddr, true)
		if m.Method != mcp.MethodToolsCall {
			return false
		}
		close(<-before)
		next := make(chan struct{})
		before <- next
		s.Answer(m, fake.OK)
		select { // until there is another call
		case <-next:
			w.WriteHeader(http.StatusAccepted)
		case <-r.Context().Done():
		}
		return true
	}
	u := f.Upstream(t, fake.OverSSE())
	for range 200 {
		fake.WantOK(t, u, fake.Tool("a"))
	}
	n := 0
	connections.Range(func(any, any) bool { n++; return true })
	if n > 50 {
		t.Errorf("%d connections for 200 calls in a row", n)
	}
}

// A server that is configured for HTTP+SSE is not probed.
func TestSSEIsNotProbed(t *testing.T) {
	f := fake.NewSSE(t, fake.New)
	f.Posted = func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		w.WriteHeader(http.StatusAccepted)
		s.Say(`data: {"jsonrpc":"2.0","id":` + string(m.ID) +
			`,"error":{"code":-32601,"message":"Method not found"}}` + "\n\n")
		return true
	}
	_, err := fake.Do(t, f.Upstream(t, fake.OverSSE()), fake.Tool("a"))
	fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedNo)
	if posts := f.Requests(http.MethodPost); len(posts) != 1 || posts[0].Method != mcp.MethodInitialize {
		t.Errorf("sent %v", posts)
	}
}
