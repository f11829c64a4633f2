package stateful_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

const (
	openPage     = `"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://a.example/x","elicitationId":"theirs"}`
	pageDone     = `data: {"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"theirs"}}` + "\n\n"
	pageRequired = `{"code":-32042,"message":"go there","data":{"elicitations":[` +
		`{"mode":"url","message":"m","url":"https://a.example/x","elicitationId":"theirs"},{"mode":"form"}]}}`
)

// told is an event that an Upstream sent to a session, outside of its calls.
type told struct {
	session string
	event   mcp.Event
}

type clients chan told

func (c clients) HearLists(string, mcp.SessionLists) {}

func (c clients) Tell(_, session string, e mcp.Event) {
	e.Params = append(mcp.Raw(nil), e.Params...)
	c <- told{session, e}
}

// startTelling makes an Upstream for a fake in a bubble of synctest, and also returns the events for
// sessions.
func startTelling(t *testing.T, f *fake.Server, cfg upstream.Config) (*upstream.Upstream, chan told) {
	t.Helper()
	out := make(chan told, 10)
	cfg.Name, cfg.URL = "fake", f.URL
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return f.Network.DialContext(ctx, network, address)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	u, err := upstream.New(cfg, upstream.Deps{Log: slog.New(slog.DiscardHandler), HTTP: transport,
		Clients: clients(out)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fake.Close(t, u) })
	return u, out
}

func elicitationID(t *testing.T, params mcp.Raw) string {
	t.Helper()
	id, _ := params.Member("elicitationId")
	if id.Text() == "" || id.Text() == "theirs" {
		t.Fatalf("the id of %s is not ours", params)
	}
	return id.Text()
}

// answerTo makes the retry of a call with the same answer to all questions.
func answerTo(c *mcp.Call, ask *mcp.Ask, answer string) *mcp.Call {
	again := c.Clone()
	again.Round, again.Answers = ask.Round, map[string]mcp.Raw{}
	for _, q := range ask.Requests {
		again.Answers[q.Key] = mcp.Raw(answer)
	}
	return again
}

func TestTheUserIsDoneAtAURL(t *testing.T) { synctest.Test(t, testTheUserIsDoneAtAURL) }

func testTheUserIsDoneAtAURL(t *testing.T) {
	say := make(chan string)
	answered := make(chan struct{}, 1)
	f := fake.NewBubble(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		switch {
		case r.Method == http.MethodGet:
			fake.Events(w, ": hello\n\n")
			for {
				select {
				case text := <-say:
					fake.Events(w, text)
				case <-r.Context().Done():
					return true
				}
			}
		case m.Method == "" && m.ID != nil:
			answered <- struct{}{}
		case m.Method == mcp.MethodToolsCall:
			fake.Events(w, `data: {"jsonrpc":"2.0","id":"q",`+openPage+"}\n\n")
			<-answered
			if strings.Contains(string(m.Params), "early") {
				fake.Events(w, pageDone)
			}
			fake.Events(w, fake.Event(m, "", fake.OK))
			return true
		}
		return false
	})
	u, tell := startTelling(t, f, upstream.Config{})
	c := fake.Asked("a")
	ask := fake.MustDo(t, u, c).Ask
	if ask == nil {
		t.Fatal("no question")
	}
	id := elicitationID(t, ask.Requests[0].Params)
	if ask.Restart || !ask.Here || ask.Expires.IsZero() {
		t.Errorf("it is asked as %+v", ask)
	}
	fake.WantOK(t, u, answerTo(c, ask, `{"action":"accept"}`))

	say <- strings.Replace(pageDone, "theirs", "unknown", 1)
	say <- pageDone
	say <- pageDone
	synctest.Wait()
	got := <-tell
	if want := `{"elicitationId":"` + id + `"}`; got.session != c.Session ||
		got.event.Method != mcp.NoteElicitationComplete || string(got.event.Params) != want {
		t.Errorf("told %q %s %s, want %s", got.session, got.event.Method, got.event.Params, want)
	}
	select {
	case more := <-tell:
		t.Errorf("also told %s %s", more.event.Method, more.event.Params)
	default:
	}

	{ // during the call
		c := fake.Asked("early")
		c.Session = "user:other"
		heard := make(chan mcp.Event, 10)
		c.Notify = func(e mcp.Event) { heard <- e }
		ask := fake.MustDo(t, u, c).Ask
		other := elicitationID(t, ask.Requests[0].Params)
		if other == id {
			t.Error("two sessions have the same id for what one server calls the same")
		}
		fake.WantOK(t, u, answerTo(c, ask, `{"action":"accept"}`))
		if e := <-heard; e.Method != mcp.NoteElicitationComplete || !strings.Contains(string(e.Params), other) {
			t.Errorf("the call heard %s %s", e.Method, e.Params)
		}
		if len(tell) > 0 {
			t.Error("the session was told, too")
		}
	}
	{ // a client without a session
		c := fake.Asked("a")
		c.Session, c.Ephemeral = "user:~client", true
		fake.WantOK(t, u, answerTo(c, fake.MustDo(t, u, c).Ask, `{"action":"accept"}`))
		say <- pageDone // on one of the GET streams; nobody listens to the others
		synctest.Wait()
		select {
		case got := <-tell:
			if got.session == c.Session {
				t.Errorf("%s was told", got.session)
			}
		default:
		}
	}
}

func TestAURLIsRequired(t *testing.T) { synctest.Test(t, testAURLIsRequired) }

func testAURLIsRequired(t *testing.T) {
	done, calls := false, 0
	say := make(chan string)
	f := fake.NewBubble(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		switch {
		case r.Method == http.MethodGet:
			fake.Events(w, ": hello\n\n")
			select {
			case text := <-say:
				fake.Events(w, text)
			case <-r.Context().Done():
				return true
			}
			<-r.Context().Done()
			return true
		case m.Method == mcp.MethodToolsCall, m.Method == mcp.MethodPromptsGet:
			calls++
			if !done {
				fake.Failure(w, http.StatusOK, m, pageRequired)
				return true
			}
		}
		return false
	})
	u := f.Upstream(t, upstream.Config{})
	c := fake.Asked("a")
	ask := fake.MustDo(t, u, c).Ask
	if ask == nil || !ask.Restart || ask.Here || len(ask.Requests) != 1 || len(ask.Round) == 0 {
		t.Fatalf("asked %+v, want one question about a call that is to be made anew", ask)
	}
	params := ask.Requests[0].Params
	id := elicitationID(t, params)
	if want := `{"mode":"url","message":"fake asks: m","url":"https://a.example/x","elicitationId":"` + id +
		`"}`; string(params) != want {
		t.Errorf("params %s, want %s", params, want)
	}
	if u.Status().Parked != 0 {
		t.Error("a call is parked for it")
	}

	{ // the user is not done
		start := time.Now()
		again := fake.MustDo(t, u, answerTo(c, ask, `{"action":"accept"}`)).Ask
		if again == nil || again.Requests[0].Key != ask.Requests[0].Key || calls != 2 {
			t.Errorf("asked %+v after %d calls", again, calls)
		}
		if waited := time.Since(start); waited < 20*time.Second || waited > 21*time.Second {
			t.Errorf("it waited %s for the user", waited)
		}
		var last fake.Message
		for _, s := range f.Requests(mcp.MethodToolsCall) {
			last = s.Message
		}
		if strings.Contains(string(last.Params), "inputResponses") || strings.Contains(string(last.Params), "anew") {
			t.Errorf("it was made anew with %s", last.Params)
		}
	}
	{ // the user declines
		before := calls
		for _, no := range []string{`{"action":"decline"}`, `{"action":"cancel"}`} {
			result := fake.MustDo(t, u, answerTo(c, ask, no)).Result
			if failed, _ := result.Member("isError"); !failed.IsTrue() || strings.Contains(string(result), "a.example") {
				t.Errorf("the result is %s", result)
			}
		}
		refused := c.Clone()
		refused.Round, refused.Refused = ask.Round, map[string]*mcp.Error{ask.Requests[0].Key: mcp.Relayed(-1, "no", nil)}
		if reply := fake.MustDo(t, u, refused); reply.Result == nil {
			t.Errorf("the reply is %+v", reply)
		}
		if calls != before {
			t.Error("the call was made anew")
		}
	}
	{ // the user is done
		done = true
		start := time.Now()
		time.AfterFunc(3*time.Second, func() { say <- pageDone })
		fake.WantOK(t, u, answerTo(c, ask, `{"action":"accept"}`))
		if waited := time.Since(start); waited != 3*time.Second {
			t.Errorf("it went on after %s", waited)
		}
		fake.WantOK(t, u, answerTo(c, ask, `{"action":"accept"}`)) // at once
		done = false
	}
	{ // this client supports no URLs
		c := fake.Tool("a")
		c.Caps = mcp.Raw(`{"elicitation":{}}`)
		c.Session = "user:other"
		result := fake.MustDo(t, u, c).Result
		if failed, _ := result.Member("isError"); !failed.IsTrue() || strings.Contains(string(result), "a.example") ||
			strings.Contains(string(result), "go there") {
			t.Errorf("the result is %s", result)
		}
		c.Method = mcp.MethodPromptsGet
		_, err := fake.Do(t, u, c)
		if e := fake.WantError(t, err, mcp.CodeInternal, mcp.ExecutedUnknown); strings.Contains(string(e.Data), "a.example") {
			t.Errorf("the error shows %s", e.Data)
		}
		c.Ephemeral, c.Session = true, "user:~c"
		_, err = fake.Do(t, u, c)
		e, ok := err.(*mcp.Error)
		if !ok || e.Code != mcp.CodeMissingCapability ||
			string(e.Data) != `{"requiredCapabilities":{"elicitation":{"url":{}}}}` {
			t.Errorf("a stateless client gets %v", err)
		}
	}
}

func TestErrorsOfServers(t *testing.T) {
	for _, tt := range []struct{ name, method, said, want string }{
		{"the old code", mcp.MethodResourcesRead, `{"code":-32002,"message":"none","data":{"uri":"a:b"}}`,
			`-32602 none {"uri":"a:b"}`},
		{"the old code alone", mcp.MethodResourcesRead, `{"code":-32002,"message":"none"}`, `-32602 none {"uri":"x:y"}`},
		{"the old code of something else", mcp.MethodPromptsGet, `{"code":-32002,"message":"none"}`, `-32002 none `},
		{"a method that this server does not know", mcp.MethodToolsCall, `{"code":-32601,"message":"what?"}`,
			`-32601 what? {"upstream":"fake"}`},
		{"another code", mcp.MethodToolsCall, `{"code":7,"message":"m","data":[1]}`, `7 m [1]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
				if m.Method != tt.method {
					return false
				}
				fake.Failure(w, http.StatusOK, m, tt.said)
				return true
			})
			u := fake.Start(t, upstream.Config{URL: f.URL})
			c := fake.Tool("x:y")
			c.Method = tt.method
			_, err := fake.Do(t, u, c)
			e, ok := err.(*mcp.Error)
			if !ok || strings.TrimSpace(strings.Join([]string{string(mcp.Int(int64(e.Code))), e.Message, string(e.Data)},
				" ")) != strings.TrimSpace(tt.want) {
				t.Errorf("got %v %s, want %s", err, e.Data, tt.want)
			}
		})
	}
}
