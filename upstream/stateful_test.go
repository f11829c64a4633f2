package upstream_test

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
)

// statefulFake answers tools/call with call, and everything else correctly.
func statefulFake(t *testing.T, call func(f *fake, w http.ResponseWriter, r *http.Request, m rpc)) (*fake,
	*upstream.Upstream) {
	f := newFake(t, true, onCall(call))
	return f, f.start(t, upstream.Config{})
}

// statefulBubbleFake is a statefulFake in a bubble of synctest.
func statefulBubbleFake(t *testing.T, call func(f *fake, w http.ResponseWriter, r *http.Request, m rpc)) (*fake,
	*upstream.Upstream) {
	f := newBubbleFake(t, true, onCall(call))
	return f, f.start(t, upstream.Config{})
}

func onCall(call func(f *fake, w http.ResponseWriter, r *http.Request, m rpc)) func(f *fake, w http.ResponseWriter,
	r *http.Request, m rpc) bool {
	return func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
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
			f.version = tt.version
			wantOK(t, u, tool("a"))
			shut(t, u)
			order := ""
			for _, s := range f.requests("")[1:] {
				order += s.verb + " " + s.Method + "\n"
				if s.Method == mcp.MethodInitialize {
					if s.header.Get("Mcp-Session-Id") != "" || s.header.Get("Mcp-Protocol-Version") != "" {
						t.Errorf("initialize with headers %v", s.header)
					}
					continue
				}
				if s.header.Get("Mcp-Session-Id") != "s1" || s.header.Get("Mcp-Protocol-Version") != tt.want {
					t.Errorf("%s %s: session %q, version %q", s.verb, s.Method,
						s.header.Get("Mcp-Session-Id"), s.header.Get("Mcp-Protocol-Version"))
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
	f.version = "2026-07-28" // never by initialize
	_, err := do(t, u, tool("a"))
	wantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedNo)
}

func TestReservedMetaStays(t *testing.T) {
	f, u := statefulFake(t, nil)
	c := tool("a")
	c.Params = mcp.Raw(`{"name":"x__a","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{},"progressToken":7,"vendor":1,"traceparent":"junk","tracestate":"x=y"}}`)
	wantOK(t, u, c)
	got := f.requests(mcp.MethodToolsCall)[0]
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
			c := tool("a")
			c.Caps = mcp.Raw(tt.caps)
			wantOK(t, u, c)
			caps, _ := mcp.Raw(f.requests(mcp.MethodInitialize)[0].Params).Member("capabilities")
			if string(caps) != tt.want {
				t.Errorf("declared %s, want %s", caps, tt.want)
			}
		})
	}
	t.Run("the gateway's own sessions", func(t *testing.T) {
		f, u := statefulFake(t, nil)
		for _, caps := range []string{"", "{}", `{"roots":{}}`, `{ "roots":{ } }`, ""} {
			c := tool("a")
			if c.Session = ""; caps != "" {
				c.Caps = mcp.Raw(caps)
			}
			wantOK(t, u, c)
		}
		want := []string{
			`{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"extensions":{"io.modelcontextprotocol/skills":{},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`,
			`{}`, `{"roots":{}}`,
		}
		begun := f.requests(mcp.MethodInitialize)
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
	f.handle = func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		switch {
		case m.Method == mcp.MethodInitialize:
			f.mu.Lock()
			f.session = "s" + string(rune('0'+sessions.Add(1)))
			f.mu.Unlock()
			return false
		case r.Header.Get("Mcp-Session-Id") == "s1" && sessions.Load() > 0 && refuse.Load():
			failure(w, 404, rpc{ID: []byte("null")}, `{"code":-32001,"message":"Session not found"}`)
			return true
		case m.Method == mcp.MethodSetLevel || strings.Contains(m.Method, "subscribe"):
			result(w, m, `{}`)
			return true
		}
		return false
	}
	first := tool("a")
	first.LogLevel = "info"
	wantOK(t, u, first)

	listening, events := listen(t, u, `{"resourceSubscriptions":["file:///a"]}`, "user:session")
	if got := <-events; got.Method != mcp.NoteAcknowledged {
		t.Fatalf("first event %s", got.Method)
	}
	refuse.Store(true)
	var calls sync.WaitGroup
	for range 5 {
		calls.Go(func() { wantOK(t, u, tool("b")) })
	}
	calls.Wait()
	if n := sessions.Load(); n != 2 {
		t.Errorf("%d sessions were opened, want one more", n-1)
	}
	inits := f.requests(mcp.MethodInitialize)
	if id := inits[1].header.Get("Mcp-Session-Id"); id != "" {
		t.Errorf("the new initialize has session id %s", id)
	}
	var level, uri string
	for _, s := range f.requests("") {
		if s.header.Get("Mcp-Session-Id") == "s2" && s.Method == mcp.MethodSetLevel {
			v, _ := mcp.Raw(s.Params).Member("level")
			level = v.Text()
		}
		if s.header.Get("Mcp-Session-Id") == "s2" && s.Method == mcp.MethodResourcesSubscribe {
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
	f, u := statefulFake(t, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) { w.WriteHeader(404) })
	_, err := do(t, u, tool("a"))
	wantError(t, err, mcp.CodeUpstreamSessionLost, mcp.ExecutedNo)
	if calls, inits := len(f.requests(mcp.MethodToolsCall)), len(f.requests(mcp.MethodInitialize)); calls != 2 ||
		inits != 2 {
		t.Errorf("%d calls, %d initialize", calls, inits)
	}
}

// listen makes a subscriptions/listen call; end ends it.
func listen(t *testing.T, u *upstream.Upstream, want, session string) (end func(), events chan mcp.Event) {
	t.Helper()
	events = make(chan mcp.Event, 20)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := u.Handle(ctx, &mcp.Call{
			Method: mcp.MethodListen, Session: session, Params: mcp.Raw(`{"notifications":` + want + `}`),
			Notify: func(e mcp.Event) { events <- mcp.Event{Method: e.Method, Params: append(mcp.Raw(nil), e.Params...)} },
		})
		done <- err
	}()
	return func() {
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("listen ended with %v", err)
		}
	}, events
}

func TestListenStateful(t *testing.T) {
	say := make(chan string)
	f, u := statefulFake(t, nil)
	f.handle = func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		switch {
		case r.Method == http.MethodGet:
			events(w, ": hello\n\n")
			for {
				select {
				case text := <-say:
					events(w, "data: "+text+"\n\n")
				case <-r.Context().Done():
					return true
				}
			}
		case strings.Contains(m.Method, "subscribe"):
			result(w, m, `{}`)
			return true
		}
		return false
	}
	end, got := listen(t, u, `{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a:b"]}`, "")
	want := func(method, params string) {
		t.Helper()
		select {
		case e := <-got:
			if e.Method != method || string(e.Params) != params {
				t.Errorf("event %s %s, want %s %s", e.Method, e.Params, method, params)
			}
		case <-time.After(patience):
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
	say <- `{"jsonrpc":"2.0","id":"e",` + elicit + `}`
	say <- `{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`
	end()
	f.await(t, mcp.MethodResourcesUnsubscribe, 1)
	if got := f.awaitAnswer(t, "p"); got != `{}` {
		t.Errorf("ping was answered %s", got)
	}
	for id, want := range map[string]string{"r": `{"roots":[]}`, "e": `{"action":"cancel"}`, "s": `"code":-1,`} {
		if got := f.awaitAnswer(t, id); !strings.Contains(got, want) {
			t.Errorf("the question %s is answered %s, want %s", id, got, want)
		}
	}
}

func TestBrokenStreamGoesOn(t *testing.T) { synctest.Test(t, testBrokenStreamGoesOn) }

func testBrokenStreamGoesOn(t *testing.T) {
	f, u := statefulBubbleFake(t, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) {
		events(w, "id: e7\nretry: 10\ndata:\n\n") // primed, then closed by the server
	})
	handle := f.handle
	f.handle = func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if r.Method != http.MethodGet {
			return handle(f, w, r, m)
		}
		call := f.requests(mcp.MethodToolsCall)[0]
		switch len(f.requests(http.MethodGet)) {
		case 1:
			panic(http.ErrAbortHandler)
		default:
			events(w, event(call.rpc, "e8", okResult))
		}
		return true
	}
	wantOK(t, u, tool("a"))
	for _, s := range f.requests(http.MethodGet) {
		if id := s.header.Get("Last-Event-Id"); id != "e7" {
			t.Errorf("Last-Event-ID %q", id)
		}
	}
	if n := len(f.requests(mcp.MethodToolsCall)); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// A resumed stream may end without an event of its own: the next one resumes from the same
// event.
func TestPollingGoesOn(t *testing.T) { synctest.Test(t, testPollingGoesOn) }

func testPollingGoesOn(t *testing.T) {
	f, u := statefulBubbleFake(t, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) {
		events(w, "id: e7\nretry: 10\ndata:\n\n")
	})
	handle := f.handle
	f.handle = func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if r.Method != http.MethodGet {
			return handle(f, w, r, m)
		}
		if len(f.requests(http.MethodGet)) == 1 {
			events(w, ": nothing yet\n\n")
		} else {
			events(w, event(f.requests(mcp.MethodToolsCall)[0].rpc, "e8", okResult))
		}
		return true
	}
	wantOK(t, u, tool("a"))
	for _, s := range f.requests(http.MethodGet) {
		if id := s.header.Get("Last-Event-Id"); id != "e7" {
			t.Errorf("Last-Event-ID %q", id)
		}
	}
}

// Messages on a resumed stream show life just as those on the first one do.
func TestResumedStreamShowsLife(t *testing.T) { synctest.Test(t, testResumedStreamShowsLife) }

func testResumedStreamShowsLife(t *testing.T) {
	f := newBubbleFake(t, true, nil)
	f.handle = func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		switch {
		case m.Method == mcp.MethodToolsCall:
			events(w, "id: e7\nretry: 10\ndata:\n\n")
		case r.Method == http.MethodGet:
			tick := time.NewTicker(50 * time.Second)
			defer tick.Stop()
			for range 12 { // in all longer than the call may be silent
				<-tick.C
				events(w, ": still at it\n\n")
			}
			events(w, event(f.requests(mcp.MethodToolsCall)[0].rpc, "e8", okResult))
		default:
			return false
		}
		return true
	}
	u := f.start(t, upstream.Config{Timeout: upstream.Timeout{Call: time.Minute, Total: time.Hour}})
	if reply, err := u.Handle(t.Context(), tool("a")); err != nil || string(reply.Result) != okResult {
		t.Errorf("reply %v, error %v", reply, err)
	}
}

func TestBrokenStreamIsLostInTheEnd(t *testing.T) {
	synctest.Test(t, testBrokenStreamIsLostInTheEnd)
}

func testBrokenStreamIsLostInTheEnd(t *testing.T) {
	f, u := statefulBubbleFake(t, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) {
		// half an event
		events(w, "id: e7\nretry: 1\ndata:\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":"+string(m.ID)+",\"result\":{}}\n")
	})
	_, err := do(t, u, tool("a"))
	wantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	if n := len(f.requests(http.MethodGet)); n != 3 {
		t.Errorf("%d attempts to go on, want 3", n)
	}
	f.await(t, mcp.NoteCancelled, 1) // the server may still be working on it
}

func TestNoGETStream(t *testing.T) {
	f, u := statefulFake(t, nil)
	wantOK(t, u, asked("a"))
	wantOK(t, u, asked("a"))
	if n := len(f.requests(http.MethodGet)); n != 1 {
		t.Errorf("%d GETs, want one that is answered 405 and remembered", n)
	}
}

func TestBatches(t *testing.T) {
	var got []string
	f, u := statefulFake(t, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) {
		events(w, `data: [{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}},`+
			`{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+okResult+"}]\n\n")
	})
	f.version = "2025-03-26"
	c := tool("a")
	c.Notify = func(e mcp.Event) { got = append(got, e.Method) }
	wantOK(t, u, c)
	if len(got) != 1 || got[0] != mcp.NoteMessage {
		t.Errorf("events %v", got)
	}
}

func TestCancelNotifiesAStatefulServer(t *testing.T) {
	f, u := statefulFake(t, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) {
		events(w, ": here\n\n")
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := u.Handle(ctx, tool("a"))
		failed <- err
	}()
	call := f.await(t, mcp.MethodToolsCall, 1)[0]
	cancel()
	if err := <-failed; err != context.Canceled {
		t.Errorf("error %v", err)
	}
	got := f.await(t, mcp.NoteCancelled, 1)[0]
	if id, _ := mcp.Raw(got.Params).Member("requestId"); string(id) != string(call.ID) {
		t.Errorf("cancelled %s, want %s", id, call.ID)
	}
}

func TestTimeoutCancels(t *testing.T) { synctest.Test(t, testTimeoutCancels) }

func testTimeoutCancels(t *testing.T) {
	f := newBubbleFake(t, true, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method != mcp.MethodToolsCall {
			return false
		}
		for r.Context().Err() == nil { // active for ever: only the total limit ends it
			events(w, ": still here\n\n")
			select {
			case <-time.After(50 * time.Second):
			case <-r.Context().Done():
			}
		}
		return true
	})
	u := f.start(t, upstream.Config{Timeout: upstream.Timeout{Call: time.Minute, Total: time.Hour}})
	began := time.Now()
	_, err := u.Handle(t.Context(), tool("a"))
	wantError(t, err, mcp.CodeUpstreamTimeout, mcp.ExecutedUnknown)
	if took := time.Since(began); took != time.Hour {
		t.Errorf("ended after %s, want the total, since the server was lively", took)
	}
	f.await(t, mcp.NoteCancelled, 1)
}

func TestSessionsAreNeverShared(t *testing.T) {
	n := atomic.Int32{}
	f, u := statefulFake(t, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) {
		result(w, m, `{"content":[{"type":"text","text":"`+r.Header.Get("Mcp-Session-Id")+`"}]}`)
	})
	handle := f.handle
	f.handle = func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method == mcp.MethodInitialize {
			w.Header().Set("Mcp-Session-Id", "s"+string(rune('0'+n.Add(1))))
			result(w, m, `{"protocolVersion":"2025-11-25","capabilities":{}}`)
			return true
		}
		return handle(f, w, r, m)
	}
	session := func(c *mcp.Call) string { return string(mustDo(t, u, c).Result) }
	a, b, neutral := tool("x"), tool("x"), tool("x")
	a.Session, b.Session, neutral.Session = "u1:s", "u2:s", ""
	plain, asks := tool("x"), asked("x")
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
	endSession(u, "u1:s", true)
	f.await(t, http.MethodDelete, 1)
	if all[session(a)] {
		t.Error("an ended session was used again")
	}
}

// TestSkillsEndWithTheirSession: a client's next session at the server may have others.
func TestSkillsEndWithTheirSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		f := newBubbleFake(t, true, func(_ *fake, w http.ResponseWriter, _ *http.Request, m rpc) bool {
			switch m.Method {
			case mcp.MethodSkillsList:
				lists++
				result(w, m, `{"skills":[{"name":"a","description":"d"}]}`)
			case mcp.MethodSkillsGet:
				result(w, m, `{"instructions":"Do it."}`)
			default:
				return false
			}
			return true
		})
		f.caps = `{"skills":{}}`
		u := f.start(t, upstream.Config{Name: "up"})
		mustDo(t, u, &mcp.Call{Method: mcp.MethodDiscover, Notify: func(mcp.Event) {}})
		for want := 1; want <= 2; want++ {
			for range 2 {
				mustDo(t, u, &mcp.Call{Method: mcp.MethodSkillsGet, Name: "a", Params: mcp.Raw(`{"name":"a"}`), Session: "u:s",
					Notify: func(mcp.Event) {}})
			}
			if lists != want {
				t.Errorf("in session %d skills were listed %d times", want, lists)
			}
			endSession(u, "u:s", true)
			synctest.Wait()
		}
	})
}

func TestOnePostACallStateful(t *testing.T) {
	f, u := statefulFake(t, nil)
	wantOK(t, u, tool("a"))
	before := len(f.requests(""))
	ids := map[string]bool{}
	for range 10 {
		wantOK(t, u, tool("a"))
	}
	for _, s := range f.requests("")[before:] {
		if ids[string(s.ID)] || s.Method != mcp.MethodToolsCall {
			t.Errorf("%s with id %s", s.Method, s.ID)
		}
		ids[string(s.ID)] = true
	}
	if len(ids) != 10 {
		t.Errorf("%d requests for 10 calls", len(ids))
	}
}
