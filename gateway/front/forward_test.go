package front

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// TestEndRelayed is about streams that break off on their way from another replica.
func TestEndRelayed(t *testing.T) {
	const event = "data: 1\n\n"
	for _, tt := range []struct {
		name, method, session, contentType, written string
		p                                           posted
		stops                                       bool
		want                                        string // what the client gets in addition, "-" for a broken connection
	}{
		{name: "a call without a session", written: event, p: posted{message: wire.Message{Kind: wire.Request, ID: mcp.Raw("7")}}, want: `"id":7,"error":{"code":50205`},
		{name: "before its first event", p: posted{message: wire.Message{Kind: wire.Request, ID: mcp.Raw("7")}}, want: `"id":7,"error":{"code":50205`},
		{name: "in the middle of an event", written: event + "data: 2\n", p: posted{message: wire.Message{Kind: wire.Request, ID: mcp.Raw("7")}}, want: "-"},
		{name: "a call in a session, which can be gone on with", session: "s", written: event, p: posted{message: wire.Message{Kind: wire.Request, ID: mcp.Raw("7")}}, want: "-"},
		{name: "an answer that is no stream", contentType: "application/json", written: "\n\n", p: posted{message: wire.Message{Kind: wire.Request, ID: mcp.Raw("7")}}, want: "-"},
		{name: "the stream of a session", method: "GET", session: "s", written: event, p: posted{}, want: "-"},
		{name: "the same, and this replica stops", method: "GET", session: "s", written: event, p: posted{}, stops: true, want: ""},
		{name: "a subscription, and this replica stops", written: event, p: posted{message: wire.Message{Kind: wire.Request, ID: mcp.Raw("7"), Method: mcp.MethodListen}}, stops: true, want: `"id":7,"result":{"resultType":"complete"`},
		{name: "a call, and this replica stops", written: event, p: posted{message: wire.Message{Kind: wire.Request, ID: mcp.Raw("7")}}, stops: true, want: `"id":7,"error":{"code":50205`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newBench(t, Config{}).front
			if tt.stops {
				f.Drain(t.Context(), false)
			}
			recorder := httptest.NewRecorder()
			tt.p.r = httptest.NewRequest(cmp.Or(tt.method, "POST"), "/mcp", nil)
			if tt.session != "" {
				tt.p.r.Header.Set(wire.HeaderSession, tt.session)
			}
			w := &relayed{ResponseWriter: recorder, rc: http.NewResponseController(recorder), writer: f.writer}
			w.Header().Set("Content-Type", "text/event-stream")
			if tt.contentType != "" {
				w.Header().Set("Content-Type", tt.contentType)
			}
			w.WriteHeader(http.StatusOK)
			if _, err := w.Write([]byte(tt.written)); err != nil {
				t.Fatal(err)
			}
			ended := f.endRelayed(&tt.p, w)
			added := strings.TrimPrefix(recorder.Body.String(), tt.written)
			if ended != (tt.want != "-") || ended && !strings.Contains(added, tt.want) || tt.want == "" && added != "" || !ended && added != "" {
				t.Errorf("ended %t, added %q; want %q", ended, added, tt.want)
			}
		})
	}
}

// TestEndRelayedOfKnownLength: the end takes the place of an answer whose length was announced.
func TestEndRelayedOfKnownLength(t *testing.T) {
	f := newBench(t, Config{}).front
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := &relayed{ResponseWriter: rw, rc: http.NewResponseController(rw), writer: f.writer}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Length", "2000")
		w.WriteHeader(http.StatusOK)
		if !f.endRelayed(&posted{r: r, message: wire.Message{Kind: wire.Request, ID: mcp.Raw("7")}}, w) {
			t.Error("it was not ended")
		}
	}))
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), `"id":7,"error"`) {
		t.Errorf("%s %v", text, err)
	}
}

// TestRelayedLate: an answer without a body reaches the client also after the server's own deadline.
func TestRelayedLate(t *testing.T) {
	f := newBench(t, Config{}).front
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		w := &relayed{ResponseWriter: rw, rc: http.NewResponseController(rw), writer: f.writer}
		if err := w.rc.SetWriteDeadline(time.Unix(1, 0)); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusAccepted {
		t.Error(resp.Status)
	}
}

// TestWaiting: a replica that stops gives up the home of a client without a session when nothing of
// the client is under way. A call that waits for an answer counts as running until the answer's own
// request does.
func TestWaiting(t *testing.T) {
	a := replicas(t, 1)[0]
	ctx, key := soon(t), home.Key{User: "u", ID: home.Derived("1")}
	use := func() *home.Home {
		t.Helper()
		h, err := a.front.homes().Use(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	count := func(want int64) {
		t.Helper()
		if got := a.front.Calls(); got != want {
			t.Errorf("%d count as running, want %d", got, want)
		}
	}
	s := &a.front.waiting
	called := func(round string) waitingKey { return waitingKey{key.String(), round} }
	h := use()
	a.front.begin()
	s.add(h, called("one"), time.Hour)
	h.Done()
	a.front.done()
	count(1)
	if h = use(); h.Release() {
		t.Error("a home is given up while a call waits for an answer")
	}
	w := s.take(called("one")) // the answer comes
	if w == nil || w.lost || s.take(called("one")) != nil {
		t.Fatalf("the call that waited: %v", w)
	}
	s.add(w.home, called("two"), time.Hour) // and asks again
	count(2)
	w.home.Done()
	a.front.done()
	s.add(h, called("three"), time.Nanosecond)
	for a.front.Calls() > 1 {
		runtime.Gosched()
	}
	if s.add(h, called("four"), time.Hour); !s.drop(called("four")) || s.drop(called("four")) {
		t.Error("a wait was not ended once")
	}
	count(1)
	h.EndLater(home.Moved)
	<-h.Over()
	for a.front.Calls() > 0 {
		runtime.Gosched()
	}
	if w = s.take(called("two")); w == nil || !w.lost {
		t.Errorf("the call that waited when its home was taken over: %v", w)
	}
	h = use()
	s.add(h, called("five"), time.Hour)
	if s.dropAll() != 1 || s.dropAll() != 0 {
		t.Error("not all waits were ended once")
	}
	if count(0); !h.Release() {
		t.Error("a home for which nothing is under way is not given up")
	}
}
