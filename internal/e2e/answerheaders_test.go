package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// badHeaders are headers by which a server would talk to clients or to proxies in between.
var badHeaders = map[string]string{
	"Set-Cookie": "id=stolen", "Location": "https://evil.example/", "Refresh": "0; url=https://evil.example/",
	"WWW-Authenticate": `Bearer resource_metadata="https://evil.example/"`, "Mcp-Session-Id": "session-of-the-server",
	"Mcp-Protocol-Version": "1999-01-01", "Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": "true",
	"Proxy-Authenticate": "Basic", "Keep-Alive": "timeout=1", "Trailer": "X-Late", "Upgrade": "h2c", "Via": "evil",
	"Link": `<https://evil.example/>; rel="next"`, "Clear-Site-Data": `"*"`, "Content-Security-Policy": "default-src *",
	"Strict-Transport-Security": "max-age=1", "Server": "evil", "X-Evil": "evil", "X-Accel-Redirect": "/secret",
}

// answerHeaders are all headers of the gateway's answers to these calls.
var answerHeaders = []string{"Cache-Control", "Content-Length", "Content-Type", "Date", "Mcp-Session-Id",
	"X-Accel-Buffering", "X-Content-Type-Options"}

// TestHeadersAndIDsOfTheServer: no header of a server's answer reaches a client,
// nor does any id that the gateway uses with the server.
func TestHeadersAndIDsOfTheServer(t *testing.T) {
	for _, newer := range []string{statefulServer, stateless} {
		for _, revision := range []string{statefulClient, stateless} {
			t.Run("client "+revision+" server "+newer, func(t *testing.T) {
				t.Parallel()
				s := scripted(t, newer)
				s.Tools("json", "stream", "refuse")
				token := make(chan string, 10)
				s.On("tools/call", func(c *mcptest.Call) {
					var name string
					var own json.RawMessage
					c.Param("name", &name)
					c.Param("_meta|progressToken", &own)
					token <- string(own)
					switch name {
					case "stream":
						c.Notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":1}`, own))
						c.Text("ok")
					case "refuse":
						c.Status(http.StatusFound, "text/plain", "go away")
					default:
						c.Text("ok")
					}
				})
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					for name, value := range badHeaders {
						if name != "Mcp-Session-Id" || r.Header.Get(name) != "" { // the first answer has the correct one
							w.Header().Set(name, value)
						}
					}
					s.ServeHTTP(w, r)
				}))
				t.Cleanup(server.Close)
				c := raw(t, start(t, gateway.Config{Upstreams: []upstream.Config{{Name: "a", URL: server.URL}}}), revision)
				for _, tool := range []string{"json", "stream", "refuse"} {
					x, err := c.SendID(deadline(t), `"mine"`, "tools/call",
						fmt.Sprintf(`{"name":"a__%s","arguments":{},"_meta":{"progressToken":"my token"}}`, tool))
					if err != nil {
						t.Fatal(err)
					}
					m, err := x.Response()
					x.Close()
					if err != nil || string(m.ID) != `"mine"` || (m.Error != nil) != (tool == "refuse") {
						t.Errorf("%s: %v %s", tool, err, m.Text)
					}
					if x.Status != http.StatusOK {
						t.Errorf("%s: status %d", tool, x.Status)
					}
					for name := range x.Header {
						if !slices.Contains(answerHeaders, name) {
							t.Errorf("%s: the answer has the header %s: %s", tool, name, x.Header[name])
						}
					}
					if id := x.Header.Get("Mcp-Session-Id"); id != "" && id != c.Session {
						t.Errorf("%s: the answer has the session id %s", tool, id)
					}
					own, heard := receive(t, "the call's token", token), len(x.Before)
					if tool == "stream" && (heard != 1 || !strings.Contains(x.Before[0].Text, `"progressToken":"my token"`)) {
						t.Errorf("%d messages came before the answer: %v", heard, x.Before)
					}
					for _, got := range append(x.Before, m) {
						for _, foreign := range []string{own, "session-of-the-server", "evil.example", "stolen"} {
							if foreign != "" && strings.Contains(got.Text, foreign) {
								t.Errorf("%s: the client hears %q in %s", tool, foreign, got.Text)
							}
						}
					}
				}
			})
		}
	}
}
