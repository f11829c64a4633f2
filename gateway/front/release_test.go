package front

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// The memory of a reply is read completely before it is given back, which happens once.
func TestReplyIsReleasedOnceItIsWritten(t *testing.T) {
	for _, tt := range []struct {
		name     string
		size     int
		progress bool
	}{
		{"small", 100, false}, {"large", 200 << 10, false}, {"on a stream", 200 << 10, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{})
			want := strings.Repeat("x", tt.size)
			released := 0
			b.front.endpoint.Handler = mcp.HandlerFunc(func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
				if tt.progress {
					c.Notify(progress("1"))
				}
				memory := mcp.Raw(`{"content":[{"type":"text","text":"` + want + `"}]}`)
				return &mcp.Reply{Result: memory, Release: func() {
					for i := range memory {
						memory[i] = '!'
					}
					released++
				}}, nil
			})
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":1,` +
				meta[len(`"_meta":{`):] + `}}`
			w := serveNow(b.front, mcp.Caller{}, body, modern("tools/call", "x"))
			got := w.Body.String()
			if !strings.Contains(got, `"text":"`+want+`"`) {
				t.Errorf("got %d bytes, not the result", len(got))
			}
			if stream := fmt.Sprint(w.Header()["Content-Type"]) == "[text/event-stream]"; stream != tt.progress {
				t.Errorf("on a stream: %v", stream)
			}
			if released != 1 {
				t.Errorf("released %d times", released)
			}
		})
	}
}
