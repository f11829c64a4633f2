package sse2024

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

const (
	slowCall       = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}`
	expiredComment = ": the access token has expired, or was withdrawn\n\n"
)

func goodFor(d time.Duration) mcp.Caller {
	return mcp.Caller{Subject: "ann", ClientID: "app", Expires: time.Now().Add(d)}
}

// An idle stream gets comments, and its session is in use as long as it is open.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		s := b.server
		o := b.open(t, mcp.Caller{})
		defer o.cancel()
		o.begin()
		before := len(o.settled())
		time.Sleep(10*keepAlive + time.Second)
		if text := o.settled()[before:]; text != strings.Repeat(": keep-alive\n\n", 10) {
			t.Errorf("while it is idle: %q", text)
		}
		if _, runs := s.listening(); !runs {
			t.Error("the session listens no more")
		}
		if code := o.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"empty"}}`); code != 202 ||
			!strings.HasSuffix(o.settled(), `"id":1,"result":{}}`+"\n\n") {
			t.Errorf("status %d, and then %s", code, o)
		}
	})
}

func TestStreamWithoutASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		o := b.open(t, mcp.Caller{})
		defer o.cancel()
		time.Sleep(helloTime - time.Second)
		if o.over() {
			t.Fatal("it has ended too early")
		}
		time.Sleep(time.Second)
		if !o.over() || !strings.HasSuffix(o.String(), ": no session was begun in time\n\n") {
			t.Errorf("over %v: %q", o.over(), o)
		}
		if code := o.post(slowCall); code != 404 {
			t.Errorf("status %d", code)
		}
	})
	t.Run("not too many", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			for range 2 * MaxSilent { // without authentication
				anybody := b.open(t, mcp.Caller{})
				defer anybody.cancel()
				if anybody.over() {
					t.Fatalf("without authentication: %s", anybody)
				}
			}
			ann := mcp.Caller{Subject: "ann"}
			first := b.open(t, ann)
			defer first.cancel()
			for range MaxSilent - 1 {
				defer b.open(t, ann).cancel()
			}
			refused := b.open(t, ann)
			defer refused.cancel()
			if !refused.over() || refused.header.Get("Retry-After") == "" ||
				!strings.Contains(refused.String(), fmt.Sprint(mcp.CodeRateLimited)) {
				t.Errorf("one too many: over %v, %s", refused.over(), refused)
			}
			other := b.open(t, mcp.Caller{Subject: "bob"})
			defer other.cancel()
			if other.over() {
				t.Errorf("another user: %s", other)
			}
			first.begin()
			next := b.open(t, ann)
			defer next.cancel()
			if next.over() {
				t.Errorf("when a session has begun on one: %s", next)
			}
		})
	})
}

// A stream ends, with everything it has, when the token that opened it expires.
func TestStreamEndsWithTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		s := b.server
		o := b.open(t, goodFor(time.Hour))
		defer o.cancel()
		o.begin()
		o.post(slowCall)
		<-s.started
		time.Sleep(time.Hour - time.Minute)
		o.caller = mcp.NewCaller(goodFor(time.Hour)) // the client has a new one, which does not postpone the stream's end
		if code := o.post(`{"jsonrpc":"2.0","id":2,"method":"ping"}`); code != 202 ||
			!strings.Contains(o.settled(), `"id":2`) {
			t.Errorf("status %d: %s", code, o)
		}
		listening, _ := s.listening()
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
		listening.Notify(mcp.Event{Method: mcp.NoteToolsListChanged, Params: mcp.Raw(`{}`)})
		if time.Sleep(time.Minute); o.String() != text {
			t.Errorf("and then %q", o)
		}
		if _, runs := s.listening(); runs {
			t.Error("it listens")
		}
		if _, err := b.Store.Homes().Use(t.Context(), home.ParseKey(listening.Session)); !errors.Is(err,
			session.ErrNotFound) {
			t.Errorf("the session is still there: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		o := b.open(t, goodFor(time.Second))
		defer o.cancel()
		if time.Sleep(time.Second); !o.over() || !strings.HasSuffix(o.String(), expiredComment) {
			t.Errorf("without a session: over %v, %q", o.over(), o)
		}
	})
}

// What a client may have under way is bounded, and so is what may be sent to it.
func TestBounds(t *testing.T) {
	t.Run("requests at a time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			s := b.server
			o := b.open(t, mcp.Caller{})
			defer o.cancel()
			o.begin()
			for range MaxAtOnce {
				o.post(slowCall)
			}
			const one = `{"jsonrpc":"2.0","id":"more","method":"tools/call","params":{"name":"empty"}}`
			o.post(one)
			if want := fmt.Sprintf(`"id":"more","error":{"code":%d`, mcp.CodeOverloaded); !strings.Contains(o.settled(), want) {
				t.Errorf("no %s in %s", want, o)
			}
			var counted dto.Metric
			err := b.Metrics.Bounds[refuse.BoundRequests].Write(&counted)
			if err != nil || counted.GetCounter().GetValue() != 1 {
				t.Errorf("requests too many: %v, %v", &counted, err)
			}
			s.release <- struct{}{}
			synctest.Wait()
			o.post(one)
			if want := `"id":"more","result"`; !strings.Contains(o.settled(), want) {
				t.Errorf("with room again: no %s", want)
			}
			o.cancel()
			<-o.done
			for range MaxAtOnce {
				<-s.ended
			}
		})
	})
	t.Run("answers and questions wait for a client that reads late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			o := b.open(t, mcp.Caller{})
			defer o.cancel()
			o.begin()
			<-o.turn        // nothing is read from here on
			const calls = 5 // of 1 MiB each
			for n := range calls {
				go o.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":"late-%d","method":"tools/call","params":{"name":"large"}}`, n))
			}
			synctest.Wait()
			go o.post(`{"jsonrpc":"2.0","id":"asks","method":"tools/call","params":{"name":"ask"}}`)
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
			b := newBench(t)
			s := b.server
			o := b.open(t, mcp.Caller{})
			defer o.cancel()
			o.begin()
			listening, _ := s.listening()
			<-o.turn // nothing is read from here on
			b.streams.mu.Lock()
			only := slices.Collect(maps.Values(b.streams.open))[0]
			b.streams.mu.Unlock()
			for only.stream.Send("", make([]byte, stream.MaxUnsent)) {
				synctest.Wait()
			}
			for range 3 {
				listening.Notify(mcp.Event{Method: mcp.NoteToolsListChanged, Params: mcp.Raw(`{}`)})
			}
			o.turn <- struct{}{}
			if text := o.settled(); strings.Contains(text, mcp.NoteToolsListChanged) {
				t.Error("there was room")
			}
			time.Sleep(keepAlive)
			if n := strings.Count(o.settled(), mcp.NoteToolsListChanged); n != 1 {
				t.Errorf("it came %d times", n)
			}
		})
	})
}
