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

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// bubbleStream is a stream of HTTP+SSE in a bubble of synctest, without a network.
type bubbleStream struct {
	*recorder
	t      *testing.T
	f      *Front
	caller mcp.Caller
	cancel context.CancelFunc
	done   chan struct{}
}

// openOld opens a stream; it plays the gateway's part of the routes.
func openOld(t *testing.T, f *Front, caller mcp.Caller) *bubbleStream {
	f.cfg.SSEPath = ssePath
	ctx, cancel := context.WithCancel(mcp.WithCaller(context.Background(), mcp.NewCaller(caller)))
	s := &bubbleStream{recorder: &recorder{header: make(http.Header)}, t: t, f: f, caller: caller, cancel: cancel,
		done: make(chan struct{})}
	go func() {
		defer close(s.done)
		f.openSSE(s, httptest.NewRequestWithContext(ctx, "GET", "http://localhost"+ssePath, nil))
	}()
	synctest.Wait()
	return s
}

// post sends a message and returns the status.
func (s *bubbleStream) post(body string) int {
	_, endpoint, _ := strings.Cut(s.String(), "data: ")
	endpoint, _, _ = strings.Cut(endpoint, "\n")
	r := httptest.NewRequest("POST", "http://localhost"+endpoint, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.f.post(w, r.WithContext(mcp.WithCaller(r.Context(), mcp.NewCaller(s.caller))), true)
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
		b.front.endpoint.Writer.Timeout = time.Second // plenty for those who read
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
}
