package gateway

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestReloadAuth: who is let in is decided anew for the next request, and whoever was let
// in for as long as they listen has to say anew who they are.
func TestReloadAuth(t *testing.T) {
	for _, revision := range []string{stateful, stateless} {
		t.Run(revision, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			p := newSite(t, true, one("work", saying("x")))
			issuer := mcptest.NewIssuer(mcptest.IssuerOptions{})
			defer issuer.Close()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			issuer.Audience = "http://" + listener.Addr().String() + "/mcp"
			text := fmt.Sprintf("upstreams: [{name: a, url: %q}]\npublic_url: %q\npolicy: {default: allow}\nauth: {mode: oauth, issuers: [{url: %q}]%%s}\n",
				p.url, issuer.Audience, issuer.URL)
			c := &configured{file: filepath.Join(t.TempDir(), "gatehouse.yaml"), log: &lockedBuffer{}, look: lookSoon}
			c.write(t, fmt.Sprintf(text, ""))
			if c.Gateway, err = New(Options{ConfigFile: c.file, Listener: listener, Log: slog.New(slog.NewTextHandler(c.log, nil))}); err != nil {
				t.Fatal(err)
			}
			c.Start()
			defer c.Stop(ctx)
			waitReady(t, c.Gateway)

			client := mcptest.NewClient(c.URL(), wire.Lookup(revision))
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			client.HTTP = &http.Client{Transport: transport}
			client.Header = http.Header{"Authorization": {"Bearer " + issuer.Token(map[string]any{"sub": "ann"})}}
			if err := client.Open(ctx); err != nil {
				t.Fatal(err)
			}
			listen := func() (*mcptest.Exchange, error) {
				if client.Revision.Stateful {
					return client.Get(ctx, "")
				}
				return client.Send(ctx, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
			}
			stream, err := listen()
			if err != nil || stream.Status != http.StatusOK {
				t.Fatalf("%+v, %v", stream, err)
			}
			defer stream.Close()
			if !client.Revision.Stateful {
				if _, err := stream.Next(); err != nil { // the acknowledgement
					t.Fatal(err)
				}
			}
			c.reload(t, fmt.Sprintf(text, ", required_scopes: [mcp]"))
			for { // what comes before the end: the result of the stateless one
				if _, err := stream.Next(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatalf("the stream did not end in good order: %v", err)
				}
			}
			if again, err := listen(); err != nil || again.Status != http.StatusForbidden {
				t.Errorf("without the scope: %+v, %v", again, err)
			}
			client.Header.Set("Authorization", "Bearer "+issuer.Token(map[string]any{"sub": "ann", "scope": "mcp"}))
			again, err := listen()
			if err != nil || again.Status != http.StatusOK {
				t.Fatalf("with the scope: %+v, %v", again, err)
			}
			again.Close()
		})
	}
}
