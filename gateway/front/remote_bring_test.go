package front

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// ways are how a call gets to another replica.
func ways(f *Front) map[string]func(context.Context, *mcp.Call) (*mcp.Reply, error) {
	return map[string]func(context.Context, *mcp.Call) (*mcp.Reply, error){
		"to go on":   elsewhere{f, "b"}.Handle,
		"at a place": func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) { return f.Forward(ctx, "b", "p", c) },
	}
}

// served are two fronts of which b serves the calls of a.
func served(t *testing.T, serve mcp.HandlerFunc) (fronts map[string]*Front, posts map[string]*post) {
	t.Helper()
	fronts, posts = replicaFronts(t, unexpected, serve)
	fronts["b"].direct = func(ctx context.Context, _ string, c *mcp.Call) (*mcp.Reply, error) { return serve(ctx, c) }
	return fronts, posts
}

// H/178: a call that is left while Redis fails ends where it runs as soon as Redis does not
// fail any more, and who leaves does not wait for that.
func TestDropBrought(t *testing.T) {
	for way := range ways(nil) {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan error, 1)
				fronts, posts := served(t, func(ctx context.Context, _ *mcp.Call) (*mcp.Reply, error) {
					<-ctx.Done()
					ended <- context.Cause(ctx)
					return nil, ctx.Err()
				})
				ctx, cancel := context.WithCancel(t.Context())
				left := make(chan error, 1)
				go func() {
					_, err := ways(fronts["a"])[way](ctx, &mcp.Call{Method: mcp.MethodToolsCall, Notify: func(mcp.Event) {}})
					left <- err
				}()
				synctest.Wait()
				posts["a"].fail(3)
				start := time.Now()
				cancel()
				if err := <-left; !errors.Is(err, context.Canceled) || time.Since(start) != 0 {
					t.Errorf("after %s: %v", time.Since(start), err)
				}
				if err := <-ended; !errors.Is(err, errCancelled) || time.Since(start) > 3*answerAgain {
					t.Errorf("H/178 after %s it ends with %v", time.Since(start), err)
				}
				time.Sleep(answerAgain)
				synctest.Wait()
				before := len(posts["a"].letters())
				time.Sleep(2 * answerTime)
				if after := len(posts["a"].letters()); after != before {
					t.Errorf("%d letters of what has come", after-before)
				}
			})
		})
	}
}

// What is to be let go is, though Redis fails at first.
func TestLetGoBrought(t *testing.T) {
	for way := range ways(nil) {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				released := make(chan error, 1)
				fronts, posts := served(t, func(ctx context.Context, _ *mcp.Call) (*mcp.Reply, error) {
					released <- ctx.Err()
					return nil, ctx.Err()
				})
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				posts["a"].fail(2)
				if _, err := ways(fronts["a"])[way](ctx, &mcp.Call{Method: mcp.MethodToolsCall, State: "s"}); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				select {
				case err := <-released:
					if err == nil {
						t.Error("it is made, not let go")
					}
				case <-time.After(answerTime):
					t.Error("it is not let go")
				}
			})
		})
	}
}

// H/178: the reply to a call comes though Redis fails when it is sent, and comes once.
func TestReplyBrought(t *testing.T) {
	for way := range ways(nil) {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var fronts map[string]*Front
				var posts map[string]*post
				made := 0
				fronts, posts = served(t, func(context.Context, *mcp.Call) (*mcp.Reply, error) {
					switch made++; made {
					case 1:
						posts["b"].fail(3)
					case 2:
						posts["a"].fail(1) // that the reply has come is lost: it comes again
					default:
						time.Sleep(2 * answerAgain) // so that it comes to who waits for this one
					}
					return result(`{"made":` + strconv.Itoa(made) + `}`), nil
				})
				call := &mcp.Call{ID: "a-1", Method: mcp.MethodToolsCall, Notify: func(mcp.Event) {}}
				for want := 1; want <= 3; want++ {
					start := time.Now()
					r, err := ways(fronts["a"])[way](t.Context(), call)
					if err != nil || string(r.Result) != `{"made":`+strconv.Itoa(want)+`}` || time.Since(start) > 3*answerAgain {
						t.Errorf("H/178 call %d after %s: %+v, %v", want, time.Since(start), r, err)
					}
					synctest.Wait()
				}
				before := len(posts["b"].letters())
				time.Sleep(2 * answerTime)
				if after := len(posts["b"].letters()); after != before {
					t.Errorf("%d letters of what has come", after-before)
				}
			})
		})
	}
}

// A reply that is under way when its replica has gone is waited for, a little.
func TestLastWords(t *testing.T) {
	for what, late := range map[string]time.Duration{"at once": 0, "soon": lastWords / 2, "too late": 2 * lastWords} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gone := make(chan struct{})
				p := &pending{events: make(chan letter, 1), reply: make(chan letter, 1)}
				close(gone)
				time.AfterFunc(late, func() { p.reply <- letter{Reply: &remoteReply{Result: []byte(`{}`)}} })
				start := time.Now()
				_, err := p.wait(t.Context(), &mcp.Call{}, gone)
				if took := time.Since(start); late > lastWords && (!errors.Is(err, errLost) || took != lastWords) || late < lastWords && (err != nil || took != late) {
					t.Errorf("after %s: %v", took, err)
				}
			})
		})
	}
}

// H/178: what a client says, such as that it cancels a call, is told to the other replicas
// although Redis fails at first, and once.
func TestAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fronts, posts := replicaFronts(t, unexpected, unexpected)
		heard := make(chan string, 10)
		fronts["b"].onRoots = func(session string) { heard <- session }
		posts["a"].fail(3)
		start := time.Now()
		fronts["a"].announce(t.Context(), letter{Kind: mailRoots, Session: "alice:1"})
		if waited := time.Since(start); waited != 0 {
			t.Errorf("who announces it waits for %s", waited)
		}
		if session := <-heard; session != "alice:1" || time.Since(start) > 3*answerAgain {
			t.Errorf("after %s: of %q", time.Since(start), session)
		}
		time.Sleep(2 * answerTime)
		if told := posts["a"].broadcasts(); told != 4 || len(heard) > 0 {
			t.Errorf("told %d times, and heard %d times more", told, len(heard))
		}
		posts["a"].fail(1000)
		fronts["a"].announce(t.Context(), letter{Kind: mailRoots, Session: "alice:1"})
		time.Sleep(2 * answerTime)
		synctest.Wait()
		if told := posts["a"].broadcasts() - 4; told < 5 || told > 12 {
			t.Errorf("told %d times while Redis does not come back", told)
		}
	})
}
