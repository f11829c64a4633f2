package upstream_test

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
)

// TestHazardousAnswers covers what a faulty server may answer to a call, in both eras.
func TestHazardousAnswers(t *testing.T) {
	answer := func(contentType, body string) func(http.ResponseWriter, *http.Request, rpc) {
		return func(w http.ResponseWriter, _ *http.Request, m rpc) {
			raw(w, contentType, strings.ReplaceAll(body, "$ID", string(m.ID)))
		}
	}
	status := func(code int, header ...string) func(http.ResponseWriter, *http.Request, rpc) {
		return func(w http.ResponseWriter, _ *http.Request, m rpc) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}
	}
	const jsonType, eventType = "application/json", "text/event-stream"
	good := `{"jsonrpc":"2.0","id":$ID,"result":` + okResult + `}`
	for _, tt := range []struct {
		name     string
		answer   func(http.ResponseWriter, *http.Request, rpc)
		code     int // 0: okResult
		executed mcp.Executed
	}{
		{"JSON too large", answer(jsonType, `{"jsonrpc":"2.0","id":$ID,"result":"`+strings.Repeat("x", 70<<10)+`"}`),
			mcp.CodeUpstreamAnswerTooLarge, mcp.ExecutedUnknown},
		{"event too large", answer(eventType, `data: "`+strings.Repeat("x", 70<<10)+"\"\n\n"), mcp.CodeUpstreamAnswerTooLarge,
			mcp.ExecutedUnknown},
		{"compressed", func(w http.ResponseWriter, _ *http.Request, _ rpc) {
			w.Header().Set("Content-Encoding", "gzip")
			raw(w, jsonType, "\x1f\x8b\x08junk")
		}, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown},
		{"half an event", answer(eventType, "data: "+good), mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown},
		{"CR line ends", answer(eventType, "data: "+good+"\r\r"), 0, ""},
		{"byte order mark", answer(eventType, "\ufeffdata: "+good+"\n\n"), 0, ""},
		{"field without colon", answer(eventType, "nonsense\ndata\ndata: "+good+"\n\n"), 0, ""},
		{"multi-line data", answer(eventType, "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":$ID,\"result\":"+okResult+"}\n\n"),
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
		{"reset after the request", func(http.ResponseWriter, *http.Request, rpc) { panic(http.ErrAbortHandler) },
			mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown},
		{"charset in the content type", answer("application/json; charset=utf-8", good), 0, ""},
	} {
		for _, kind := range []struct {
			stateful bool
			client   string
		}{{true, "own"}, {false, "own"}, {true, "standard"}, {false, "standard"}} {
			t.Run(fmt.Sprintf("%s stateful=%v client=%s", tt.name, kind.stateful, kind.client), func(t *testing.T) {
				f := newFake(t, kind.stateful, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
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
				u := start(t, upstream.Config{URL: f.URL, HTTPClient: kind.client, Limits: upstream.Limits{ResultBytes: 64 << 10}})
				reply, err := do(t, u, tool("bad"))
				if tt.code == 0 {
					if err != nil || string(reply.Result) != okResult {
						t.Errorf("reply %v, error %v", reply, err)
					}
				} else {
					wantError(t, err, tt.code, tt.executed)
				}
				if n := len(f.requests(mcp.MethodToolsCall)); n != 1 {
					t.Errorf("%d calls: something was repeated", n)
				}
				other := tool("good")
				other.Caller = user("other") // the server still accepts this user after refusing the other
				wantOK(t, u, other)
			})
		}
	}
}

func TestEndlessStreamAfterTheResponse(t *testing.T) {
	ended := make(chan struct{}, 10)
	f := newFake(t, false, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method != mcp.MethodToolsCall {
			return false
		}
		events(w, event(m, "", okResult))
		<-r.Context().Done()
		ended <- struct{}{}
		return true
	})
	u := start(t, upstream.Config{URL: f.URL})
	for range 10 {
		wantOK(t, u, tool("a")) // in time, while the stream is open
	}
	for range 10 {
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatal("the stream was not closed")
		}
	}
}

func TestEventStreamConnectionIsUsedAgain(t *testing.T) {
	synctest.Test(t, testEventStreamConnectionIsUsedAgain)
}

func testEventStreamConnectionIsUsedAgain(t *testing.T) {
	f := newBubbleFake(t, false, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method != mcp.MethodToolsCall {
			return false
		}
		events(w, event(m, "", okResult))
		return true
	})
	u := f.start(t, upstream.Config{})
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := u.Handle(ctx, tool("a")); err != nil {
			t.Fatal(err)
		}
		cancel() // as a front end's context ends with its request
		synctest.Wait()
	}
	if n := f.dialled.Load(); n != 1 {
		t.Errorf("%d connections for 20 calls", n)
	}
}

func TestHangsAfterAccept(t *testing.T) { synctest.Test(t, testHangsAfterAccept) }

func testHangsAfterAccept(t *testing.T) {
	f := newBubbleFake(t, false, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method != mcp.MethodToolsCall {
			return false
		}
		<-r.Context().Done()
		return true
	})
	u := f.start(t, upstream.Config{Timeout: upstream.Timeout{Call: 7 * time.Second}})
	began := time.Now()
	_, err := do(t, u, tool("a"))
	wantError(t, err, mcp.CodeUpstreamTimeout, mcp.ExecutedUnknown)
	if took := time.Since(began); took != 7*time.Second {
		t.Errorf("it took %s", took)
	}
	if n := len(f.requests(mcp.MethodToolsCall)); n != 1 {
		t.Errorf("%d calls", n)
	}
}

func TestCursorsOfServers(t *testing.T) {
	f := newFake(t, false, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method != mcp.MethodPromptsList {
			return false
		}
		if cursor, ok := mcp.Raw(m.Params).Member("cursor"); ok {
			result(w, m, `{"prompts":[{"name":"`+cursor.Text()+`second"}]}`)
			return true
		}
		result(w, m, `{"prompts":[{"name":"first"}],"nextCursor":""}`)
		return true
	})
	u := start(t, upstream.Config{URL: f.URL})
	page := mustDo(t, u, list(mcp.MethodPromptsList)).List
	if page.Next == nil || *page.Next != "" || page.Items[0].Name != "first" {
		t.Fatalf("page %+v", page)
	}
	more := list(mcp.MethodPromptsList)
	more.Params = mcp.Raw(`{"cursor":""}`)
	if page = mustDo(t, u, more).List; page.Next != nil || page.Items[0].Name != "second" {
		t.Errorf("page %+v", page)
	}
}

func TestListenStateless(t *testing.T) {
	end := make(chan struct{})
	f := newFake(t, false, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method != mcp.MethodListen {
			return false
		}
		meta := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(m.ID) + `}`
		events(w, `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{`+meta+
			`,"notifications":{"toolsListChanged":true}}}`+"\n\n")
		events(w, `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{`+meta+`}}`+"\n\n")
		<-end
		events(w, event(m, "", `{"resultType":"complete"}`))
		return true
	})
	u := start(t, upstream.Config{URL: f.URL})
	got := make(chan string, 5)
	done := make(chan *mcp.Reply, 1)
	go func() {
		reply, err := u.Handle(t.Context(), &mcp.Call{
			Method: mcp.MethodListen, Params: mcp.Raw(`{"notifications":{"toolsListChanged":true}}`),
			Notify: func(e mcp.Event) { got <- e.Method + string(e.Params) },
		})
		if err != nil {
			t.Error(err)
		}
		done <- reply
	}()
	for _, want := range []string{
		mcp.NoteAcknowledged + `{"notifications":{"toolsListChanged":true}}`, mcp.NoteToolsListChanged + `{}`,
	} {
		if e := <-got; e != want {
			t.Errorf("event %s, want %s", e, want)
		}
	}
	close(end)
	if reply := <-done; string(reply.Result) != `{}` {
		t.Errorf("reply %+v", reply)
	}
	want, _ := mcp.Raw(f.requests(mcp.MethodListen)[0].Params).Member("notifications")
	if string(want) != `{"toolsListChanged":true}` {
		t.Errorf("asked for %s", want)
	}
}
