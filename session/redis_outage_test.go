package session_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/faultproxy"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// A thousand clients begin sessions at the same time while Redis is slow. All of them succeed:
// a heavy load is not an outage.
func TestManyBeginAtOnce(t *testing.T) {
	proxy, err := faultproxy.Start(redistest.Start(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	s := newReplica(t, "redis://"+proxy.Addr(), session.Config{}, session.Deps{})
	proxy.Delay(4 * time.Millisecond)
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			if _, err := s.Create(t.Context(), session.Record{User: fmt.Sprint("user-", i), Revision: "r1"}); err != nil {
				t.Errorf("session %d: %v", i, err)
			}
		})
	}
	all.Wait()
}
