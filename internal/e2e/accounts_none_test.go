package e2e

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth/accounts"
	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestAccountOfOnlyUser: in mode none, the only user signs in at a server on a page of this machine. The
// tokens outlive the gateway, sealed, in files that nobody else reads.
func TestAccountOfOnlyUser(t *testing.T) {
	t.Parallel()
	s := scripted(t, statefulClient)
	s.Tools("a")
	s.On("tools/call", func(c *mcptest.Call) { c.Text("done as " + c.Header.Get("Authorization")[:14]) })
	p := &personal{remote: mcptest.NewAccounts(s)}
	t.Cleanup(p.remote.Close)
	dir := filepath.Join(t.TempDir(), "state")
	listener, err := net.Listen("tcp", "127.0.0.78:0")
	if err != nil {
		t.Fatal(err)
	}
	at := listener.Addr().String()
	p.urls = []string{"http://" + at + "/mcp"}
	cfg := gateway.Config{
		Listen: at, State: config.State{Directory: dir},
		Upstreams: []upstream.Config{{Name: "up", URL: p.remote.URL, Auth: outbound.Config{Type: outbound.TypeUserOAuth}}},
	}
	start := func(listener net.Listener) *gateway.Gateway {
		g, err := gateway.New(gateway.Options{Config: cfg, Version: "test", Listener: listener,
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			listener.Close()
			t.Fatal(err)
		}
		g.Start()
		if err := g.WaitReady(deadline(t)); err != nil {
			t.Fatal(err)
		}
		return g
	}
	stop := func(g *gateway.Gateway) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Error("stopping the gateway:", err)
		}
	}
	client := func(revision string) *mcptest.Client {
		c := unopened(t, p.urls[0], revision)
		if err := c.Open(deadline(t)); err != nil {
			t.Fatal(err)
		}
		return c
	}

	g := start(listener)
	home := "http://" + at + accounts.Root
	for name, change := range map[string]func(*http.Request){
		"another host":    func(r *http.Request) { r.Host = "rebound.example.com" },
		"through a proxy": func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") },
	} {
		r, _ := http.NewRequestWithContext(deadline(t), http.MethodGet, home, nil)
		change(r)
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != http.StatusForbidden || len(answer.Cookies()) > 0 {
			t.Errorf("%s: %s", name, answer.Status)
		}
	}
	c := client(statefulClient)
	wantTool(t, c, false)
	m := mustCall(t, c, "tools/call", callA)
	p.wantSignedIn(t, regexp.MustCompile(`http://[^ "]+/account/sign-in/[^ "]+`).FindString(m.Text))
	wantTool(t, c, true)
	if m := mustCall(t, client(stateless), "tools/call", callA); !strings.Contains(m.Text, done) {
		t.Errorf("after the sign-in: %s", m.Text)
	}
	stop(g)

	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 2 {
		t.Errorf("files: %q %v", files, err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		text, readErr := os.ReadFile(file)
		if err != nil || readErr != nil || info.Mode().Perm() != 0o600 || regexp.MustCompile(`account-\d`).Match(text) {
			t.Errorf("%s: %v %v %v", file, info.Mode(), err, readErr)
		}
	}

	if listener, err = net.Listen("tcp", at); err != nil {
		t.Fatal(err)
	}
	again := start(listener)
	defer stop(again)
	c = client(statefulClient)
	wantTool(t, c, true)
	if m := mustCall(t, c, "tools/call", callA); !strings.Contains(m.Text, done) {
		t.Errorf("after the restart: %s", m.Text)
	}
	p.signOut(t)
	if m := mustCall(t, c, "tools/call", callA); !strings.Contains(m.Text, "/account/sign-in/") {
		t.Errorf("after the sign-out: %s", m.Text)
	}
}
