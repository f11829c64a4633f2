package streamable_test

import (
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// Large results share memory one after the other, never at the same time.
func TestLargeResultsAreNotMixed(t *testing.T) {
	t.Parallel()
	for _, stateful := range []bool{false, true} {
		f := fake.New(t, stateful, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			if m.Method != mcp.MethodToolsCall {
				return false
			}
			name, _ := mcp.Raw(m.Params).Member("name")
			body := `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + fake.LargeResult(name.Text()) + `}`
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			_, _ = w.Write([]byte(body))
			return true
		})
		u := fake.Start(t, upstream.Config{URL: f.URL})
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b", "c", "d"} {
			wg.Go(func() {
				for range 20 {
					reply, err := fake.Do(t, u, fake.Tool(name))
					if err != nil {
						t.Error(err)
						return
					}
					if reply.Release == nil {
						t.Error("nothing gives the memory back")
						return
					}
					if string(reply.Result) != fake.LargeResult(name) {
						t.Errorf("%s got the result of another call", name)
					}
					reply.Release()
				}
			})
		}
		wg.Wait()
	}
}
