package exchange

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/request"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// The text of an error depends on whether a stream has begun, which may happen at any moment
// until the answer itself.
func TestWhileAStreamBegins(t *testing.T) {
	e := newEndpoint(t)
	for name, end := range map[string]func(*Exchange){
		"an error": func(x *Exchange) { x.fail(refuse.MissingCapability(mcp.Raw(`{"roots":{}}`))) },
		"a panic":  func(x *Exchange) { x.refuse(refuse.Internal("")) },
	} {
		t.Run(name, func(t *testing.T) {
			for range 2000 {
				w := httptest.NewRecorder()
				x := &Exchange{e: e, w: w, rc: http.NewResponseController(w), rev: wire.Stateless(), ID: mcp.Raw("1"),
					accept: request.Accept{JSON: true, Stream: true}}
				x.Call = mcp.Call{Method: mcp.MethodToolsCall, Name: "t"}
				begun := make(chan bool, 1)
				go func() {
					x.mu.Lock()
					defer x.mu.Unlock()
					begun <- x.needStream() != nil
				}()
				end(x)
				stream, text := <-begun, w.Body.String()
				if stream && (w.Code != http.StatusOK || !strings.HasPrefix(text, "data: ") || strings.Contains(text, "-32021")) ||
					!stream && (w.Code == http.StatusOK || !strings.HasPrefix(text, "{")) {
					t.Fatalf("stream %t: %d %s", stream, w.Code, text)
				}
			}
		})
	}
}
