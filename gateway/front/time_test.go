package front

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// recorder is a ResponseWriter that may be read while it is written.
type recorder struct {
	mu     sync.Mutex
	header http.Header
	sent   http.Header // as they were when the answer began
	text   strings.Builder
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) Flush()              {}

func (r *recorder) WriteHeader(int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = r.header.Clone()
}

func (r *recorder) began() http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// bubbleFront is a front without a network, for a bubble of synctest.
func bubbleFront(t *testing.T, idle time.Duration) (f *Front, s *script, store *session.Memory) {
	store, err := session.NewMemory(session.Config{IdleTimeout: idle}, session.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := seal.NewRandom("test")
	if err != nil {
		t.Fatal(err)
	}
	s = newScript()
	f, err = newFront(Config{}, Deps{Deps: exchange.Deps{Handler: s, Store: store, Seal: key}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(context.Background()); err != nil {
			t.Error(err)
		}
		store.Close()
	})
	return f, s, store
}

func serve(f *Front, method, body string, header http.Header) (w *recorder, cancel context.CancelFunc,
	done chan struct{}) {
	return serveTo(f, mcp.Caller{}, method, body, header)
}

// serveTo serves a request of a caller.
func serveTo(f *Front, caller mcp.Caller, method, body string, header http.Header) (w *recorder,
	cancel context.CancelFunc, done chan struct{}) {
	ctx, cancel := context.WithCancel(mcp.WithCaller(context.Background(), mcp.NewCaller(caller)))
	r := httptest.NewRequestWithContext(ctx, method, "http://localhost/", strings.NewReader(body))
	for name, values := range header {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", "application/json")
	w = &recorder{header: make(http.Header)}
	done = make(chan struct{})
	go func() {
		defer close(done)
		f.ServeHTTP(w, r)
	}()
	return w, cancel, done
}

// serveNow serves a POST of a caller that is answered at once.
func serveNow(f *Front, caller mcp.Caller, body string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "http://localhost/", strings.NewReader(body))
	r.Header = header.Clone()
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r.WithContext(mcp.WithCaller(r.Context(), mcp.NewCaller(caller))))
	return w
}

func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, _ := bubbleFront(t, time.Hour)
		w, cancel, done := serve(f, "POST", call("1", "slow"), modern("tools/call", "slow"))
		defer cancel()
		<-s.started
		time.Sleep(DefaultStreamAfter - time.Millisecond)
		synctest.Wait()
		if w.began() != nil {
			t.Error("it is a stream too early")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if w.began().Get("X-Accel-Buffering") != "no" || w.String() != ":\n\n" {
			t.Errorf("after five seconds: %v %q", w.began(), w)
		}
		time.Sleep(3 * DefaultKeepAlive)
		synctest.Wait()
		if n := strings.Count(w.String(), ": keep-alive\n\n"); n != 3 {
			t.Errorf("%d comments in three periods", n)
		}
		s.release <- struct{}{}
		<-done
		<-s.ended
		before := w.String()
		if !strings.HasSuffix(before, "}\n\n") {
			t.Errorf("the end is %q", before)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if w.String() != before {
			t.Error("something came after the response")
		}
	})
}

// Proxies count from the last byte, and so does the next comment.
func TestKeepAliveCountsFromTheLastEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, store := bubbleFront(t, time.Hour)
		record, err := store.Create(t.Context(), session.Record{User: mcp.Caller{}.User(), Revision: v2511,
			Initialized: true})
		if err != nil {
			t.Fatal(err)
		}
		w, cancel, done := serve(f, "GET", "", http.Header{wire.HeaderSession: {record.ID}})
		for range 3 {
			time.Sleep(DefaultKeepAlive - time.Second)
			f.Sessions.Tell(record.Key(), mcp.Event{Method: mcp.NoteToolsListChanged})
			synctest.Wait()
		}
		if strings.Contains(w.String(), "keep-alive") {
			t.Errorf("a stream in use has %q", w)
		}
		time.Sleep(DefaultKeepAlive)
		synctest.Wait()
		if !strings.HasSuffix(w.String(), ": keep-alive\n\n") {
			t.Errorf("%s after its last event it has %q", DefaultKeepAlive, w)
		}
		cancel()
		<-done
	})
}

func TestAnOpenStreamKeepsItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, store := bubbleFront(t, time.Minute)
		record, err := store.Create(t.Context(), session.Record{User: mcp.Caller{}.User(), Revision: v2511,
			Initialized: true})
		if err != nil {
			t.Fatal(err)
		}
		header := http.Header{wire.HeaderSession: {record.ID}}
		_, cancel, done := serve(f, "GET", "", header)
		time.Sleep(time.Hour)
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("the stream ended while its client was there")
		default:
		}
		cancel()
		<-done
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := len(s.listening); n != 0 {
			t.Errorf("%d listeners of an idle session", n)
		}
		w, cancel, done := serve(f, "POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, header)
		defer cancel()
		<-done
		if !strings.Contains(w.String(), `"id":null`) {
			t.Errorf("after its time: %s", w)
		}
	})
}

func TestACallEndsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, store := bubbleFront(t, time.Minute)
		record, err := store.Create(t.Context(), session.Record{User: mcp.Caller{}.User(), Revision: v2511})
		if err != nil {
			t.Fatal(err)
		}
		_, cancel, done := serve(f, "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}`,
			http.Header{wire.HeaderSession: {record.ID}, "Accept": {"application/json"}})
		<-s.started
		cancel() // the client goes
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		select {
		case <-s.ended:
			t.Fatal("the call ended with its client")
		default:
		}
		if err := store.Homes().Known(home.ParseKey(record.Key())).End(t.Context(), home.Ended); err != nil {
			t.Fatal(err)
		}
		<-done
		if err := <-s.ended; err == nil {
			t.Error("the call was not cancelled")
		}
	})
}

func TestSubscriptionThatIsNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, store := bubbleFront(t, time.Hour)
		record, err := store.Create(t.Context(), session.Record{User: mcp.Caller{}.User(), Revision: v2511,
			Initialized: true})
		if err != nil {
			t.Fatal(err)
		}
		f.endpoint.Handler = mcp.HandlerFunc(func(ctx context.Context, _ *mcp.Call) (*mcp.Reply, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		w, cancel, done := serve(f, "POST",
			`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"doc://1"}}`,
			http.Header{wire.HeaderSession: {record.ID}})
		defer cancel()
		<-done
		if !strings.Contains(w.String(), `50401`) {
			t.Errorf("got %s", w)
		}
		if r := session.Of(store.Homes().Known(home.ParseKey(record.Key()))); len(r.Subscriptions) != 0 {
			t.Errorf("the record has %v", r.Subscriptions)
		}
	})
}

func TestListenerTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, store := bubbleFront(t, time.Hour)
		record, err := store.Create(t.Context(), session.Record{User: mcp.Caller{}.User(), Revision: v2511,
			Initialized: true})
		if err != nil {
			t.Fatal(err)
		}
		begun, failing := make(chan time.Time, 10), true
		f.endpoint.Handler = mcp.HandlerFunc(func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
			if !failing { // the first time it fails before it begins
				c.Notify(mcp.Event{Method: mcp.NoteAcknowledged, Params: mcp.Raw(`{"notifications":{}}`)})
			}
			failing = false
			begun <- time.Now()
			return nil, io.ErrUnexpectedEOF
		})
		_, cancel, done := serve(f, "GET", "", http.Header{wire.HeaderSession: {record.ID}})
		first := <-begun
		for _, want := range []time.Duration{time.Second, 3 * time.Second, 7 * time.Second} {
			if got := (<-begun).Sub(first); got != want {
				t.Errorf("again after %s, want %s", got, want)
			}
		}
		cancel()
		<-done
	})
}

func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, store := bubbleFront(t, time.Hour)
		record, err := store.Create(t.Context(), session.Record{User: mcp.Caller{}.User(), Revision: v2511})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		w, cancel, done := serve(f, "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"patience"}}`,
			http.Header{wire.HeaderSession: {record.ID}})
		defer cancel()
		<-done
		if round := s.last("tools/call").Round; len(round) != 3 || time.Since(begun) != 3500*time.Millisecond ||
			!strings.Contains(w.String(), `"error"`) {
			t.Errorf("after %s and the round %s: %s", time.Since(begun), round, w)
		}
		w, cancel, done = serve(f, "POST", call("1", "patience"), modern("tools/call", "patience"))
		defer cancel()
		<-done
		if !strings.Contains(w.String(), `"requestState"`) || strings.Contains(w.String(), `"inputRequests"`) {
			t.Errorf("stateless: %s", w)
		}
	})
}

// A client may give up all its calls when it comes back for its stream and is refused, as the
// client of go-sdk does.
func TestGETStreamsLastAsLongAsCalls(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f, s, store := bubbleFront(t, time.Hour)
			record, err := store.Create(t.Context(), session.Record{User: mcp.Caller{}.User(), Revision: v2511})
			if err != nil {
				t.Fatal(err)
			}
			header := http.Header{wire.HeaderSession: {record.ID}}
			_, leave, streamed := serve(f, "GET", "", header)
			defer leave()
			synctest.Wait()
			w, cancel, answered := serve(f, "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}`,
				header)
			defer cancel()
			<-s.started
			ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
			defer stop()
			closed := make(chan error, 1)
			go func() { closed <- f.Close(ctx) }()
			time.Sleep(29 * time.Second)
			synctest.Wait()
			select {
			case <-streamed:
				t.Fatal("the stream ended while a call ran")
			default:
			}
			if !late {
				s.release <- struct{}{}
			}
			<-answered
			<-s.ended
			if got := strings.Contains(w.String(), `"result":{"content":[]}`); got == late {
				t.Errorf("the call that ran: %s", w)
			}
			<-streamed
			if err := <-closed; (err != nil) != late {
				t.Errorf("closed with %v", err)
			}
		})
	}
}
