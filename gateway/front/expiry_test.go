package front

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// goodFor is a caller whose token is valid for this long.
func goodFor(d time.Duration) mcp.Caller {
	return mcp.Caller{Subject: "ann", ClientID: "app", Expires: time.Now().Add(d)}
}

// expiring returns a session of that caller, and headers that name it.
func expiring(t *testing.T, store *session.Memory, revision, caps string) (session.Record, http.Header) {
	t.Helper()
	record, err := store.Create(t.Context(), session.Record{User: goodFor(0).User(), Client: "app", Revision: revision,
		Caps: mcp.Raw(caps), Initialized: true})
	if err != nil {
		t.Fatal(err)
	}
	return record, http.Header{wire.HeaderSession: {record.ID}}
}

func over(done <-chan struct{}) bool {
	synctest.Wait()
	return closed(done)
}

const (
	expiredComment = ": the access token has expired, or was withdrawn\n\n"
	changed        = `"method":"notifications/tools/list_changed"`
)

func TestListenEndsWithTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, _ := bubbleFront(t, time.Hour)
		body := `{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + meta + `}}`
		w, cancel, done := serveTo(f, goodFor(time.Hour), "POST", body, modern("subscriptions/listen", ""))
		defer cancel()
		time.Sleep(time.Hour - 2*time.Second)
		s.emit(mcp.NoteToolsListChanged, `{}`)
		time.Sleep(time.Second)
		if over(done) || !strings.Contains(w.String(), changed) {
			t.Fatalf("it ended too early, or nothing came: %q", w)
		}
		notify := s.last(mcp.MethodListen).Notify
		time.Sleep(time.Second)
		if !over(done) {
			t.Fatal("it has not ended")
		}
		const end = `data: {"jsonrpc":"2.0","id":"sub","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":` +
			`{"name":"","version":""},"io.modelcontextprotocol/subscriptionId":"sub"}}}` + "\n\n"
		text := w.String()
		if !strings.HasSuffix(text, end) {
			t.Errorf("the end is %q", text)
		}
		notify(mcp.Event{Method: mcp.NoteToolsListChanged, Params: mcp.Raw(`{}`)})
		if time.Sleep(time.Minute); w.String() != text {
			t.Errorf("and then %q", w)
		}
		s.waitListening(t, 0)
	})
}

func TestNothingIsSaidWhileListeningEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, _ := bubbleFront(t, time.Hour)
		f.endpoint.Handler = mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
			<-ctx.Done()
			c.Notify(mcp.Event{Method: mcp.NoteToolsListChanged, Params: mcp.Raw(`{}`)})
			time.Sleep(time.Second)
			return nil, ctx.Err()
		})
		body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + meta + `}}`
		w, cancel, done := serveTo(f, goodFor(time.Minute), "POST", body, modern("subscriptions/listen", ""))
		defer cancel()
		<-done
		if strings.Contains(w.String(), changed) || !strings.Contains(w.String(), `"resultType":"complete"`) {
			t.Errorf("got %q", w)
		}
	})
}

func TestGetEndsWithTheToken(t *testing.T) {
	for _, revision := range []string{v2503, v2506, v2511} {
		t.Run(revision, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, s, store := bubbleFront(t, 2*time.Hour)
				_, h := expiring(t, store, revision, "{}")
				w, cancel, done := serveTo(f, goodFor(time.Hour), "GET", "", h)
				defer cancel()
				time.Sleep(time.Hour - 2*time.Second)
				s.emit(mcp.NoteToolsListChanged, `{}`)
				time.Sleep(time.Second)
				if over(done) || !strings.Contains(w.String(), changed) {
					t.Fatalf("it ended too early, or nothing came: %q", w)
				}
				time.Sleep(time.Second)
				if !over(done) {
					t.Fatal("it has not ended")
				}
				if text := w.String(); !strings.HasSuffix(text, expiredComment+"retry: 1000\n\n") {
					t.Errorf("the end is %q", text)
				}
				s.waitListening(t, 0)

				// With a new token it continues. What came in the meantime is unknown.
				again, cancel, _ := serveTo(f, goodFor(time.Hour), "GET", "", h)
				defer cancel()
				time.Sleep(time.Second)
				synctest.Wait()
				s.waitListening(t, 1)
				if n := strings.Count(again.String(), changed); n != 1 {
					t.Errorf("%d changes are told: %q", n, again)
				}
				time.Sleep(time.Minute)
				s.emit(mcp.NoteToolsListChanged, `{}`)
				synctest.Wait()
				if n := strings.Count(again.String(), changed); n != 2 {
					t.Errorf("%d changes are told: %q", n, again)
				}
			})
		})
	}
}

func TestWithoutExpiryNothingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, store := bubbleFront(t, time.Hour)
		_, h := expiring(t, store, v2511, "{}")
		caller := goodFor(0)
		caller.Expires = time.Time{}
		_, cancel, done := serveTo(f, caller, "GET", "", h)
		defer cancel()
		time.Sleep(10 * time.Hour)
		if over(done) {
			t.Error("it has ended")
		}
		s.waitListening(t, 1)
	})
}

// A client that has got a new token in the meantime misses nothing: its next stream delivers
// what came.
func TestANewerTokenKeepsListening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, store := bubbleFront(t, 10*time.Hour)
		_, h := expiring(t, store, v2511, "{}")
		f.endpoint.Handler = mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
			if got, _ := mcp.CallerFrom(ctx); !got.Expires.Equal(c.Caller.Expires) {
				t.Errorf("%s: the context's caller is %+v, the call's %+v", c.Method, got, c.Caller)
			}
			return s.Handle(ctx, c)
		})
		_, cancel, done := serveTo(f, goodFor(time.Hour), "GET", "", h)
		defer cancel()
		time.Sleep(30 * time.Minute)
		newer := goodFor(time.Hour)
		newer.Groups = []string{"newer"}
		if w := serveNow(f, newer, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"empty"}}`,
			h); w.Code != 200 {
			t.Fatalf("status %d", w.Code)
		}
		time.Sleep(30 * time.Minute)
		if !over(done) {
			t.Fatal("it has not ended")
		}
		s.waitListening(t, 1)
		if got := s.last(mcp.MethodListen).Caller; len(got.Groups) != 1 {
			t.Errorf("it listens as %+v", got)
		}
		s.emit(mcp.NoteResourcesListChanged, `{}`)
		w, cancel, _ := serveTo(f, newer, "GET", "", h)
		defer cancel()
		time.Sleep(time.Second)
		synctest.Wait()
		if !strings.Contains(w.String(), mcp.NoteResourcesListChanged) {
			t.Errorf("got %q", w)
		}
		// An older token that comes late changes nothing.
		for _, caller := range []mcp.Caller{goodFor(time.Hour), goodFor(time.Minute)} {
			serveNow(f, caller, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"empty"}}`, h)
		}
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		s.waitListening(t, 1)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		s.waitListening(t, 0)
	})
}

func TestRunningCallsComplete(t *testing.T) {
	bodies := map[string]string{v2607: call("1", "slow"),
		v2511: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}`}
	for revision, body := range bodies {
		t.Run(revision, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, s, store := bubbleFront(t, 10*time.Hour)
				h := modern("tools/call", "slow")
				if revision == v2511 {
					_, h = expiring(t, store, revision, "{}")
				}
				w, cancel, done := serveTo(f, goodFor(time.Minute), "POST", body, h)
				defer cancel()
				<-s.started
				time.Sleep(time.Hour)
				if over(done) {
					t.Fatal("it has ended")
				}
				s.release <- struct{}{}
				<-done
				<-s.ended
				if !strings.Contains(w.String(), `"id":1,"result"`) {
					t.Errorf("got %q", w)
				}
			})
		})
	}
}

func TestResumedStreamsEndWithTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, store := bubbleFront(t, 10*time.Hour)
		_, h := expiring(t, store, v2511, "{}")
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":1}}}`
		w, cancel, posted := serveTo(f, goodFor(24*time.Hour), "POST", body, h)
		defer cancel()
		<-s.started
		time.Sleep(time.Minute)
		synctest.Wait()
		id, _, _ := strings.Cut(strings.TrimPrefix(w.String(), "id: "), "\n")
		resume := with(h, wire.HeaderLastEventID, id)
		first, cancel, done := serveTo(f, goodFor(time.Hour), "GET", "", resume)
		defer cancel()
		if over(done) {
			t.Fatalf("it cannot be resumed after %q: %q", id, first)
		}
		time.Sleep(time.Hour)
		if !over(done) || !strings.HasSuffix(first.String(), expiredComment+"retry: 1000\n\n") {
			t.Errorf("the end is %q", first)
		}
		s.release <- struct{}{}
		<-s.ended
		<-posted
		if strings.Contains(first.String(), `"result"`) {
			t.Error("the result was delivered all the same")
		}
		second, cancel, done := serveTo(f, goodFor(time.Hour), "GET", "", resume)
		defer cancel()
		if !over(done) || !strings.Contains(second.String(), `"id":1,"result"`) {
			t.Errorf("with a new token: %q", second)
		}
	})
}

func TestNoFurtherRoundAfterTheToken(t *testing.T) {
	for _, tool := range []string{"ask", "ask-here", "patience"} {
		t.Run(tool, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, s, store := bubbleFront(t, 10*time.Hour)
				_, h := expiring(t, store, v2511, `{"elicitation":{}}`)
				caller := goodFor(100 * time.Millisecond)
				body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `"}}`
				w, cancel, done := serveTo(f, caller, "POST", body, h)
				defer cancel()
				<-done
				if !strings.Contains(w.String(), `"code":-32600`) || !strings.Contains(w.String(), "has expired") ||
					!strings.Contains(w.String(), `"executed":"unknown"`) {
					t.Errorf("got %q", w)
				}
				rounds := 0
				for _, c := range s.calls {
					if c.Method == mcp.MethodToolsCall {
						rounds++
					}
				}
				if rounds != 1 || (len(s.dropped) == 1) != (tool == "ask-here") {
					t.Errorf("%d rounds, %d questions were dropped", rounds, len(s.dropped))
				}
			})
		})
	}
}
