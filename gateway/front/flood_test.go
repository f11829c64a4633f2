package front

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// progressBurst is how many progress events a client gets at once, of one call.
const progressBurst = 50

var reported = regexp.MustCompile(`"progress":(\d+)`)

// TestProgressIsCapped: a server that reports many thousands of steps at once costs its
// client only a few events, and the latest is always among them.
func TestProgressIsCapped(t *testing.T) {
	for revision, steps := range map[string]int{v2511: 1000, v2607: 250_000} {
		t.Run(revision, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, s, store := bubbleFront(t, time.Hour)
				h := modern("tools/call", "flood")
				body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"flood","arguments":{"steps":` +
					strconv.Itoa(steps) +
					`},"_meta":{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
				if revision == v2511 {
					_, h = expiring(t, store, revision, "{}")
					body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"flood","arguments":{"steps":` +
						strconv.Itoa(steps) + `},"_meta":{"progressToken":"p"}}}`
				}
				w, cancel, done := serveTo(f, goodFor(10*time.Hour), "POST", body, h)
				defer cancel()
				<-s.started
				told := func() (all []string) {
					for _, m := range reported.FindAllStringSubmatch(w.String(), -1) {
						all = append(all, m[1])
					}
					return all
				}
				time.Sleep(10 * time.Millisecond) // events of a progressBurst wait for each other
				synctest.Wait()
				if all := told(); len(all) != progressBurst || all[0] != "1" {
					t.Errorf("at once %d steps were told: %.100q", len(all), all)
				}
				time.Sleep(time.Second / 50)
				synctest.Wait()
				if all := told(); len(all) != progressBurst+1 || all[progressBurst] != fmt.Sprint(steps) {
					t.Errorf("then %d steps were told, the last %s, want the latest", len(all), all[len(all)-1])
				}
				time.Sleep(2 * time.Second)
				s.release <- struct{}{}
				<-done
				all := told()
				if len(all) != 2*progressBurst+2 || all[len(all)-1] != fmt.Sprint(steps+2*progressBurst) {
					t.Errorf("after a pause %d steps were told in all, the last %s, want the latest before the end", len(all),
						all[len(all)-1])
				}
				if text := w.String(); strings.LastIndex(text, `"progress":`) > strings.Index(text, `"result"`) {
					t.Error("progress came after the response")
				}
			})
		})
	}
}

// countingStore counts the writes to its event log.
type countingStore struct {
	session.Store
	writes *atomic.Int32
}

func (s countingStore) Log() session.EventLog { return countingLog{s.Store.Log(), s.writes} }

type countingLog struct {
	session.EventLog
	writes *atomic.Int32
}

func (l countingLog) Append(ctx context.Context, h *home.Home, stream string, data ...[]byte) (uint64, error) {
	l.writes.Add(1)
	return l.EventLog.Append(ctx, h, stream, data...)
}

func (l countingLog) Begin(ctx context.Context, h *home.Home, stream string, request []byte,
	data ...[]byte) (uint64, error) {
	l.writes.Add(1)
	return l.EventLog.Begin(ctx, h, stream, request, data...)
}

func (l countingLog) Finish(ctx context.Context, h *home.Home, stream string, data ...[]byte) (uint64, error) {
	l.writes.Add(1)
	return l.EventLog.Finish(ctx, h, stream, data...)
}

// TestBurstIsLoggedTogether: events that come at once share the writes to the event log, and their
// ids are in order.
func TestBurstIsLoggedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, store := bubbleFront(t, time.Hour)
		writes := new(atomic.Int32)
		f.endpoint.Store = countingStore{f.endpoint.Store, writes}
		_, h := expiring(t, store, v2511, "{}")
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":
			{"name":"flood","arguments":{"steps":20},"_meta":{"progressToken":"p"}}}`
		w, cancel, done := serveTo(f, goodFor(10*time.Hour), "POST", body, h)
		defer cancel()
		<-s.started
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if n := writes.Load(); n != 2 { // the first one at once, with the event that has only an id
			t.Errorf("20 events took %d writes", n)
		}
		s.release <- struct{}{}
		<-done
		if n := writes.Load(); n != 4 { // 306 events and the answer
			t.Errorf("in all %d writes", n)
		}
		ids := regexp.MustCompile(`(?m)^id: (\S+)`).FindAllStringSubmatch(w.String(), -1)
		for i, id := range ids {
			if at, ok := stream.ParseEventID(id[1]); !ok || at.Seq != uint64(i+1) {
				t.Errorf("event %d has the id %s", i+1, id[1])
			}
		}
		if want := 1 + 20 + session.LogEvents + progressBurst - 20 + 1 + 1; len(ids) != want {
			t.Errorf("the client got %d events, want %d", len(ids), want)
		}
	})
}

// fullStore has no room for events: whatever is appended leaves a gap.
type fullStore struct{ session.Store }

func (s fullStore) Log() session.EventLog { return fullLog{s.Store.Log()} }

type fullLog struct{ session.EventLog }

func (l fullLog) Read(ctx context.Context, h *home.Home, stream string, after uint64) ([]session.Event, bool,
	<-chan struct{}, error) {
	_, ended, more, err := l.EventLog.Read(ctx, h, stream, after)
	if err == nil {
		err = session.ErrGap
	}
	return nil, ended, more, err
}

// TestAwayForTooLong: a client that comes back for a call's answer is told what was
// dropped, even if that is the answer itself.
func TestAwayForTooLong(t *testing.T) {
	const notice = `"data":"messages of this stream were dropped`
	const dropped = `{"jsonrpc":"2.0","id":"mine","error":{"code":-32603,"message":"the answer to this request was dropped`
	away := func(t *testing.T, test func(f *Front, resume func(after time.Duration) string)) {
		synctest.Test(t, func(t *testing.T) {
			f, s, store := bubbleFront(t, 10*time.Hour)
			_, h := expiring(t, store, v2511, "{}")
			body := `{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{"name":"flood","arguments":{"steps":100},"_meta":{"progressToken":1}}}`
			w, leave, done := serveTo(f, goodFor(10*time.Hour), "POST", body, h)
			<-s.started
			time.Sleep(time.Minute)
			synctest.Wait()
			id, _, _ := strings.Cut(strings.TrimPrefix(w.String(), "id: "), "\n")
			leave()
			s.release <- struct{}{}
			<-done
			test(f, func(after time.Duration) string {
				time.Sleep(after)
				w, cancel, done := serveTo(f, goodFor(10*time.Hour), "GET", "", with(h, wire.HeaderLastEventID, id))
				time.Sleep(time.Minute)
				synctest.Wait()
				cancel()
				<-done
				return w.String()
			})
		})
	}
	t.Run("events", func(t *testing.T) {
		away(t, func(_ *Front, resume func(time.Duration) string) {
			got := resume(0)
			if !strings.Contains(got, notice) || strings.Contains(got, dropped) ||
				strings.Count(got, `"id":"mine","result"`) != 1 || strings.Contains(got, `"data":0}`) {
				t.Errorf("got %.2000q", got)
			}
		})
	})
	t.Run("the answer", func(t *testing.T) {
		away(t, func(f *Front, resume func(time.Duration) string) {
			f.endpoint.Store = fullStore{f.endpoint.Store}
			if got := resume(0); strings.Count(got, `{"jsonrpc":"2.0","id":"mine","error":`) != 1 ||
				!strings.Contains(got, `"executed":"unknown"`) {
				t.Errorf("got %.2000q", got)
			}
		})
	})
	t.Run("the stream", func(t *testing.T) {
		away(t, func(_ *Front, resume func(time.Duration) string) {
			got := resume(time.Hour)
			if strings.Count(got, dropped) != 1 || !strings.Contains(got, `"executed":"unknown"`) {
				t.Errorf("got %.2000q", got)
			}
			if !strings.Contains(got, "id: g-") {
				t.Errorf("it is no stream of its own then: %.2000q", got)
			}
		})
	})
}
