package front

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestOldSSEElsewhere: a stream takes messages by way of another replica, of whose it is
// alone, and each answer to a POST is the one that the stream's own replica gives.
func TestOldSSEElsewhere(t *testing.T) {
	offers := func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		if c.Method == mcp.MethodDiscover {
			return &mcp.Reply{Result: mcp.Raw(`{"capabilities":{}}`)}, nil
		}
		return unexpected(ctx, c)
	}
	fronts, posts := replicaFronts(t, offers, unexpected)
	urls := map[string]string{}
	for name, f := range fronts {
		as := func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				caller := mcp.NewCaller(mcp.Caller{Issuer: "i", Subject: r.Header.Get("X-User"), ClientID: r.Header.Get("X-Client"), Token: "t0ken"})
				next.ServeHTTP(w, r.WithContext(mcp.WithCaller(r.Context(), caller)))
			})
		}
		mux := http.NewServeMux()
		stream, messages := f.SSEPaths()
		mux.Handle(stream, f.SSEBehind(as))
		mux.Handle(messages, f.MessagesBehind(as))
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		urls[name] = server.URL
	}
	ann := http.Header{"X-User": {"ann"}, "X-Client": {"c"}}
	c, err := mcptest.OpenSSE(t.Context(), http.DefaultClient, urls["a"]+ssePath, ann)
	if err != nil || c.Status != http.StatusOK {
		t.Fatal(c, err)
	}
	defer c.Close()
	c.Messages = urls["b"] + c.Endpoint
	answer, err := c.Begin(t.Context(), v2024, `{}`)
	if err != nil || !strings.Contains(answer.Text, `"protocolVersion":"2024-11-05"`) {
		t.Fatalf("initialize: %s %v", answer.Text, err)
	}
	if answer, err = c.Call(t.Context(), "ping", "{}"); err != nil || answer.Text != `{"jsonrpc":"2.0","id":2,"result":{}}` {
		t.Errorf("ping: %s %v", answer.Text, err)
	}
	ping := `{"jsonrpc":"2.0","id":9,"method":"ping"}`
	for name, tt := range map[string]struct {
		body, more string
		header     http.Header
		status     int
	}{
		"its own":          {ping, "", ann, http.StatusAccepted},
		"H/51 a user":      {ping, "", http.Header{"X-User": {"bob"}, "X-Client": {"c"}}, http.StatusNotFound},
		"H/51 a client":    {ping, "", http.Header{"X-User": {"ann"}, "X-Client": {"d"}}, http.StatusNotFound},
		"no such stream":   {ping, "0", ann, http.StatusNotFound},
		"malformed":        {ping[1:], "", ann, http.StatusBadRequest},
		"not of this type": {ping, "", http.Header{"X-User": {"ann"}, "X-Client": {"c"}, "Content-Type": {"text/plain"}}, http.StatusUnsupportedMediaType},
	} {
		var first string
		for _, at := range []string{"a", "b"} {
			other := &mcptest.SSEClient{Messages: urls[at] + c.Endpoint + tt.more, HTTP: http.DefaultClient}
			x, err := other.Post(t.Context(), tt.body, tt.header)
			if err != nil {
				t.Fatal(err)
			}
			text := x.Text()
			x.Close()
			if x.Status != tt.status || at == "b" && text != first {
				t.Errorf("%s at %s: %d %s, want %d %s", name, at, x.Status, text, tt.status, first)
			}
			first = text
		}
	}
	for _, sealed := range append(posts["a"].letters(), posts["b"].letters()...) {
		if strings.Contains(sealed, "t0ken") || strings.Contains(sealed, "ping") {
			t.Errorf("H/191 a letter can be read: %s", sealed)
		}
	}
	fronts["b"].mu.Lock()
	defer fronts["b"].mu.Unlock()
	if n := len(fronts["b"].pending); n != 0 {
		t.Errorf("%d messages are still waited for", n)
	}
}
