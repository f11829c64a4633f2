package stateful_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// A server that closes its stream at once, and asks for it back at once, gets it back a
// little later.
func TestGETStreamIsNotReopenedInALoop(t *testing.T) {
	synctest.Test(t, testGETStreamIsNotReopenedInALoop)
}

func testGETStreamIsNotReopenedInALoop(t *testing.T) {
	opened := make(chan time.Time, 3)
	f := fake.NewBubble(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, _ fake.Message) bool {
		if r.Method != http.MethodGet {
			return false
		}
		select {
		case opened <- time.Now():
			fake.Events(w, "id: e1\nretry: 1\ndata:\n\n")
		default:
			<-r.Context().Done()
		}
		return true
	})
	u := f.Upstream(t, upstream.Config{})
	fake.WantOK(t, u, fake.Asked("a"))
	f.Await(t, http.MethodGet, 3)
	last := <-opened
	for range 2 {
		next := <-opened
		if pause := next.Sub(last); pause < 100*time.Millisecond {
			t.Errorf("opened again after %s", pause)
		}
		last = next
	}
}

// A stream that ends at once is opened ever less often, but at once when a call needs it; one that
// lasted is opened again soon.
func TestGETStreamThatEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lives time.Duration
		f := fake.NewBubble(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, _ fake.Message) bool {
			if r.Method != http.MethodGet {
				return false
			}
			fake.Events(w, ": hello\n\n")
			select {
			case <-time.After(lives):
			case <-r.Context().Done():
			}
			return true
		})
		u := f.Upstream(t, upstream.Config{})
		opened := func(d time.Duration) int {
			before := len(f.Requests(http.MethodGet))
			time.Sleep(d)
			synctest.Wait()
			return len(f.Requests(http.MethodGet)) - before
		}
		fake.WantOK(t, u, fake.Asked("a"))
		opened(10 * time.Minute)
		if n := opened(10 * time.Minute); n < 5 || n > 15 {
			t.Errorf("opened %d times in ten minutes", n)
		}
		before := len(f.Requests(http.MethodGet))
		fake.WantOK(t, u, fake.Asked("a"))
		time.Sleep(time.Second) // if one has ended just now
		synctest.Wait()
		if n := len(f.Requests(http.MethodGet)) - before; n != 1 {
			t.Errorf("opened %d times for a call", n)
		}
		lives = 30 * time.Second
		opened(5 * time.Minute)
		if n := opened(10 * time.Minute); n < 18 {
			t.Errorf("opened %d times in ten minutes, though each lasted", n)
		}
	})
}

// Changes before a slow server had opened its stream were reported to nobody.
func TestGETStreamThatOpensLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fake.NewBubble(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, _ fake.Message) bool {
			if r.Method != http.MethodGet {
				return false
			}
			time.Sleep(time.Second)
			fake.Events(w, ": hello\n\n")
			<-r.Context().Done()
			return true
		})
		began := time.Now()
		end, got := fake.Listen(t, f.Upstream(t, upstream.Config{}), `{"toolsListChanged":true}`, "")
		if e := <-got; e.Method != mcp.NoteAcknowledged || time.Since(began) >= time.Second {
			t.Errorf("event %s after %s", e.Method, time.Since(began))
		}
		if e := <-got; e.Method != mcp.NoteToolsListChanged || time.Since(began) != time.Second {
			t.Errorf("event %s after %s", e.Method, time.Since(began))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(got) > 0 {
			t.Errorf("once more: %s", (<-got).Method)
		}
		end()
	})
}

// A caller that subscribes while the stream is being opened is answered when it is open,
// and has missed nothing.
func TestSubscribedWhileTheStreamOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 200 * time.Millisecond
		say := make(chan string, 1)
		u := subscribable(t, say, takes, nil)
		began := time.Now()
		end, first := fake.Listen(t, u, `{"toolsListChanged":true}`, "user:session")
		time.Sleep(takes / 2)
		endSecond, second := fake.Listen(t, u, `{"resourceSubscriptions":["a:b"]}`, "user:session")
		for _, got := range []chan mcp.Event{first, second} {
			if e := <-got; e.Method != mcp.NoteAcknowledged || time.Since(began) != takes {
				t.Errorf("%s after %s, want it after %s", e.Method, time.Since(began), takes)
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(first)+len(second) > 0 {
			t.Error("something was told that was not said")
		}
		say <- update
		if e := <-second; e.Method != mcp.NoteResourceUpdated {
			t.Errorf("told %s", e.Method)
		}
		end()
		endSecond()
	})
}

// A stream and an answer are two connections: an update may arrive first.
func TestUpdateBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		say := make(chan string, 1)
		u := subscribable(t, say, 0, func() {
			say <- update
			time.Sleep(time.Second)
		})
		end, got := fake.Listen(t, u, `{"resourceSubscriptions":["a:b"]}`, "user:session")
		for _, want := range []string{mcp.NoteAcknowledged, mcp.NoteResourceUpdated} {
			if e := <-got; e.Method != want {
				t.Errorf("told %s, want %s", e.Method, want)
			}
		}
		end()
	})
}

const update = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}`

// subscribable is a server whose stream takes a while to open and then sends what the test
// says. It calls subscribed before it answers a subscription.
func subscribable(t *testing.T, say <-chan string, takes time.Duration, subscribed func()) *fake.Upstream {
	return fake.NewBubble(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		switch {
		case r.Method == http.MethodGet:
			<-time.After(takes)
			fake.Events(w, ": hello\n\n")
			for {
				select {
				case text := <-say:
					fake.Events(w, "data: "+text+"\n\n")
				case <-r.Context().Done():
					return true
				}
			}
		case m.Method == mcp.MethodResourcesSubscribe && subscribed != nil:
			subscribed()
		}
		return false
	}).Upstream(t, upstream.Config{})
}

// Stored data must not share memory that is reused, nor keep a large buffer from being
// reused.
func TestOnlyWhatIsPassedOnIsReleased(t *testing.T) {
	f := fake.New(t, false, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
		switch m.Method {
		case mcp.MethodToolsList:
			fake.Result(w, m, `{"tools":[{"name":"a","inputSchema":{"type":"object"},"x":`+fake.LargeResult("l")+`}]}`)
		case mcp.MethodToolsCall:
			fake.Result(w, m, fake.LargeResult("c"))
		default:
			return false
		}
		return true
	})
	u := fake.Start(t, upstream.Config{URL: f.URL})
	list, err := fake.Do(t, u, &mcp.Call{Method: mcp.MethodToolsList, Notify: func(mcp.Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	if list.Release != nil {
		t.Error("a list is released")
	}
	reply, err := fake.Do(t, u, fake.Tool("a"))
	if err != nil {
		t.Fatal(err)
	}
	if string(reply.Result) != fake.LargeResult("c") {
		t.Error("not the result")
	}
}

// TestUpdatesOfOthers: listeners of one session get updates of their own subscriptions and
// of parts of these. An update of a resource that, by its URI, nobody subscribed to goes to
// all subscribers.
func TestUpdatesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		say := make(chan string, 1)
		u := subscribable(t, say, 0, nil)
		heard := map[string]chan mcp.Event{}
		for _, uris := range []string{`["a:b"]`, `["a:b/c","x:y/"]`, `["a:bc"]`, `[]`} {
			end, got := fake.Listen(t, u, `{"toolsListChanged":true,"resourceSubscriptions":`+uris+`}`, "user:session")
			defer end()
			<-got // it is acknowledged
			heard[uris] = got
		}
		for uri, want := range map[string]string{
			"a:b":      `["a:b"]`,
			"a:b/c":    `["a:b"] ["a:b/c","x:y/"]`,
			"a:b#part": `["a:b"]`,
			"a:bc":     `["a:bc"]`,
			"x:y/z":    `["a:b/c","x:y/"]`,
			"q:r":      `["a:b"] ["a:b/c","x:y/"] ["a:bc"]`,
		} {
			say <- `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + uri + `"}}`
			synctest.Wait()
			var got []string
			for uris, events := range heard {
				for len(events) > 0 {
					<-events
					got = append(got, uris)
				}
			}
			slices.Sort(got)
			if strings.Join(got, " ") != want {
				t.Errorf("%s is told to %v, want %s", uri, got, want)
			}
		}
	})
}

// A caller that subscribes to a resource that is just being unsubscribed does so
// afterwards: a server that saw the two in the other order would send no updates.
func TestSubscribedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan string, 10)
		f := fake.NewBubble(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			switch {
			case r.Method == http.MethodGet:
				fake.Events(w, ": hello\n\n")
				<-r.Context().Done()
				return true
			case m.Method == mcp.MethodResourcesUnsubscribe:
				time.Sleep(time.Second)
				fallthrough
			case m.Method == mcp.MethodResourcesSubscribe:
				asked <- m.Method
			}
			return false
		})
		u := f.Upstream(t, upstream.Config{})
		for range 2 {
			end, got := fake.Listen(t, u, `{"resourceSubscriptions":["a:b"]}`, "user:session")
			if e := <-got; e.Method != mcp.NoteAcknowledged {
				t.Errorf("told %s", e.Method)
			}
			end()
		}
		for i, want := range []string{mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe,
			mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe} {
			if got := <-asked; got != want {
				t.Errorf("request %d is %s, want %s", i, got, want)
			}
		}
	})
}

// An event that has come when its listener is cancelled is passed on: the listener that takes the
// place of this one may have begun after the event.
func TestListenerEndsWithItsEvents(t *testing.T) {
	for range 10 { // whichever of both is looked at first
		synctest.Test(t, func(t *testing.T) {
			subscribed, heard := make(chan struct{}, 2), make(chan struct{})
			f := fake.NewBubble(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
				if m.Method == mcp.MethodResourcesSubscribe {
					subscribed <- struct{}{}
				}
				if r.Method != http.MethodGet {
					return false
				}
				fake.Events(w, ": hello\n\n")
				<-subscribed
				<-subscribed
				for _, uri := range []string{"a:b", "a:c"} {
					if uri == "a:c" {
						<-heard
					}
					fake.Events(w, "data: "+`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"`+uri+
						`"}}`+"\n\n")
				}
				<-r.Context().Done()
				return true
			})
			u := f.Upstream(t, upstream.Config{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var updated []string
			_, err := u.Handle(ctx, &mcp.Call{
				Method: mcp.MethodListen, Session: "user:session",
				Params: mcp.Raw(`{"notifications":{"resourceSubscriptions":["a:b","a:c"]}}`),
				Notify: func(e mcp.Event) {
					if e.Method != mcp.NoteResourceUpdated {
						return
					}
					uri, _ := e.Params.Member("uri")
					if updated = append(updated, uri.Text()); len(updated) == 1 {
						close(heard)
						synctest.Wait() // the other update has come
						cancel()
					}
				},
			})
			if want := []string{"a:b", "a:c"}; !slices.Equal(updated, want) || err != context.Canceled {
				t.Errorf("got %q, %v; want %q", updated, err, want)
			}
		})
	}
}

// A server may ask on the GET stream before it begins the response to the call, and answer only
// after that, as JSON.
func TestQuestionBeforeTheResponse(t *testing.T) {
	const question = `{"jsonrpc":"2.0","id":"q",` + fake.Elicit + `}`
	begin := func(t *testing.T, cfg upstream.Config) (*fake.Server, *fake.Upstream, *mcp.Call, *mcp.Ask) {
		say := make(chan string, 1)
		answers := make(chan fake.Message, 1)
		f := fake.NewBubble(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			switch {
			case r.Method == http.MethodGet:
				fake.Events(w, ": hello\n\n")
				select {
				case text := <-say:
					fake.Events(w, "data: "+text+"\n\n")
				case <-r.Context().Done():
				}
				<-r.Context().Done()
				return true
			case m.Method == "" && string(m.ID) == `"q"`:
				answers <- m
			case m.Method == mcp.MethodToolsCall:
				say <- question
				select {
				case a := <-answers:
					fake.Result(w, m, string(mcp.Object("said", mcp.Raw(string(a.Result)+string(a.Error)))))
				case <-r.Context().Done():
				}
				return true
			}
			return false
		})
		u := f.Upstream(t, cfg)
		c := fake.Asked("a")
		ask := fake.MustDo(t, u, c).Ask
		if ask == nil || len(ask.Requests) != 1 {
			t.Fatalf("asks %+v, want one question", ask)
		}
		again := c.Clone()
		again.Round = ask.Round
		return f, u, again, ask
	}
	bubble := func(name string, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
	bubble("answered", func(t *testing.T) {
		_, u, again, ask := begin(t, upstream.Config{})
		<-time.After(time.Minute) // longer than a call may take
		again.Answers = map[string]mcp.Raw{ask.Requests[0].Key: mcp.Raw(`{"action":"decline"}`)}
		if reply := fake.MustDo(t, u, again); string(reply.Result) != `{"said":{"action":"decline"}}` {
			t.Errorf("reply %+v", reply)
		}
	})
	bubble("not answered", func(t *testing.T) {
		f, u, _, _ := begin(t, upstream.Config{Timeout: upstream.Timeout{Ask: fake.Patience / 2}})
		f.Await(t, mcp.NoteCancelled, 1)
		if got := f.AwaitAnswer(t, "q"); got != `{"action":"cancel"}` {
			t.Errorf("the server was answered %s", got)
		}
		if n := u.Status().Parked; n != 0 {
			t.Errorf("%d calls parked", n)
		}
	})
	bubble("its session ends", func(t *testing.T) {
		f, u, again, _ := begin(t, upstream.Config{})
		u.EndSession(again.Session, true)
		f.Await(t, mcp.NoteCancelled, 1)
		f.Await(t, http.MethodDelete, 1)
	})
}
