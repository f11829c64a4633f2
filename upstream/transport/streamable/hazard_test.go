package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestHazardousAnswers covers what a faulty server may answer to a call, in both eras.
func TestHazardousAnswers(t *testing.T) {
	answer := func(contentType, body string) func(http.ResponseWriter, *http.Request, fake.Message) {
		return func(w http.ResponseWriter, _ *http.Request, m fake.Message) {
			fake.Raw(w, contentType, strings.ReplaceAll(body, "$ID", string(m.ID)))
		}
	}
	status := func(code int, header ...string) func(http.ResponseWriter, *http.Request, fake.Message) {
		return func(w http.ResponseWriter, _ *http.Request, m fake.Message) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}
	}
	const jsonType, eventType = "application/json", "text/event-stream"
	good := `{"jsonrpc":"2.0","id":$ID,"result":` + fake.OK + `}`
	for _, tt := range []struct {
		name     string
		answer   func(http.ResponseWriter, *http.Request, fake.Message)
		code     int // 0: okResult
		executed mcp.Executed
	}{
		{"JSON too large", answer(jsonType, `{"jsonrpc":"2.0","id":$ID,"result":"`+strings.Repeat("x", 70<<10)+`"}`),
			mcp.CodeUpstreamAnswerTooLarge, mcp.ExecutedUnknown},
		{"event too large", answer(eventType, `data: "`+strings.Repeat("x", 70<<10)+"\"\n\n"), mcp.CodeUpstreamAnswerTooLarge,
			mcp.ExecutedUnknown},
		{"compressed", func(w http.ResponseWriter, _ *http.Request, _ fake.Message) {
			w.Header().Set("Content-Encoding", "gzip")
			fake.Raw(w, jsonType, "\x1f\x8b\x08junk")
		}, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown},
		{"half an event", answer(eventType, "data: "+good), mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown},
		{"CR line ends", answer(eventType, "data: "+good+"\r\r"), 0, ""},
		{"byte order mark", answer(eventType, "\ufeffdata: "+good+"\n\n"), 0, ""},
		{"field without colon", answer(eventType, "nonsense\ndata\ndata: "+good+"\n\n"), 0, ""},
		{"multi-line data", answer(eventType, "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":$ID,\"result\":"+fake.OK+"}\n\n"),
			0, ""},
		{"retry and comments", answer(eventType, strings.Repeat(": ping\n\n", 1000)+"retry: 1000000000\n\ndata: "+good+
			"\n\n"), 0, ""},
		{"other event names", answer(eventType, "event: x\ndata: {}\n\nevent: message\ndata: "+good+"\n\n"), 0, ""},
		{"wrong id", answer(jsonType, `{"jsonrpc":"2.0","id":99999,"result":{}}`), mcp.CodeUpstreamBadAnswer,
			mcp.ExecutedUnknown},
		{"another id", answer(jsonType, `{"jsonrpc":"2.0","id":"x$ID","result":{}}`), mcp.CodeUpstreamBadAnswer,
			mcp.ExecutedUnknown},
		{"wrong id in a stream", answer(eventType, "data: {\"jsonrpc\":\"2.0\",\"id\":99999,\"result\":{}}\n\ndata: "+good+
			"\n\n"), 0, ""},
		{"error with id null", answer(jsonType, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}`),
			mcp.CodeInvalidRequest, ""},
		{"response twice", answer(eventType, "data: "+good+"\n\ndata: "+good+"\n\n"), 0, ""},
		{"result and error", answer(jsonType, `{"jsonrpc":"2.0","id":$ID,"result":{},"error":{"code":5,"message":"e"}}`),
			5, ""},
		{"neither", answer(jsonType, `{"jsonrpc":"2.0","id":$ID}`), mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown},
		{"error code float", answer(jsonType, `{"jsonrpc":"2.0","id":$ID,"error":{"code":1.5,"message":"e"}}`),
			mcp.CodeUpstreamBadAnswer, ""},
		{"error code 1e20",
			answer(jsonType,
				`{"jsonrpc":"2.0","id":$ID,"error":{"code":100000000000000000000,"message":"e"}}`), mcp.CodeUpstreamBadAnswer, ""},
		{"not JSON", answer(jsonType, `{"jsonrpc":`), mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown},
		{"not UTF-8", answer(jsonType, "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":\"\xff\"}"), mcp.CodeUpstreamBadAnswer,
			mcp.ExecutedUnknown},
		{"login page", answer("text/html; charset=utf-8", "<html>"), mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown},
		{"empty 200", answer(jsonType, ""), mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown},
		{"204", status(204), mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown},
		{"401 with challenge", status(401, "WWW-Authenticate", `Bearer realm="x"`), mcp.CodeUpstreamAuthFailed,
			mcp.ExecutedNo},
		{"403", status(403), mcp.CodeUpstreamAuthFailed, mcp.ExecutedNo},
		{"429", status(429), mcp.CodeRateLimited, mcp.ExecutedNo},
		{"500", status(500), mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown},
		{"503", status(503), mcp.CodeUpstreamUnreachable, mcp.ExecutedUnknown},
		{"307", status(307, "Location", "http://127.0.0.1:1/"), mcp.CodeUpstreamBadAnswer, mcp.ExecutedNo},
		{"reset after the request", func(http.ResponseWriter, *http.Request, fake.Message) { panic(http.ErrAbortHandler) },
			mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown},
		{"charset in the content type", answer("application/json; charset=utf-8", good), 0, ""},
	} {
		for _, kind := range []struct {
			stateful bool
			client   string
		}{{true, "own"}, {false, "own"}, {true, "standard"}, {false, "standard"}} {
			t.Run(fmt.Sprintf("%s stateful=%v client=%s", tt.name, kind.stateful, kind.client), func(t *testing.T) {
				f := fake.New(t, kind.stateful, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
					if m.Method != mcp.MethodToolsCall {
						return false
					}
					if !kind.stateful && r.Header.Get("Cookie") != "" {
						t.Error("a cookie was sent back")
					}
					w.Header().Set("Set-Cookie", "a=b")
					if name, _ := mcp.Raw(m.Params).Member("name"); name.Text() != "bad" {
						return false
					}
					tt.answer(w, r, m)
					return true
				})
				u := fake.Start(t, upstream.Config{URL: f.URL, HTTPClient: kind.client,
					Limits: upstream.Limits{ResultBytes: 64 << 10}})
				reply, err := fake.Do(t, u, fake.Tool("bad"))
				if tt.code == 0 {
					if err != nil || string(reply.Result) != fake.OK {
						t.Errorf("reply %v, error %v", reply, err)
					}
				} else {
					fake.WantError(t, err, tt.code, tt.executed)
				}
				if n := len(f.Requests(mcp.MethodToolsCall)); n != 1 {
					t.Errorf("%d calls: something was repeated", n)
				}
				other := fake.Tool("good")
				other.Caller = fake.User("other") // the server still accepts this user after refusing the other
				fake.WantOK(t, u, other)
			})
		}
	}
}

func TestEndlessStreamAfterTheResponse(t *testing.T) {
	ended := make(chan struct{}, 10)
	f := fake.New(t, false, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodToolsCall {
			return false
		}
		fake.Events(w, fake.Event(m, "", fake.OK))
		<-r.Context().Done()
		ended <- struct{}{}
		return true
	})
	u := fake.Start(t, upstream.Config{URL: f.URL})
	for range 10 {
		fake.WantOK(t, u, fake.Tool("a")) // in time, while the stream is open
	}
	for range 10 {
		select {
		case <-ended:
		case <-time.After(fake.Patience):
			t.Fatal("the stream was not closed")
		}
	}
}

func TestEventStreamConnectionIsUsedAgain(t *testing.T) {
	synctest.Test(t, testEventStreamConnectionIsUsedAgain)
}

func testEventStreamConnectionIsUsedAgain(t *testing.T) {
	f := fake.NewBubble(t, false, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodToolsCall {
			return false
		}
		fake.Events(w, fake.Event(m, "", fake.OK))
		return true
	})
	u := f.Upstream(t, upstream.Config{})
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := u.Handle(ctx, fake.Tool("a")); err != nil {
			t.Fatal(err)
		}
		cancel() // as a front end's context ends with its request
		synctest.Wait()
	}
	if n := f.Dialled.Load(); n != 1 {
		t.Errorf("%d connections for 20 calls", n)
	}
}

func TestHangsAfterAccept(t *testing.T) { synctest.Test(t, testHangsAfterAccept) }

func testHangsAfterAccept(t *testing.T) {
	f := fake.NewBubble(t, false, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodToolsCall {
			return false
		}
		<-r.Context().Done()
		return true
	})
	u := f.Upstream(t, upstream.Config{Timeout: upstream.Timeout{Call: 7 * time.Second}})
	began := time.Now()
	_, err := fake.Do(t, u, fake.Tool("a"))
	fake.WantError(t, err, mcp.CodeUpstreamTimeout, mcp.ExecutedUnknown)
	if took := time.Since(began); took != 7*time.Second {
		t.Errorf("it took %s", took)
	}
	if n := len(f.Requests(mcp.MethodToolsCall)); n != 1 {
		t.Errorf("%d calls", n)
	}
}
