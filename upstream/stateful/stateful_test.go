package stateful_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// statefulFake answers tools/call with call, and everything else correctly.
func statefulFake(t *testing.T, call answer) (*fake.Server, *fake.Upstream) {
	f := fake.New(t, true, onCall(call))
	return f, f.Upstream(t, upstream.Config{})
}

// statefulBubbleFake is a statefulFake in a bubble of synctest.
func statefulBubbleFake(t *testing.T, call answer) (*fake.Server, *fake.Upstream) {
	f := fake.NewBubble(t, true, onCall(call))
	return f, f.Upstream(t, upstream.Config{})
}

// answer is what a server does with a tool call.
type answer func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message)

func onCall(call answer) fake.Handler {
	return func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodToolsCall || call == nil {
			return false
		}
		call(f, w, r, m)
		return true
	}
}

func TestSessionAndVersionHeaders(t *testing.T) {
	for _, tt := range []struct{ version, want string }{
		{"2025-11-25", "2025-11-25"}, {"2025-06-18", "2025-06-18"}, {"2025-03-26", ""}, {"2024-11-05", ""},
	} {
		t.Run(tt.version, func(t *testing.T) {
			f, u := statefulFake(t, nil)
			f.Version = tt.version
			fake.WantOK(t, u, fake.Tool("a"))
			fake.Close(t, u)
			order := ""
			for _, s := range f.Requests("")[1:] {
				order += s.Verb + " " + s.Method + "\n"
				if s.Method == mcp.MethodInitialize {
					if s.Header.Get("Mcp-Session-Id") != "" || s.Header.Get("Mcp-Protocol-Version") != "" {
						t.Errorf("initialize with headers %v", s.Header)
					}
					continue
				}
				if s.Header.Get("Mcp-Session-Id") != "s1" || s.Header.Get("Mcp-Protocol-Version") != tt.want {
					t.Errorf("%s %s: session %q, version %q", s.Verb, s.Method,
						s.Header.Get("Mcp-Session-Id"), s.Header.Get("Mcp-Protocol-Version"))
				}
			}
			// The session ends with DELETE.
			if want := "POST initialize\nPOST notifications/initialized\nPOST tools/call\nDELETE \n"; order != want {
				t.Errorf("requests\n%swant\n%s", order, want)
			}
		})
	}
}

func TestUnknownRevisionOfTheServer(t *testing.T) {
	f, u := statefulFake(t, nil)
	f.Version = "2026-07-28" // never by initialize
	_, err := fake.Do(t, u, fake.Tool("a"))
	fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedNo)
}

func TestReservedMetaStays(t *testing.T) {
	f, u := statefulFake(t, nil)
	c := fake.Tool("a")
	c.Params = mcp.Raw(`{"name":"x__a","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{},"progressToken":7,"vendor":1,"traceparent":"junk","tracestate":"x=y"}}`)
	fake.WantOK(t, u, c)
	got := f.Requests(mcp.MethodToolsCall)[0]
	if want := `{"name":"a","_meta":{"progressToken":` + string(got.ID) + `,"vendor":1}}`; string(got.Params) != want {
		t.Errorf("params %s, want %s", got.Params, want)
	}
}

func TestDeclaredCapabilities(t *testing.T) {
	for _, tt := range []struct{ name, caps, want string }{
		{"none", "", `{}`},
		{"all", `{"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}},"elicitation":{"url":{},"form":{}},"tasks":{},"experimental":{"x":{}}}`,
			`{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}`},
		{"form by default", `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, u := statefulFake(t, nil)
			c := fake.Tool("a")
			c.Caps = mcp.Raw(tt.caps)
			fake.WantOK(t, u, c)
			caps, _ := mcp.Raw(f.Requests(mcp.MethodInitialize)[0].Params).Member("capabilities")
			if string(caps) != tt.want {
				t.Errorf("declared %s, want %s", caps, tt.want)
			}
		})
	}
	t.Run("the gateway's own sessions", func(t *testing.T) {
		f, u := statefulFake(t, nil)
		for _, caps := range []string{"", "{}", `{"roots":{}}`, `{ "roots":{ } }`, ""} {
			c := fake.Tool("a")
			if c.Session = ""; caps != "" {
				c.Caps = mcp.Raw(caps)
			}
			fake.WantOK(t, u, c)
		}
		want := []string{
			`{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"extensions":{"io.modelcontextprotocol/skills":{},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`,
			`{}`, `{"roots":{}}`,
		}
		begun := f.Requests(mcp.MethodInitialize)
		for i, want := range want {
			if caps, _ := mcp.Raw(begun[i].Params).Member("capabilities"); string(caps) != want {
				t.Errorf("declared %s, want %s", caps, want)
			}
		}
		if len(begun) != len(want) {
			t.Errorf("%d sessions, want %d", len(begun), len(want))
		}
	})
}

func TestSessionGone(t *testing.T) {
	sessions := atomic.Int32{}
	refuse := atomic.Bool{}
	f, u := statefulFake(t, nil)
	f.Handle = func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		switch {
		case m.Method == mcp.MethodInitialize:
			f.Mu.Lock()
			f.Session = "s" + string(rune('0'+sessions.Add(1)))
			f.Mu.Unlock()
			return false
		case r.Header.Get("Mcp-Session-Id") == "s1" && sessions.Load() > 0 && refuse.Load():
			fake.Failure(w, 404, fake.Message{ID: []byte("null")}, `{"code":-32001,"message":"Session not found"}`)
			return true
		case m.Method == mcp.MethodSetLevel || strings.Contains(m.Method, "subscribe"):
			fake.Result(w, m, `{}`)
			return true
		}
		return false
	}
	first := fake.Tool("a")
	first.LogLevel = "info"
	fake.WantOK(t, u, first)

	listening, events := fake.Listen(t, u, `{"resourceSubscriptions":["file:///a"]}`, "user:session")
	if got := <-events; got.Method != mcp.NoteAcknowledged {
		t.Fatalf("first event %s", got.Method)
	}
	refuse.Store(true)
	var calls sync.WaitGroup
	for range 5 {
		calls.Go(func() { fake.WantOK(t, u, fake.Tool("b")) })
	}
	calls.Wait()
	if n := sessions.Load(); n != 2 {
		t.Errorf("%d sessions were opened, want one more", n-1)
	}
	inits := f.Requests(mcp.MethodInitialize)
	if id := inits[1].Header.Get("Mcp-Session-Id"); id != "" {
		t.Errorf("the new initialize has session id %s", id)
	}
	var level, uri string
	for _, s := range f.Requests("") {
		if s.Header.Get("Mcp-Session-Id") == "s2" && s.Method == mcp.MethodSetLevel {
			v, _ := mcp.Raw(s.Params).Member("level")
			level = v.Text()
		}
		if s.Header.Get("Mcp-Session-Id") == "s2" && s.Method == mcp.MethodResourcesSubscribe {
			v, _ := mcp.Raw(s.Params).Member("uri")
			uri = v.Text()
		}
	}
	if level != "info" || uri != "file:///a" {
		t.Errorf("restored level %q and subscription %q", level, uri)
	}
	if got := <-events; got.Method != mcp.NoteResourceUpdated { // what may have been missed
		t.Errorf("event %s", got.Method)
	}
	listening()
}

func TestSessionGoneAgainAndAgain(t *testing.T) {
	f, u := statefulFake(t, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, _ fake.Message) {
		w.WriteHeader(http.StatusNotFound)
	})
	_, err := fake.Do(t, u, fake.Tool("a"))
	fake.WantError(t, err, mcp.CodeUpstreamSessionLost, mcp.ExecutedNo)
	if calls, inits := len(f.Requests(mcp.MethodToolsCall)), len(f.Requests(mcp.MethodInitialize)); calls != 2 ||
		inits != 2 {
		t.Errorf("%d calls, %d initialize", calls, inits)
	}
}

func TestListenStateful(t *testing.T) {
	say := make(chan string)
	f, u := statefulFake(t, nil)
	f.Handle = func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		switch {
		case r.Method == http.MethodGet:
			fake.Events(w, ": hello\n\n")
			for {
				select {
				case text := <-say:
					fake.Events(w, "data: "+text+"\n\n")
				case <-r.Context().Done():
					return true
				}
			}
		case strings.Contains(m.Method, "subscribe"):
			fake.Result(w, m, `{}`)
			return true
		}
		return false
	}
	end, got := fake.Listen(t, u,
		`{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a:b"]}`, "")
	want := func(method, params string) {
		t.Helper()
		select {
		case e := <-got:
			if e.Method != method || string(e.Params) != params {
				t.Errorf("event %s %s, want %s %s", e.Method, e.Params, method, params)
			}
		case <-time.After(fake.Patience):
			t.Fatalf("no %s", method)
		}
	}
	// The fake lacks prompts.listChanged, so that is not honoured.
	want(mcp.NoteAcknowledged, `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}}`)
	say <- `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"x":1}}}`
	want(mcp.NoteToolsListChanged, `{}`)
	say <- `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}`
	want(mcp.NoteResourceUpdated, `{"uri":"a:b"}`)
	say <- `{"jsonrpc":"2.0","id":"p","method":"ping"}`
	say <- `{"jsonrpc":"2.0","id":"r","method":"roots/list"}` // of a session without a user
	say <- `{"jsonrpc":"2.0","id":"e",` + fake.Elicit + `}`
	say <- `{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`
	end()
	f.Await(t, mcp.MethodResourcesUnsubscribe, 1)
	if got := f.AwaitAnswer(t, "p"); got != `{}` {
		t.Errorf("ping was answered %s", got)
	}
	for id, want := range map[string]string{"r": `{"roots":[]}`, "e": `{"action":"cancel"}`, "s": `"code":-1,`} {
		if got := f.AwaitAnswer(t, id); !strings.Contains(got, want) {
			t.Errorf("the question %s is answered %s, want %s", id, got, want)
		}
	}
}

func TestBrokenStreamGoesOn(t *testing.T) { synctest.Test(t, testBrokenStreamGoesOn) }

func testBrokenStreamGoesOn(t *testing.T) {
	f, u := statefulBubbleFake(t, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) {
		fake.Events(w, "id: e7\nretry: 10\ndata:\n\n") // primed, then closed by the server
	})
	handle := f.Handle
	f.Handle = func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if r.Method != http.MethodGet {
			return handle(f, w, r, m)
		}
		call := f.Requests(mcp.MethodToolsCall)[0]
		switch len(f.Requests(http.MethodGet)) {
		case 1:
			panic(http.ErrAbortHandler)
		default:
			fake.Events(w, fake.Event(call.Message, "e8", fake.OK))
		}
		return true
	}
	fake.WantOK(t, u, fake.Tool("a"))
	for _, s := range f.Requests(http.MethodGet) {
		if id := s.Header.Get("Last-Event-Id"); id != "e7" {
			t.Errorf("Last-Event-ID %q", id)
		}
	}
	if n := len(f.Requests(mcp.MethodToolsCall)); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// A resumed stream may end without an event of its own: the next one resumes from the same
// event.
func TestPollingGoesOn(t *testing.T) { synctest.Test(t, testPollingGoesOn) }

func testPollingGoesOn(t *testing.T) {
	f, u := statefulBubbleFake(t, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) {
		fake.Events(w, "id: e7\nretry: 10\ndata:\n\n")
	})
	handle := f.Handle
	f.Handle = func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if r.Method != http.MethodGet {
			return handle(f, w, r, m)
		}
		if len(f.Requests(http.MethodGet)) == 1 {
			fake.Events(w, ": nothing yet\n\n")
		} else {
			fake.Events(w, fake.Event(f.Requests(mcp.MethodToolsCall)[0].Message, "e8", fake.OK))
		}
		return true
	}
	fake.WantOK(t, u, fake.Tool("a"))
	for _, s := range f.Requests(http.MethodGet) {
		if id := s.Header.Get("Last-Event-Id"); id != "e7" {
			t.Errorf("Last-Event-ID %q", id)
		}
	}
}

// Messages on a resumed stream show life just as those on the first one do.
func TestResumedStreamShowsLife(t *testing.T) { synctest.Test(t, testResumedStreamShowsLife) }

func testResumedStreamShowsLife(t *testing.T) {
	f := fake.NewBubble(t, true, nil)
	f.Handle = func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		switch {
		case m.Method == mcp.MethodToolsCall:
			fake.Events(w, "id: e7\nretry: 10\ndata:\n\n")
		case r.Method == http.MethodGet:
			tick := time.NewTicker(50 * time.Second)
			defer tick.Stop()
			for range 12 { // in all longer than the call may be silent
				<-tick.C
				fake.Events(w, ": still at it\n\n")
			}
			fake.Events(w, fake.Event(f.Requests(mcp.MethodToolsCall)[0].Message, "e8", fake.OK))
		default:
			return false
		}
		return true
	}
	u := f.Upstream(t, upstream.Config{Timeout: upstream.Timeout{Call: time.Minute, Total: time.Hour}})
	if reply, err := u.Handle(t.Context(), fake.Tool("a")); err != nil || string(reply.Result) != fake.OK {
		t.Errorf("reply %v, error %v", reply, err)
	}
}

func TestBrokenStreamIsLostInTheEnd(t *testing.T) {
	synctest.Test(t, testBrokenStreamIsLostInTheEnd)
}

func testBrokenStreamIsLostInTheEnd(t *testing.T) {
	f, u := statefulBubbleFake(t, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) {
		// half an event
		fake.Events(w, "id: e7\nretry: 1\ndata:\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":"+string(m.ID)+",\"result\":{}}\n")
	})
	_, err := fake.Do(t, u, fake.Tool("a"))
	fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	if n := len(f.Requests(http.MethodGet)); n != 3 {
		t.Errorf("%d attempts to go on, want 3", n)
	}
	f.Await(t, mcp.NoteCancelled, 1) // the server may still be working on it
}

func TestNoGETStream(t *testing.T) {
	f, u := statefulFake(t, nil)
	fake.WantOK(t, u, fake.Asked("a"))
	fake.WantOK(t, u, fake.Asked("a"))
	if n := len(f.Requests(http.MethodGet)); n != 1 {
		t.Errorf("%d GETs, want one that is answered 405 and remembered", n)
	}
}

func TestBatches(t *testing.T) {
	var got []string
	f, u := statefulFake(t, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) {
		fake.Events(w, `data: [{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}},`+
			`{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+fake.OK+"}]\n\n")
	})
	f.Version = "2025-03-26"
	c := fake.Tool("a")
	c.Notify = func(e mcp.Event) { got = append(got, e.Method) }
	fake.WantOK(t, u, c)
	if len(got) != 1 || got[0] != mcp.NoteMessage {
		t.Errorf("events %v", got)
	}
}

func TestCancelNotifiesAStatefulServer(t *testing.T) {
	f, u := statefulFake(t, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) {
		fake.Events(w, ": here\n\n")
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := u.Handle(ctx, fake.Tool("a"))
		failed <- err
	}()
	call := f.Await(t, mcp.MethodToolsCall, 1)[0]
	cancel()
	if err := <-failed; err != context.Canceled {
		t.Errorf("error %v", err)
	}
	got := f.Await(t, mcp.NoteCancelled, 1)[0]
	if id, _ := mcp.Raw(got.Params).Member("requestId"); string(id) != string(call.ID) {
		t.Errorf("cancelled %s, want %s", id, call.ID)
	}
}

func TestTimeoutCancels(t *testing.T) { synctest.Test(t, testTimeoutCancels) }

func testTimeoutCancels(t *testing.T) {
	f := fake.NewBubble(t, true, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodToolsCall {
			return false
		}
		for r.Context().Err() == nil { // active for ever: only the total limit ends it
			fake.Events(w, ": still here\n\n")
			select {
			case <-time.After(50 * time.Second):
			case <-r.Context().Done():
			}
		}
		return true
	})
	u := f.Upstream(t, upstream.Config{Timeout: upstream.Timeout{Call: time.Minute, Total: time.Hour}})
	began := time.Now()
	_, err := u.Handle(t.Context(), fake.Tool("a"))
	fake.WantError(t, err, mcp.CodeUpstreamTimeout, mcp.ExecutedUnknown)
	if took := time.Since(began); took != time.Hour {
		t.Errorf("ended after %s, want the total, since the server was lively", took)
	}
	f.Await(t, mcp.NoteCancelled, 1)
}

func TestSessionsAreNeverShared(t *testing.T) {
	n := atomic.Int32{}
	f, u := statefulFake(t, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) {
		fake.Result(w, m, `{"content":[{"type":"text","text":"`+r.Header.Get("Mcp-Session-Id")+`"}]}`)
	})
	handle := f.Handle
	f.Handle = func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method == mcp.MethodInitialize {
			w.Header().Set("Mcp-Session-Id", "s"+string(rune('0'+n.Add(1))))
			fake.Result(w, m, `{"protocolVersion":"2025-11-25","capabilities":{}}`)
			return true
		}
		return handle(f, w, r, m)
	}
	session := func(c *mcp.Call) string { return string(fake.MustDo(t, u, c).Result) }
	a, b, neutral := fake.Tool("x"), fake.Tool("x"), fake.Tool("x")
	a.Session, b.Session, neutral.Session = "u1:s", "u2:s", ""
	plain, asks := fake.Tool("x"), fake.Asked("x")
	plain.Session, plain.Ephemeral, asks.Session, asks.Ephemeral = "u3:e", true, "u3:e", true
	all := map[string]bool{}
	for _, c := range []*mcp.Call{a, b, neutral, plain, asks} {
		first := session(c)
		if all[first] {
			t.Errorf("session %s is shared", first)
		}
		all[first] = true
		if again := session(c); again != first {
			t.Errorf("session %s became %s", first, again)
		}
	}
	u.EndSession("u1:s", true)
	f.Await(t, http.MethodDelete, 1)
	if all[session(a)] {
		t.Error("an ended session was used again")
	}
}

// TestSkillsEndWithTheirSession: a client's next session at the server may have others.
func TestSkillsEndWithTheirSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		f := fake.NewBubble(t, true, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			switch m.Method {
			case mcp.MethodSkillsList:
				lists++
				fake.Result(w, m, `{"skills":[{"name":"a","description":"d"}]}`)
			case mcp.MethodSkillsGet:
				fake.Result(w, m, `{"instructions":"Do it."}`)
			default:
				return false
			}
			return true
		})
		f.Caps = `{"skills":{}}`
		u := f.Upstream(t, upstream.Config{Name: "up"})
		fake.MustDo(t, u, &mcp.Call{Method: mcp.MethodDiscover, Notify: func(mcp.Event) {}})
		for want := 1; want <= 2; want++ {
			for range 2 {
				fake.MustDo(t, u, &mcp.Call{Method: mcp.MethodSkillsGet, Name: "a", Params: mcp.Raw(`{"name":"a"}`), Session: "u:s",
					Notify: func(mcp.Event) {}})
			}
			if lists != want {
				t.Errorf("in session %d skills were listed %d times", want, lists)
			}
			u.EndSession("u:s", true)
			synctest.Wait()
		}
	})
}

func TestOnePostACallStateful(t *testing.T) {
	f, u := statefulFake(t, nil)
	fake.WantOK(t, u, fake.Tool("a"))
	before := len(f.Requests(""))
	ids := map[string]bool{}
	for range 10 {
		fake.WantOK(t, u, fake.Tool("a"))
	}
	for _, s := range f.Requests("")[before:] {
		if ids[string(s.ID)] || s.Method != mcp.MethodToolsCall {
			t.Errorf("%s with id %s", s.Method, s.ID)
		}
		ids[string(s.ID)] = true
	}
	if len(ids) != 10 {
		t.Errorf("%d requests for 10 calls", len(ids))
	}
}
