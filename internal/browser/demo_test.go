//go:build browser

package browser

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/demo"
)

// TestDemo signs in at the demo: the page of users, and consent.
func TestDemo(t *testing.T) {
	endpoint, client := listen(t), listen(t)
	serve(t, client, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><link rel=icon href=data:,>back at the client")
	}))
	d, err := demo.Start(t.Context(), demo.Options{
		Executable: "/no/stdio/server", Listen: endpoint.Addr().String(), SignIn: true, Offline: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	file, err := d.WriteConfig()
	if err != nil {
		t.Fatal(err)
	}
	run(t, gateway.Options{ConfigFile: file, Version: "test", Listener: endpoint, Log: slog.New(slog.DiscardHandler)})
	at := netip.MustParseAddrPort(endpoint.Addr().String())
	look(t, "demo.mjs", map[string]any{
		"base": url(endpoint), "issuer": fmt.Sprintf("http://%s:%d", at.Addr(), at.Port()+1), "client": url(client),
		"authorize": authorize(t, url(endpoint), "App", url(client)+"/callback"), "others": []string{url(client)},
	})
}
