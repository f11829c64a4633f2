package stateful_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// askingFake asks the given questions, one round each, and answers with the answers that it
// got. It runs in a bubble of synctest, because a round stays open for a fixed time.
func askingFake(t *testing.T, cfg upstream.Config, rounds ...[]string) (*fake.Server, *fake.Upstream) {
	answers := make(chan fake.Message, 20)
	f := fake.NewBubble(t, true, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		switch {
		case m.Method == "" && m.ID != nil:
			answers <- m
			return false
		case m.Method != mcp.MethodToolsCall:
			return false
		}
		text := ""
		for _, round := range rounds {
			for _, q := range round {
				fake.Events(w, `data: {"jsonrpc":"2.0",`+q+"}\n\n")
			}
			for range round {
				select {
				case a := <-answers:
					text += strings.Trim(string(a.ID), `"`) + "=" + string(a.Result) + string(a.Error) + ";"
				case <-r.Context().Done():
					return true
				}
			}
		}
		fake.Events(w, fake.Event(m, "", string(mcp.Object("said", mcp.String(text)))))
		return true
	})
	return f, f.Upstream(t, cfg)
}

func TestRounds(t *testing.T) { synctest.Test(t, testRounds) }

func testRounds(t *testing.T) {
	_, u := askingFake(t, upstream.Config{},
		[]string{`"id":"q1",` + fake.Elicit,
			`"id":2,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}`},
		[]string{`"id":"q3","method":"roots/list"`})
	c := fake.Asked("a")
	reply := fake.MustDo(t, u, c)
	ask := reply.Ask
	if ask == nil || len(ask.Requests) != 2 || !ask.Here {
		t.Fatalf("reply %+v, want one round of two questions", reply)
	}
	if got, want := string(ask.Requests[0].Params), `{"message":"fake asks: m","mode":"form","requestedSchema":{"type":"object"}}`; got != want {
		t.Errorf("params %s, want %s", got, want)
	}

	// One answer is missing, one malformed: both are asked for again, and nothing invalid
	// is sent.
	again := c.Clone()
	again.Round = ask.Round
	again.Answers = map[string]mcp.Raw{ask.Requests[0].Key: mcp.Raw(`{"action":"perhaps"}`), "extra": mcp.Raw(`{}`)}
	reply = fake.MustDo(t, u, again)
	if reply.Ask == nil || len(reply.Ask.Requests) != 2 || reply.Ask.Round.Top() == ask.Round.Top() {
		t.Fatalf("reply %+v, want the open questions under a new state", reply.Ask)
	}
	ask = reply.Ask

	again = c.Clone()
	again.Round = ask.Round
	again.Answers = map[string]mcp.Raw{ask.Requests[0].Key: mcp.Raw(`{"action":"accept","content":{"a":1.0}}`)}
	again.Refused = map[string]*mcp.Error{ask.Requests[1].Key: mcp.Relayed(-1, "rejected", nil)}
	reply = fake.MustDo(t, u, again)
	if reply.Ask == nil || len(reply.Ask.Requests) != 1 || reply.Ask.Requests[0].Method != mcp.MethodRootsList {
		t.Fatalf("reply %+v, want the second round", reply)
	}
	used := again.Round

	again = c.Clone()
	again.Round = reply.Ask.Round
	again.Answers = map[string]mcp.Raw{reply.Ask.Requests[0].Key: mcp.Raw(`{"roots":[]}`)}
	reply = fake.MustDo(t, u, again)
	said, _ := reply.Result.Member("said")
	want := `q1={"action":"accept","content":{"a":1.0}};2={"code":-1,"message":"rejected"};q3={"roots":[]};`
	if said.Text() != want {
		t.Errorf("the server got %s, want %s", said.Text(), want)
	}

	again.Round = used
	_, err := fake.Do(t, u, again)
	wantExpired(t, "a state that was used", err)
}

func wantExpired(t *testing.T, what string, err error) {
	t.Helper()
	e, ok := err.(*mcp.Error)
	if !ok || e.Code != mcp.CodeInvalidParams {
		t.Errorf("%s: error %v", what, err)
		return
	}
	if reason, _ := e.Data.Member("reason"); reason.Text() != "expired" {
		t.Errorf("%s: data %s", what, e.Data)
	}
}

func TestForeignState(t *testing.T) { synctest.Test(t, testForeignState) }

func testForeignState(t *testing.T) {
	_, u := askingFake(t, upstream.Config{}, []string{`"id":"q1",` + fake.Elicit})
	c := fake.Asked("a")
	ask := fake.MustDo(t, u, c).Ask
	again := c.Clone()
	again.Round = ask.Round
	again.Answers = map[string]mcp.Raw{ask.Requests[0].Key: mcp.Raw(`{"action":"decline"}`)}
	for name, change := range map[string]func(*mcp.Call){
		"another user":    func(c *mcp.Call) { c.Caller = mcp.NewCaller(mcp.Caller{Subject: "eve"}) },
		"another session": func(c *mcp.Call) { c.Session = "eve:s" },
		"another tool":    func(c *mcp.Call) { c.Name = "b" },
		"another method":  func(c *mcp.Call) { c.Method = mcp.MethodPromptsGet },
		"of a server":     func(c *mcp.Call) { c.Round = mcp.NewRound(mcp.FrameServer, c.Round.Top().Value) },
		"made up":         func(c *mcp.Call) { c.Round = mcp.NewRound(mcp.FrameParked, "AAAA") },
	} {
		other := again.Clone()
		change(other)
		_, err := fake.Do(t, u, other)
		wantExpired(t, name, err)
	}
	if reply := fake.MustDo(t, u, again); reply.Result == nil {
		t.Errorf("after all those the right one: %+v", reply)
	}
}

func TestParkedCallExpires(t *testing.T) { synctest.Test(t, testParkedCallExpires) }

func testParkedCallExpires(t *testing.T) {
	f, u := askingFake(t, upstream.Config{Timeout: upstream.Timeout{Ask: fake.Patience / 2}}, []string{
		`"id":"e",` + fake.Elicit, `"id":"s","method":"sampling/createMessage","params":{"messages":[]}`,
		`"id":"r","method":"roots/list"`,
	})
	c := fake.Asked("a")
	ask := fake.MustDo(t, u, c).Ask
	f.Await(t, mcp.NoteCancelled, 1)
	got := map[string]string{}
	for _, id := range []string{"e", "s", "r"} {
		got[`"`+id+`"`] = f.AwaitAnswer(t, id)
	}
	if got[`"e"`] != `{"action":"cancel"}` || !strings.Contains(got[`"s"`], `"code":-1,`) ||
		!strings.Contains(got[`"r"`], "-32603") {
		t.Errorf("the server was answered %v", got)
	}
	again := c.Clone()
	again.Round = ask.Round
	_, err := fake.Do(t, u, again)
	wantExpired(t, "after the time limit", err)
	if n := u.Status().Parked; n != 0 {
		t.Errorf("%d calls parked", n)
	}
}

func TestParkedCallsPerUser(t *testing.T) { synctest.Test(t, testParkedCallsPerUser) }

func testParkedCallsPerUser(t *testing.T) {
	_, u := askingFake(t, upstream.Config{Limits: upstream.Limits{AsksPerUser: 1}}, []string{`"id":"e",` + fake.Elicit})
	if fake.MustDo(t, u, fake.Asked("a")).Ask == nil {
		t.Fatal("no question")
	}
	_, err := fake.Do(t, u, fake.Asked("a"))
	fake.WantError(t, err, mcp.CodeOverloaded, mcp.ExecutedUnknown)
}

func TestEndSessionEndsParkedCalls(t *testing.T) { synctest.Test(t, testEndSessionEndsParkedCalls) }

func testEndSessionEndsParkedCalls(t *testing.T) {
	f, u := askingFake(t, upstream.Config{}, []string{`"id":"e",` + fake.Elicit})
	c := fake.Asked("a")
	if fake.MustDo(t, u, c).Ask == nil {
		t.Fatal("no question")
	}
	u.EndSession(c.Session, true)
	f.Await(t, mcp.NoteCancelled, 1)
	f.Await(t, http.MethodDelete, 1)
}

func TestUndeclaredQuestionsAreRefused(t *testing.T) {
	synctest.Test(t, testUndeclaredQuestionsAreRefused)
}

func testUndeclaredQuestionsAreRefused(t *testing.T) {
	_, u := askingFake(t, upstream.Config{}, []string{
		`"id":"r","method":"roots/list"`, `"id":"s","method":"sampling/createMessage","params":{"messages":[]}`,
		`"id":"u","method":"elicitation/create","params":{"mode":"url","url":"https://x"}`, `"id":"p","method":"ping"`,
		`"id":"x","method":"x/y"`,
	})
	c := fake.Tool("a")
	c.Caps = mcp.Raw(`{"elicitation":{}}`)
	said, _ := fake.MustDo(t, u, c).Result.Member("said")
	got := map[string]string{}
	for _, part := range strings.Split(strings.TrimSuffix(said.Text(), ";"), ";") {
		id, answer, _ := strings.Cut(part, "=")
		got[id] = answer
	}
	for id, want := range map[string]string{"r": "-32601", "s": "-32601", "u": "-32602", "p": "{}", "x": "-32601"} {
		if !strings.Contains(got[id], want) {
			t.Errorf("%s was answered %s, want %s", id, got[id], want)
		}
	}
}

// getStreamFake has a GET stream on which the test speaks.
func getStreamFake(t *testing.T) (f *fake.Server, u *fake.Upstream, say chan string, finish chan struct{}) {
	say, finish = make(chan string), make(chan struct{})
	f = fake.New(t, true, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
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
		case m.Method == mcp.MethodToolsCall:
			fake.Events(w, ": here\n\n")
			select {
			case <-finish:
				fake.Events(w, fake.Event(m, "", fake.OK))
			case <-r.Context().Done():
			}
			return true
		}
		return false
	})
	return f, fake.Start(t, upstream.Config{URL: f.URL}), say, finish
}

func TestQuestionsOutsideOfACallsStream(t *testing.T) {
	t.Parallel()
	f, u, say, finish := getStreamFake(t)
	first := make(chan *mcp.Reply, 1)
	call := func(c *mcp.Call) {
		reply, err := u.Handle(t.Context(), c)
		if err != nil {
			t.Error(err)
		}
		first <- reply
	}
	c := fake.Asked("a")
	go call(c)
	f.Await(t, mcp.MethodToolsCall, 1)
	say <- `{"jsonrpc":"2.0","id":"one",` + fake.Elicit + `}`
	ask := (<-first).Ask
	if ask == nil {
		t.Fatal("with one call under way the question is not of that call")
	}
	go call(fake.Asked("b")) // now two calls are under way, and the question is the newest one's
	f.Await(t, mcp.MethodToolsCall, 2)
	say <- `{"jsonrpc":"2.0","id":"two",` + fake.Elicit + `}`
	newest := (<-first).Ask
	if newest == nil {
		t.Fatal("with two calls under way the question is not the newest one's")
	}
	close(finish)
	decline := func(c *mcp.Call, ask *mcp.Ask) {
		again := c.Clone()
		again.Round = ask.Round
		again.Answers = map[string]mcp.Raw{ask.Requests[0].Key: mcp.Raw(`{"action":"decline"}`)}
		fake.WantOK(t, u, again) // its result came while it was parked, and was kept
	}
	decline(fake.Asked("b"), newest)
	decline(c, ask)
	if two := f.AwaitAnswer(t, "two"); !strings.Contains(two, "decline") {
		t.Errorf("the answer is %s", two)
	}
}

func TestRootsRightAfterInitialized(t *testing.T) {
	t.Parallel()
	const question = `{"jsonrpc":"2.0","id":"roots","method":"roots/list"}`
	wantRoots := func(t *testing.T, f *fake.Server) {
		t.Helper()
		if roots := f.AwaitAnswer(t, "roots"); roots != `{"roots":[]}` {
			t.Errorf("the server was answered %s", roots)
		}
	}
	t.Run("before any call", func(t *testing.T) {
		f, u, say, finish := getStreamFake(t)
		close(finish)
		ctx, stop := context.WithCancel(t.Context())
		listens := make(chan struct{})
		go func() { // opens the session with a call that cannot be asked
			defer close(listens)
			c := fake.Asked("")
			c.Method, c.Params = mcp.MethodListen, mcp.Raw(`{"notifications":{}}`)
			_, _ = u.Handle(ctx, c)
		}()
		f.Await(t, mcp.NoteInitialized, 1)
		say <- question
		wantRoots(t, f)
		fake.WantOK(t, u, fake.Asked("a"))
		stop()
		<-listens
	})
	// The question is assigned to the only call under way, which is the wrong one: it must
	// not get lost when that call ends.
	t.Run("as a call ends", func(t *testing.T) {
		f, u, say, finish := getStreamFake(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			wantOKUnanswered(t, u, fake.Asked("a"))
		}()
		f.Await(t, mcp.MethodToolsCall, 1)
		say <- question
		close(finish)
		<-done
		wantRoots(t, f)
	})
}

// wantOKUnanswered expects a call to succeed whose server does not wait for answers. If the
// server is slow to end it, the call returns with the questions first.
func wantOKUnanswered(t *testing.T, u *fake.Upstream, c *mcp.Call) {
	reply, err := u.Handle(t.Context(), c)
	for err == nil && reply.Ask != nil {
		again := c.Clone()
		again.Round = reply.Ask.Round
		reply, err = u.Handle(t.Context(), again)
	}
	if err != nil || string(reply.Result) != fake.OK {
		t.Errorf("reply %+v, error %v", reply, err)
	}
}

// A server that answers a call without waiting for its own question still gets an answer to
// it.
func TestQuestionsLeftOpenByTheirCall(t *testing.T) {
	t.Parallel()
	f := fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodToolsCall {
			return false
		}
		fake.Events(w, `data: {"jsonrpc":"2.0","id":"e",`+fake.Elicit+"}\n\n"+
			`data: {"jsonrpc":"2.0","id":"r","method":"roots/list"}`+"\n\n"+fake.Event(m, "", fake.OK))
		return true
	})
	u := fake.Start(t, upstream.Config{URL: f.URL})
	wantOKUnanswered(t, u, fake.Asked("a"))
	if e, r := f.AwaitAnswer(t, "e"), f.AwaitAnswer(t, "r"); !strings.Contains(e, "-32602") || r != `{"roots":[]}` {
		t.Errorf("the server was answered %s and %s", e, r)
	}
}

// A full queue does not prevent a parked call from being released.
func TestParkedCallIsLetGo(t *testing.T) {
	f := fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodToolsCall {
			return false
		}
		fake.Events(w, `data: {"jsonrpc":"2.0","id":"one",`+fake.Elicit+"}\n\n")
		<-r.Context().Done()
		return true
	})
	u := fake.Start(t, upstream.Config{URL: f.URL, Limits: upstream.Limits{Concurrent: 1}})
	c := fake.Asked("a")
	reply, err := fake.Do(t, u, c)
	if err != nil || reply.Ask == nil {
		t.Fatalf("reply %+v, error %v", reply, err)
	}
	busy, stop := context.WithCancel(t.Context())
	blocked := make(chan struct{})
	go func() {
		defer close(blocked)
		_, _ = u.Handle(busy, fake.Tool("b")) // the fake asks here, too, and this call never answers
	}()
	f.Await(t, mcp.MethodToolsCall, 2)
	again := c.Clone()
	again.Round = reply.Ask.Round
	reply.Ask.Drop("nobody is there")
	if answer := f.AwaitAnswer(t, "one"); !strings.Contains(answer, "cancel") {
		t.Errorf("the question was answered %s", answer)
	}
	f.Await(t, mcp.NoteCancelled, 1)
	stop()
	<-blocked
	if _, err := fake.Do(t, u, again); err == nil {
		t.Error("the call can still be taken up")
	}
}

func TestProgressFlowsWhileACallIsParked(t *testing.T) {
	step := make(chan struct{})
	f := fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodToolsCall {
			return false
		}
		fake.Events(w, `data: {"jsonrpc":"2.0","id":"one",`+fake.Elicit+"}\n\n")
		<-step
		fake.Events(w, `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+string(m.ID)+
			`,"progress":1}}`+"\n\n")
		<-step
		fake.Events(w, fake.Event(m, "", fake.OK))
		return true
	})
	u := fake.Start(t, upstream.Config{URL: f.URL})
	c := fake.Asked("a")
	c.Params = mcp.Raw(`{"name":"a","_meta":{"progressToken":"p"}}`)
	progress := make(chan mcp.Event, 1)
	c.Notify = func(e mcp.Event) { progress <- e }
	reply, err := fake.Do(t, u, c)
	if err != nil || reply.Ask == nil {
		t.Fatalf("reply %+v, error %v", reply, err)
	}
	step <- struct{}{}
	select {
	case e := <-progress:
		if e.Method != mcp.NoteProgress {
			t.Errorf("got %s", e.Method)
		}
	case <-time.After(fake.Patience):
		t.Fatal("no progress while the question is open")
	}
	step <- struct{}{}
	again := c.Clone()
	again.Round = reply.Ask.Round
	again.Answers = map[string]mcp.Raw{reply.Ask.Requests[0].Key: mcp.Raw(`{"action":"decline"}`)}
	fake.WantOK(t, u, again)
}

func TestWithdrawnQuestion(t *testing.T) {
	f, u, say, finish := getStreamFake(t)
	c := fake.Asked("a")
	reply := make(chan *mcp.Reply, 1)
	go func() {
		r, err := u.Handle(t.Context(), c)
		if err != nil {
			t.Error(err)
		}
		reply <- r
	}()
	f.Await(t, mcp.MethodToolsCall, 1)
	say <- `{"jsonrpc":"2.0","id":"one",` + fake.Elicit + `}`
	ask := (<-reply).Ask
	say <- `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"one"}}`
	say <- `{"jsonrpc":"2.0","id":"after","method":"ping"}`
	f.AwaitAnswer(t, "after")
	close(finish)
	again := c.Clone()
	again.Round = ask.Round
	again.Answers = map[string]mcp.Raw{ask.Requests[0].Key: mcp.Raw(`{"action":"decline"}`)}
	fake.WantOK(t, u, again)
	for _, s := range f.Requests("") {
		if string(s.ID) == `"one"` {
			t.Error("a withdrawn question was answered")
		}
	}
}

// Messages up to the very end of a parked call do not race with the end itself.
func TestParkedCallEndsWhileItsServerSpeaks(t *testing.T) {
	t.Parallel()
	f := fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodToolsCall {
			return false
		}
		fake.Events(w, `data: {"jsonrpc":"2.0","id":"one",`+fake.Elicit+"}\n\n")
		for r.Context().Err() == nil {
			fake.Events(w, `data: {"jsonrpc":"2.0","method":"notifications/vendor"}`+"\n\n")
		}
		return true
	})
	u := fake.Start(t, upstream.Config{URL: f.URL})
	for i := range 10 {
		c := fake.Asked("a")
		c.Session = strconv.Itoa(i)
		if reply := fake.MustDo(t, u, c); reply.Ask == nil {
			t.Fatalf("reply %+v", reply)
		}
		u.EndSession(c.Session, true)
		f.Await(t, mcp.NoteCancelled, i+1)
	}
}

// A call that is cancelled while it asks is cancelled at its server first. Its question is
// answered afterwards, unless the server has ended the call by then.
func TestQuestionOfACancelledCall(t *testing.T) {
	for _, obeys := range []bool{true, false} {
		t.Run(fmt.Sprint("the server obeys: ", obeys), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cancelled := make(chan struct{})
				f := fake.NewBubble(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
					switch m.Method {
					case mcp.NoteCancelled:
						close(cancelled)
					case mcp.MethodToolsCall:
						fake.Events(w, `data: {"jsonrpc":"2.0","id":"q",`+fake.Elicit+"}\n\n")
						<-cancelled
						if obeys {
							fake.Events(w, `data: {"jsonrpc":"2.0","id":`+string(m.ID)+
								`,"error":{"code":0,"message":"Request cancelled"}}`+"\n\n")
							return true
						}
						<-r.Context().Done()
						return true
					}
					return false
				})
				u := f.Upstream(t, upstream.Config{})
				c := fake.Asked("a")
				question := fake.MustDo(t, u, c).Ask
				question.Drop("the user went home")
				question.Drop("twice")
				<-time.After(time.Second) // time for what comes, and for what must not come
				var said []string
				for _, s := range f.Requests(http.MethodPost) {
					switch {
					case s.Method == mcp.NoteCancelled:
						said = append(said, "cancelled: "+mcp.Raw(s.Params).At("reason").Text())
					case s.Method == "":
						said = append(said, string(s.Result))
					}
				}
				want := `cancelled: the user went home {"action":"cancel"}`
				if obeys {
					want = "cancelled: the user went home"
				}
				if got := strings.Join(said, " "); got != want {
					t.Errorf("the server was told %s, want %s", got, want)
				}
			})
		})
	}
}
