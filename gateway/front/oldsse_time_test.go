package front

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// bubbleStream is a stream of HTTP+SSE in a bubble of synctest, without a network.
type bubbleStream struct {
	*recorder
	t      *testing.T
	f      *Front
	caller mcp.Caller
	cancel context.CancelFunc
	done   chan struct{}
	turn   chan struct{} // holds one token: taken to write, or to keep others from writing
}

// Write waits for its turn.
func (s *bubbleStream) Write(p []byte) (int, error) {
	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	return s.recorder.Write(p)
}

// openOld opens a stream; it plays the gateway's part of the routes.
func openOld(t *testing.T, f *Front, caller mcp.Caller) *bubbleStream {
	f.cfg.SSEPath = ssePath
	ctx, cancel := context.WithCancel(mcp.WithCaller(context.Background(), mcp.NewCaller(caller)))
	s := &bubbleStream{recorder: &recorder{header: make(http.Header)}, t: t, f: f, caller: caller, cancel: cancel,
		done: make(chan struct{}), turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	go func() {
		defer close(s.done)
		f.openOld(s, httptest.NewRequestWithContext(ctx, "GET", "http://localhost"+ssePath, nil))
	}()
	synctest.Wait()
	return s
}

// message is the POST of a message.
func (s *bubbleStream) message(body string) *http.Request {
	_, endpoint, _ := strings.Cut(s.String(), "data: ")
	endpoint, _, _ = strings.Cut(endpoint, "\n")
	r := httptest.NewRequest("POST", "http://localhost"+endpoint, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r.WithContext(mcp.WithCaller(r.Context(), mcp.NewCaller(s.caller)))
}

// post sends a message and returns the status.
func (s *bubbleStream) post(body string) int {
	w := httptest.NewRecorder()
	s.f.post(w, s.message(body), true)
	synctest.Wait()
	return w.Code
}

func (s *bubbleStream) begin() {
	s.t.Helper()
	s.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{"sampling":{}}}}`)
	if s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); !strings.Contains(s.settled(),
		`"id":0,"result"`) {
		s.t.Fatalf("no session: %s", s)
	}
}

// settled returns what was written once everything is quiet. It runs in a synctest bubble.
// Events of a burst wait a moment for each other.
func (s *bubbleStream) settled() string {
	time.Sleep(time.Second / 10)
	synctest.Wait()
	return s.String()
}

func (s *bubbleStream) over() bool {
	synctest.Wait()
	return closed(s.done)
}

const oldCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}`

// An idle stream gets comments, and its session is in use as long as it is open.
func TestOldKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, _ := bubbleFront(t, time.Minute)
		o := openOld(t, f, mcp.Caller{})
		defer o.cancel()
		o.begin()
		before := len(o.settled())
		time.Sleep(10*DefaultKeepAlive + time.Second)
		if text := o.settled()[before:]; text != strings.Repeat(": keep-alive\n\n", 10) {
			t.Errorf("while it is idle: %q", text)
		}
		s.waitListening(t, 1)
		if code := o.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"empty"}}`); code != 202 ||
			!strings.HasSuffix(o.settled(), `"id":1,"result":{}}`+"\n\n") {
			t.Errorf("status %d, and then %s", code, o)
		}
	})
}

func TestOldStreamWithoutASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, _ := bubbleFront(t, time.Hour)
		o := openOld(t, f, mcp.Caller{})
		defer o.cancel()
		time.Sleep(helloTime - time.Second)
		if o.over() {
			t.Fatal("it has ended too early")
		}
		time.Sleep(time.Second)
		if !o.over() || !strings.HasSuffix(o.String(), ": no session was begun in time\n\n") {
			t.Errorf("over %v: %q", o.over(), o)
		}
		if code := o.post(oldCall); code != 404 {
			t.Errorf("status %d", code)
		}
	})
	t.Run("not too many", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, _, _ := bubbleFront(t, time.Hour)
			for range 2 * maxSilent { // without authentication
				anybody := openOld(t, f, mcp.Caller{})
				defer anybody.cancel()
				if anybody.over() {
					t.Fatalf("without authentication: %s", anybody)
				}
			}
			ann := mcp.Caller{Subject: "ann"}
			first := openOld(t, f, ann)
			defer first.cancel()
			for range maxSilent - 1 {
				defer openOld(t, f, ann).cancel()
			}
			refused := openOld(t, f, ann)
			defer refused.cancel()
			if !refused.over() || refused.header.Get("Retry-After") == "" ||
				!strings.Contains(refused.String(), fmt.Sprint(mcp.CodeRateLimited)) {
				t.Errorf("one too many: over %v, %s", refused.over(), refused)
			}
			other := openOld(t, f, mcp.Caller{Subject: "bob"})
			defer other.cancel()
			if other.over() {
				t.Errorf("another user: %s", other)
			}
			first.begin()
			next := openOld(t, f, ann)
			defer next.cancel()
			if next.over() {
				t.Errorf("when a session has begun on one: %s", next)
			}
		})
	})
}

// A stream ends, with everything it has, when the token that opened it expires.
func TestOldStreamEndsWithTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, store := bubbleFront(t, time.Hour)
		o := openOld(t, f, goodFor(time.Hour))
		defer o.cancel()
		o.begin()
		o.post(oldCall)
		<-s.started
		time.Sleep(time.Hour - time.Minute)
		o.caller = goodFor(time.Hour) // the client has a new one, which does not postpone the stream's end
		if code := o.post(`{"jsonrpc":"2.0","id":2,"method":"ping"}`); code != 202 ||
			!strings.Contains(o.settled(), `"id":2`) {
			t.Errorf("status %d: %s", code, o)
		}
		notify := s.last(mcp.MethodListen).Notify
		time.Sleep(time.Minute)
		if !o.over() {
			t.Fatal("it has not ended")
		}
		text := o.String()
		// The cancelled call may still be answered, before the comment or after it.
		if !strings.Contains(text, expiredComment) || strings.Contains(text, `"id":1,"result"`) {
			t.Errorf("its end is %q", text[max(len(text)-1000, 0):])
		}
		if err := <-s.ended; err == nil {
			t.Error("the call was not cancelled")
		}
		notify(mcp.Event{Method: mcp.NoteToolsListChanged, Params: mcp.Raw(`{}`)})
		if time.Sleep(time.Minute); o.String() != text {
			t.Errorf("and then %q", o)
		}
		s.waitListening(t, 0)
		if _, id, _ := strings.Cut(s.last(mcp.MethodListen).Session, ":"); id == "" {
			t.Error("no session")
		} else if _, err := store.Homes().Use(t.Context(), home.Key{User: goodFor(0).User(), ID: id}); !errors.Is(err,
			session.ErrNotFound) {
			t.Errorf("the session is still there: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f, _, _ := bubbleFront(t, time.Hour)
		o := openOld(t, f, goodFor(time.Second))
		defer o.cancel()
		if time.Sleep(time.Second); !o.over() || !strings.HasSuffix(o.String(), expiredComment) {
			t.Errorf("without a session: over %v, %q", o.over(), o)
		}
	})
}

// When the gateway stops, running calls are answered before the stream ends.
func TestOldDrain(t *testing.T) {
	stop := func(f *Front, ctx context.Context) chan error {
		closed := make(chan error, 1)
		go func() { closed <- f.Close(ctx) }()
		synctest.Wait()
		return closed
	}
	synctest.Test(t, func(t *testing.T) {
		f, s, _ := bubbleFront(t, time.Hour)
		silent := openOld(t, f, mcp.Caller{})
		defer silent.cancel()
		o := openOld(t, f, mcp.Caller{})
		defer o.cancel()
		o.begin()
		o.post(oldCall)
		<-s.started
		stopped := stop(f, context.Background())
		if code := o.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"empty"}}`); code != 202 ||
			!strings.Contains(o.settled(), fmt.Sprintf(`"id":2,"error":{"code":%d`, mcp.CodeDraining)) {
			t.Errorf("a new call: status %d: %s", code, o)
		}
		late := openOld(t, f, mcp.Caller{})
		defer late.cancel()
		if !late.over() || !strings.Contains(late.String(), fmt.Sprint(mcp.CodeDraining)) {
			t.Errorf("a new stream: %s", late)
		}
		if time.Sleep(time.Hour / 2); o.over() {
			t.Fatal("the stream ended before the call")
		}
		s.release <- struct{}{}
		if err := <-stopped; err != nil || !o.over() || !silent.over() {
			t.Errorf("closed with %v, streams over: %v, %v", err, o.over(), silent.over())
		}
		if text := o.String(); !strings.Contains(text, `"id":1,"result"`) ||
			!strings.HasSuffix(text, ": the gateway is closing\n\n") {
			t.Errorf("the stream: %s", text)
		}
	})
	t.Run("out of patience", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, s, _ := bubbleFront(t, time.Hour)
			o := openOld(t, f, mcp.Caller{})
			defer o.cancel()
			o.begin()
			o.post(oldCall)
			<-s.started
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := <-stop(f, ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("closed with %v, want that a call was cut off", err)
			}
			if text := o.String(); !o.over() || !strings.Contains(text,
				fmt.Sprintf(`"id":1,"error":{"code":%d`, mcp.CodeDraining)) {
				t.Errorf("over %v: %s", o.over(), text)
			}
		})
	})
}

// A stream of a replica that gives its sessions up ends after its calls.
func TestOldLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, _ := bubbleFront(t, time.Hour)
		o, idle := openOld(t, f, mcp.Caller{}), openOld(t, f, mcp.Caller{})
		defer o.cancel()
		defer idle.cancel()
		o.begin()
		idle.begin()
		o.post(oldCall)
		<-s.started
		f.Drain(t.Context(), true)
		const why = ": the gateway is closing\n\n"
		if !idle.over() || !strings.HasSuffix(idle.String(), why) {
			t.Errorf("over %v: %s", idle.over(), idle)
		}
		if time.Sleep(time.Minute); o.over() {
			t.Fatal("the stream ended before its call")
		}
		s.release <- struct{}{}
		if !o.over() || !strings.Contains(o.String(), `"id":1,"result"`) || !strings.HasSuffix(o.String(), why) {
			t.Errorf("over %v: %s", o.over(), o)
		}
		s.waitListening(t, 0)
	})
}

// What a client may have under way is bounded, and so is what may be sent to it.
func TestOldBounds(t *testing.T) {
	t.Run("requests at a time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, s, _ := bubbleFront(t, time.Hour)
			s.started = make(chan *mcp.Call, maxAtOnce)
			o := openOld(t, f, mcp.Caller{})
			defer o.cancel()
			o.begin()
			for range maxAtOnce {
				o.post(oldCall)
			}
			const one = `{"jsonrpc":"2.0","id":"more","method":"tools/call","params":{"name":"empty"}}`
			o.post(one)
			if want := fmt.Sprintf(`"id":"more","error":{"code":%d`, mcp.CodeOverloaded); !strings.Contains(o.settled(), want) {
				t.Errorf("no %s in %s", want, o)
			}
			wantCount(t, "requests too many", f.Metrics.Bounds[refuse.BoundRequests], 1)
			s.release <- struct{}{}
			synctest.Wait()
			o.post(one)
			if want := `"id":"more","result"`; !strings.Contains(o.settled(), want) {
				t.Errorf("with room again: no %s", want)
			}
			o.cancel()
			<-o.done
			for range maxAtOnce {
				<-s.ended
			}
		})
	})
	t.Run("sessions of a user", func(t *testing.T) {
		b := newBench(t, Config{})
		for range 5 {
			b.oldSession(t, v2024, `{}`)
		}
		answer, err := b.old(t, nil).Begin(t.Context(), v2024, `{}`)
		if err != nil || answer.Error == nil || answer.Error.Code != mcp.CodeRateLimited {
			t.Errorf("one too many: %s %v", answer.Text, err)
		}
	})
	t.Run("a stream that nobody reads", func(t *testing.T) {
		b := newBench(t, Config{})
		b.front.Writer.Timeout = time.Second // plenty for those who read
		slow, other := b.oldSession(t, v2024, `{}`), b.oldSession(t, v2024, `{}`)
		for n := 0; ; n++ {
			// Answers of 1 MiB each.
			x, err := slow.Post(t.Context(),
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"large"}}`, n), nil)
			if err != nil {
				t.Fatal(err)
			}
			x.Close()
			if x.Status == 404 {
				break
			}
		}
		if answer := mustCall(t, other, "tools/call", `{"name":"empty"}`); answer.Error != nil {
			t.Errorf("another client: %s", answer.Text)
		}
	})
	t.Run("answers and questions wait for a client that reads late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, _, _ := bubbleFront(t, time.Hour)
			o := openOld(t, f, mcp.Caller{})
			defer o.cancel()
			o.begin()
			<-o.turn        // nothing is read from here on
			const calls = 5 // of 1 MiB each
			for n := range calls {
				go o.f.post(httptest.NewRecorder(),
					o.message(fmt.Sprintf(`{"jsonrpc":"2.0","id":"late-%d","method":"tools/call","params":{"name":"large"}}`, n)),
					true)
			}
			synctest.Wait()
			go o.f.post(httptest.NewRecorder(),
				o.message(`{"jsonrpc":"2.0","id":"asks","method":"tools/call","params":{"name":"ask-sampling"}}`), true)
			time.Sleep(time.Minute)
			o.turn <- struct{}{}
			text := o.settled()
			if !strings.Contains(text, mcp.MethodCreateMessage) {
				t.Error("a question got lost")
			}
			for n := range calls {
				if want := fmt.Sprintf(`"id":"late-%d","result"`, n); !strings.Contains(text, want) {
					t.Errorf("no %s", want)
				}
			}
		})
	})
	t.Run("events for which there was no room come later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, s, _ := bubbleFront(t, time.Hour)
			o := openOld(t, f, mcp.Caller{})
			defer o.cancel()
			o.begin()
			s.waitListening(t, 1)
			<-o.turn // nothing is read from here on
			for onlyOld(f).stream.Send("", make([]byte, stream.MaxUnsent)) {
				synctest.Wait()
			}
			for range 3 {
				s.emit(mcp.NoteToolsListChanged, `{}`)
			}
			o.turn <- struct{}{}
			if text := o.settled(); strings.Contains(text, mcp.NoteToolsListChanged) {
				t.Error("there was room")
			}
			time.Sleep(DefaultKeepAlive)
			if n := strings.Count(o.settled(), mcp.NoteToolsListChanged); n != 1 {
				t.Errorf("it came %d times", n)
			}
		})
	})
}
