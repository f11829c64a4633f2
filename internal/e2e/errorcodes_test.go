package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestErrorCodes finds one failure by one name in the answers of both eras, in the log, in
// metrics and in /readyz. A server's own error has no name of ours.
func TestErrorCodes(t *testing.T) {
	t.Parallel()
	s := scripted(t, stateless)
	s.Tools("bad", "secret")
	const own = `"error":{"code":-32000,"message":"no","data":{"a": [1], "upstream":"x"}}`
	s.Tool("bad", func(c *mcptest.Call) { c.Garbage(`{"jsonrpc":"2.0","id":` + string(c.ID) + `,` + own + `}`) })
	g := guard(t, gateway.Config{
		Admin: config.Admin{Listen: "127.0.0.1:0"},
		Policy: policy.Config{Default: policy.DefaultAllow,
			Rules: []policy.Rule{{Name: "secrets", Deny: []string{"tools:*/secret"}}}},
		Upstreams: []upstream.Config{
			{Name: "up", URL: s.URL},
			{Name: "dead", URL: "http://127.0.0.1:1/mcp"},
		},
	})
	for _, revision := range []string{statefulClient, stateless} {
		c := g.raw(t, revision, g.issuer.Token(nil))
		for tool, want := range map[string]string{"dead__any": "GH-UPSTREAM-DOWN", "up__secret": "GH-NOT-FOUND",
			"up__nothing": "GH-NOT-FOUND"} {
			m, _, err := c.Call(deadline(t), "tools/call", `{"name":"`+tool+`"}`)
			if err != nil || m.Error == nil || codeOf(m.Error.Data) != want {
				t.Errorf("%s: %s: %s, %v; want %s", revision, tool, m.Text, err, want)
			}
		}
		m, _, err := c.Call(deadline(t), "tools/call", `{"name":"up__bad"}`)
		if err != nil || m.Error == nil || strings.Contains(m.Text, "GH-") ||
			revision == statefulClient && !strings.Contains(m.Text, own) {
			t.Errorf("%s: %s, %v; want the server's own error", revision, m.Text, err)
		}
	}
	good := http.Header{"Authorization": {"Bearer " + g.issuer.Token(nil)}}
	lost := good.Clone()
	lost.Set("Mcp-Session-Id", "no-such-session-0123456789")
	text := good.Clone()
	text.Set("Content-Type", "text/plain")
	for want, header := range map[string]http.Header{
		"GH-TOKEN-MISSING":     {},
		"GH-TOKEN-INVALID":     {"Authorization": {"Bearer no.good.token"}},
		"GH-HTTP-MEDIA":        text,
		"GH-SESSION-NOT-FOUND": lost,
	} {
		c := unopened(t, g.url, statefulClient)
		c.Header = header
		x, err := c.Post(deadline(t), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if err != nil {
			t.Fatal(err)
		}
		var body struct {
			Error struct{ Data json.RawMessage }
		}
		if answer := x.Text(); json.Unmarshal([]byte(answer), &body) != nil || codeOf(body.Error.Data) != want {
			t.Errorf("want %s: %d %s", want, x.Status, answer)
		}
		x.Close()
	}
	g.scrape(t).want(t, map[string]float64{
		"errors_total{error_code=GH-UPSTREAM-DOWN,stage=front}":           2,
		"errors_total{error_code=GH-NOT-FOUND,stage=front}":               4,
		"errors_total{error_code=GH-UPSTREAM-ERROR,stage=front}":          2,
		"errors_total{error_code=GH-HTTP-MEDIA,stage=front}":              1,
		"errors_total{error_code=GH-SESSION-NOT-FOUND,stage=front}":       1,
		"errors_total{error_code=GH-TOKEN-INVALID,stage=auth}":            1,
		"upstream_errors_total{error_code=GH-UPSTREAM-ERROR,upstream=up}": 2,
	})
	ready := g.operator(t, http.MethodGet, "/readyz", nil)
	defer ready.Body.Close()
	if state, err := io.ReadAll(ready.Body); err != nil ||
		!strings.Contains(string(state), `"error_code":"GH-UPSTREAM-DOWN"`) {
		t.Errorf("/readyz: %s, %v", state, err)
	}
	for want, n := range map[string]int{"code=50201 error_code=GH-UPSTREAM-DOWN": 2,
		"code=-32602 error_code=GH-NOT-FOUND": 4, "code=-32000 error_code=GH-UPSTREAM-ERROR": 2,
		`level=WARN msg="upstream is down" upstream=dead error_code=GH-UPSTREAM-DOWN`: 1} {
		if got := g.log.Count(want); got != n {
			t.Errorf("the log has %q %d times, want %d", want, got, n)
		}
	}
}

// codeOf returns the name of the failure in an error's data.
func codeOf(data json.RawMessage) string {
	var d struct {
		Code string `json:"error_code"`
	}
	_ = json.Unmarshal(data, &d)
	return d.Code
}
