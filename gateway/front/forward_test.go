package front

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// TestGuests: a replica that stops gives up the home of a stateless client when nothing of the
// client is under way. A call that waits for an answer counts as running until the answer's own
// request does.
func TestGuests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const key = "u:~1"
		var l lifecycle
		s := guests{counted: &l, here: make(map[string]*guest)}
		enter := func(state string, leaving, counted, ok bool) {
			t.Helper()
			left := false
			var leave func()
			if leaving {
				leave = func() { left = true }
			}
			if found, got := s.enter(key, state, leave); got != ok || found.counts() != counted || left == ok && leaving {
				t.Errorf("enter with %q, leaving %t: %t, counted %t, left %t", state, leaving, got, found.counts(), left)
			}
		}
		count := func(want int64) {
			t.Helper()
			if got := l.Calls(); got != want {
				t.Errorf("%d count as running, want %d", got, want)
			}
		}
		l.begin() // for all the requests below
		enter("", true, false, false)
		enter("", false, false, true)
		enter("", true, false, true) // another one runs
		s.waits(key, "one", time.Hour)
		s.exit(key)
		s.exit(key)
		enter("two", true, false, true) // one waits for an answer
		s.exit(key)
		count(2)
		enter("one", true, true, true) // the answer comes
		enter("one", true, false, true)
		s.exit(key)
		s.waits(key, "two", time.Minute) // and asks again
		s.exit(key)
		count(3)
		l.done() // the request that was counted
		enter("", true, false, true)
		s.exit(key)
		time.Sleep(time.Minute + 1)
		count(1)
		enter("two", true, false, false) // too late
		s.waits(key, "one", time.Hour)   // without other replicas
		enter("", false, false, true)
		s.waits(key, "three", time.Hour)
		s.waits(key, "four", time.Hour)
		s.giveUp(key, "three")
		s.giveUp(key, "three")
		s.exit(key)
		if count(2); s.giveUpAll() != 1 || s.giveUpAll() != 0 {
			t.Error("not all were given up once")
		}
		l.done()
		count(0)
		leave := make(chan struct{})
		go s.enter(key, "", func() { <-leave })
		synctest.Wait()
		begun := false
		go func() {
			s.enter(key, "", nil)
			begun = true
		}()
		if synctest.Wait(); begun {
			t.Error("a request begins while its home is given up")
		}
		close(leave)
		if synctest.Wait(); !begun {
			t.Error("no request begins after its home was given up")
		}
		if s.exit(key); len(s.here) != 0 {
			t.Errorf("it holds %v", s.here)
		}
	})
}
