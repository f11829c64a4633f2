package upstream_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// Large results share memory one after the other, never at the same time.
func TestLargeResultsAreNotMixed(t *testing.T) {
	t.Parallel()
	for _, stateful := range []bool{false, true} {
		f := newFake(t, stateful, func(_ *fake, w http.ResponseWriter, _ *http.Request, m rpc) bool {
			if m.Method != mcp.MethodToolsCall {
				return false
			}
			name, _ := mcp.Raw(m.Params).Member("name")
			body := `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + largeResult(name.Text()) + `}`
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			_, _ = w.Write([]byte(body))
			return true
		})
		u := start(t, upstream.Config{URL: f.URL})
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b", "c", "d"} {
			wg.Go(func() {
				for range 20 {
					reply, err := do(t, u, tool(name))
					if err != nil {
						t.Error(err)
						return
					}
					if reply.Release == nil {
						t.Error("nothing gives the memory back")
						return
					}
					if string(reply.Result) != largeResult(name) {
						t.Errorf("%s got the result of another call", name)
					}
					reply.Release()
				}
			})
		}
		wg.Wait()
	}
}

func largeResult(name string) string {
	return `{"content":[{"type":"text","text":"` + strings.Repeat(name, 100<<10) + `"}]}`
}
