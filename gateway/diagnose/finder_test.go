package diagnose

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/recent"
)

// TestFindingsWhileRedisHangs: one looks for all, each waits no longer than they want to, and the
// next one looks when the first one has left.
func TestFindingsWhileRedisHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		store := make(chan struct{}) // answers when it is closed
		desk := NewFinder(func(ctx context.Context) Facts {
			looks++
			select {
			case <-store:
				return Facts{Series: recent.NewSeries(time.Now()), Stopping: true}
			case <-ctx.Done():
				return Facts{Series: recent.NewSeries(time.Now()), Store: "it does not answer"}
			}
		})
		ask := func(ctx context.Context) <-chan string {
			said := make(chan string, 1)
			go func() {
				all, err := desk.Findings(ctx)
				switch {
				case err != nil:
					said <- err.Error()
				default:
					said <- all[0].Kind
				}
			}()
			synctest.Wait()
			return said
		}
		expect := func(what string, said <-chan string, want string, wantLooks int) {
			t.Helper()
			synctest.Wait()
			select {
			case got := <-said:
				if got != want || looks != wantLooks {
					t.Errorf("%s gets %q after %d looks, want %q after %d", what, got, looks, want, wantLooks)
				}
			default:
				t.Errorf("%s still waits", what)
			}
		}
		leaves := func() (context.Context, func()) { return context.WithCancel(t.Context()) }
		one, oneLeaves := leaves()
		two, twoLeaves := leaves()
		first, second, third := ask(one), ask(two), ask(t.Context())
		twoLeaves()
		expect("who waits and leaves", second, "context canceled", 1)
		oneLeaves()
		expect("who looks and leaves", first, "context canceled", 2)
		fourth := ask(t.Context())
		time.Sleep(findingsTime)
		expect("who stays", third, "redis", 2)
		expect("who waits for others", fourth, "redis", 2)
		expect("who comes later", ask(t.Context()), "redis", 2)
		time.Sleep(findingsHold)
		close(store)
		expect("who comes when it answers", ask(t.Context()), "stopping", 3)
	})
}
