package front

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// parts is a ResponseWriter that keeps the parts of an answer.
type parts struct {
	*httptest.ResponseRecorder
	sizes []int
}

func (p *parts) Write(part []byte) (int, error) {
	if len(part) > 0 {
		p.sizes = append(p.sizes, len(part))
	}
	return p.ResponseRecorder.Write(part)
}

// TestALargeListEndsWithItsItems: nothing follows the part of the answer that is not copied,
// which would be one more write to the connection.
func TestALargeListEndsWithItsItems(t *testing.T) {
	const large = 32 << 10
	b := newBench(t, Config{})
	b.script.tools.Items[0].Raw = mcp.Object("name", mcp.String("echo"), "description",
		mcp.String(strings.Repeat("x", large)))
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"` + wire.MetaVersion + `":"2026-07-28","` +
		wire.MetaClientInfo + `":{"name":"c","version":"1"},"` + wire.MetaClientCaps + `":{}}}}`
	r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(body))
	r.Header = modern(mcp.MethodToolsList, "")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	w := &parts{ResponseRecorder: httptest.NewRecorder()}
	b.ServeHTTP(w, r)
	m, err := wire.Scan(bytes.Clone(w.Body.Bytes()))
	if err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if next, _ := m.Result.Member("nextCursor"); next.Text() != "2" {
		t.Errorf("the cursor is %s: %.300s", next, w.Body)
	}
	if len(w.sizes) != 2 || w.sizes[1] <= large {
		t.Errorf("parts of %d bytes", w.sizes)
	}
}
