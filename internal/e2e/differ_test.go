package e2e

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// TestReplicasDiffer: replicas with different files report this, each for itself. The
// file of a session's owner decides what the session may do, wherever a request arrives.
func TestReplicasDiffer(t *testing.T) {
	t.Parallel()
	s := doing(t)
	text := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: \"127.0.0.1:0\"}\nupstreams: [{name: up, url: %q}]\n"+
		"sessions: {store: redis, key: %s, redis: {url: %q}}\nreplicas: {listen: \"127.0.0.1:0\"}\n", s.URL,
		"0123456789abcdef0123456789abcdef", redistest.Start(t).URL())
	first, same := fromFile(t, text), fromFile(t, text)
	other := fromFile(t, text+"policy: {default: deny}\n")
	revision := revisionOf(t, first)
	if got := revisionOf(t, same); got != revision || len(got) != 12 {
		t.Errorf("of one file the revisions are %q and %q", revision, got)
	}
	if got := revisionOf(t, other); got == revision || len(got) != 12 {
		t.Errorf("of two files the revisions are %q and %q", revision, got)
	}

	replicas := []*gateway.Gateway{first, same, other}
	for owner, allowed := range []bool{true, true, false} {
		begun := opened(t, replicas[owner].URL(), statefulClient)
		for n, g := range replicas {
			c := unopened(t, g.URL(), statefulClient)
			c.Session = begun.Session
			m, _, err := c.Call(deadline(t), "tools/call", `{"name":"up__do"}`)
			if err != nil {
				t.Fatalf("a session of replica %d at replica %d: %v", owner, n, err)
			}
			if refused := m.Error != nil && m.Error.Code == mcp.CodeInvalidParams; refused == allowed {
				t.Errorf("a session of replica %d at replica %d: %s", owner, n, m.Text)
			}
		}
	}
}

// fromFile starts a gateway with a configuration file.
func fromFile(t *testing.T, text string) *gateway.Gateway {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gatehouse.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{ConfigFile: file, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	untilTheEnd(t, g)
	return g
}

// revisionOf returns the revision of a gateway's configuration, which must be the same in
// both places where the gateway shows it.
func revisionOf(t *testing.T, g *gateway.Gateway) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	admin := "http://" + g.AdminAddr().String()
	var ready struct{ Configuration struct{ Revision string } }
	if err := json.Unmarshal([]byte(scraped(t, client, admin+"/readyz")), &ready); err != nil {
		t.Fatal(err)
	}
	revision := ready.Configuration.Revision
	if line := fmt.Sprintf("\ngatehouse_config_info{revision=%q} 1\n",
		revision); !strings.Contains(scraped(t, client, admin+"/metrics"), line) {
		t.Errorf("/readyz tells of revision %q, and /metrics does not", revision)
	}
	return revision
}
