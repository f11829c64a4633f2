package gateway

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestReloadViews: views come, change and go with the configuration. Clients that listen hear of
// a changed list at their own endpoint only.
func TestReloadViews(t *testing.T) {
	p, q := newSite(t, true, one("work", saying("x"))), newSite(t, true, one("work", saying("y")))
	plain := fmt.Sprintf("upstreams: [{name: a, url: %q}, {name: b, url: %q}]\n", p.url, q.url)
	views := func(sales, desk string) string {
		return plain + fmt.Sprintf("views:\n- {name: sales, show: [%s], drop_prefixes: true}\n- {name: desk, show: [%s]}\n",
			sales, desk)
	}
	const a, both = `"tools:a/*"`, `"tools:*"`
	for _, revision := range []string{stateful, stateless} {
		t.Run(revision, func(t *testing.T) {
			c := startConfigured(t, plain)
			status := func(path string) int {
				t.Helper()
				resp, err := http.Get(c.URL() + path)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				return resp.StatusCode
			}
			if got := status("/sales"); got != http.StatusNotFound {
				t.Errorf("a view before there is one: %d", got)
			}
			c.reload(t, views(a, a))
			sales, heard := hearingAt(t, c.URL()+"/sales", revision)
			desk, deaf := hearingAt(t, c.URL()+"/desk", revision)
			if got := listTools(t, sales); !slices.Equal(got, []string{"work"}) {
				t.Errorf("the new view has %q", got)
			}
			if got := listTools(t, desk); !slices.Equal(got, []string{"a__work"}) {
				t.Errorf("the other one has %q", got)
			}
			c.reload(t, views(both, a))
			select {
			case <-heard:
			case <-time.After(patience):
				t.Fatal("the client was not told that its view shows more")
			}
			if len(deaf) > 0 {
				t.Error("a client was told of a list that it does not see")
			}
			if got := listTools(t, sales); !slices.Equal(got, []string{"a__work", "b__work"}) {
				t.Errorf("the wider view has %q", got)
			}
			if got, err := callTool(t.Context(), sales, "b__work"); err != nil || got != "y" {
				t.Errorf("called: %q, %v", got, err)
			}
			c.reload(t, views(both, both))
			select {
			case <-deaf:
			case <-time.After(patience):
				t.Fatal("the other client was not told")
			}
			c.reload(t, plain)
			if got := status("/sales"); got != http.StatusNotFound {
				t.Errorf("a view that has gone: %d", got)
			}
			if _, err := callTool(t.Context(), sales, "a__work"); err == nil {
				t.Error("a view that has gone is served")
			}
		})
	}
}

// TestReloadViewsEndNothing: a view that comes or goes ends no stream; a token for it is good while it
// is there.
func TestReloadViewsEndNothing(t *testing.T) {
	for _, revision := range []string{stateful, stateless} {
		t.Run(revision, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			p := newSite(t, true, one("work", saying("x")))
			c, issuer := withIssuer(t)
			text := fmt.Sprintf("public_url: %q\npolicy: {default: allow}\nauth: {mode: oauth, issuers: [{url: %q}]}\nupstreams:\n- {name: a, url: %q}\n", issuer.Audience, issuer.URL, p.url)
			c.write(t, text)
			c.run(t)

			client := c.signedIn(ctx, t, revision, issuer.Token(map[string]any{"sub": "ann"}))
			var stream *mcptest.Exchange
			var err error
			if client.Revision.Stateful {
				stream, err = client.Get(ctx, "")
			} else {
				stream, err = client.Send(ctx, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
			}
			if err != nil || stream.Status != http.StatusOK {
				t.Fatalf("%+v, %v", stream, err)
			}
			defer stream.Close()
			if !client.Revision.Stateful {
				if _, err := stream.Next(); err != nil { // the acknowledgement
					t.Fatal(err)
				}
			}
			known := c.graph().auth
			at := issuer.Audience + "/sales"
			visitor := mcptest.NewClient(at, wire.Lookup(stateless))
			visitor.HTTP = client.HTTP
			visitor.Header = http.Header{"Authorization": {"Bearer " + issuer.Token(map[string]any{"sub": "bob", "aud": at})}}
			document := func() int {
				t.Helper()
				_, path, _ := strings.Cut(strings.TrimPrefix(at, "http://"), "/")
				resp, err := client.HTTP.Get("http://" + c.listener.Addr().String() +
					"/.well-known/oauth-protected-resource/" + path)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				return resp.StatusCode
			}
			c.reload(t, text+"views: [{name: sales, show: [\"tools:*\"]}]\n")
			if reply, _, err := visitor.Call(ctx, "tools/list", `{}`); err != nil || reply.Error != nil ||
				document() != http.StatusOK {
				t.Errorf("at the new view: %+v, %v, and its metadata %d", reply, err, document())
			}
			c.reload(t, text)
			if got := document(); got != http.StatusNotFound {
				t.Errorf("the metadata of a view that has gone: %d", got)
			}
			if c.graph().auth != known {
				t.Error("what is known of tokens was thrown away")
			}
			c.reload(t, text+fmt.Sprintf("- {name: b, url: %q}\n", newSite(t, true, one("more", saying("y"))).url))
			for { // the first news come by the stream that was there before
				m, err := stream.Next()
				if err != nil {
					t.Fatalf("the stream has ended: %v", err)
				}
				if m.Method == "notifications/tools/list_changed" {
					break
				}
			}
		})
	}
}
