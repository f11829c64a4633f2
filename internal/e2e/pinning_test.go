package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning/review"
	"github.com/gatehouse-mcp/gatehouse/gateway/trial"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestPinnedSession: what a server adds to one client's session is hidden like everything else
// that is not approved.
func TestPinnedSession(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{statefulClient, stateless} {
		for mode, want := range map[string][]string{
			pinning.Block: {"up__enable"},
			pinning.Warn:  {"up__enable", "up__extra", "up__secret"},
		} {
			t.Run(revision+" "+mode, func(t *testing.T) {
				t.Parallel() // each waits until changes of lists settle
				cfg := gateway.Config{
					Upstreams: []upstream.Config{{Name: "up", URL: newWorkshop(t, true).url}},
					Pinning:   pinning.Config{Mode: mode, File: filepath.Join(t.TempDir(), "gatehouse.lock")},
				}
				lockAll(t, cfg)
				c := newClient(revision)
				c.open(t, &sdk.StreamableClientTransport{Endpoint: start(t, cfg), HTTPClient: ownClient(t)})
				if got := c.text(t, "up__enable", nil); got != "enabled" {
					t.Errorf("it answered %q", got)
				}
				if got := listTools(t, c); !slices.Equal(got, want) {
					t.Errorf("the tools are %q, want %q", got, want)
				}
				if mode == pinning.Block {
					_, err := c.CallTool(deadline(t), &sdk.CallToolParams{Name: "up__extra"})
					wantCode(t, "a tool that is not approved", err, mcp.CodeInvalidParams)
				} else if got := c.text(t, "up__extra", map[string]any{"text": "hi"}); got != "hi" {
					t.Errorf("it answered %q", got)
				}
			})
		}
	}
}

// TestPinnedUsers: what a server shows to one user is hidden until it is approved, as a gateway that
// runs reports it.
func TestPinnedUsers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gatehouse.lock")
	if err := (pin.Lock{}).Write(file); err != nil {
		t.Fatal(err)
	}
	var cfg gateway.Config
	pinned := func(c *gateway.Config) {
		c.Pinning.File = file
		c.Upstreams[0].Pinning.Mode = pinning.Block
		c.Admin = config.Admin{Listen: "127.0.0.1:0", API: admin.Config{Loopback: admin.RoleViewer}}
		cfg = *c
	}
	e := newExchanging(t, stateless, pinned)
	alice := e.raw(t, stateless, e.issuer.Token(claims{"sub": "alice"}))
	var seen struct{ Pins []admin.Pin }
	for ctx := deadline(t); len(seen.Pins) < 2; {
		if ctx.Err() != nil {
			t.Fatalf("seen are %v", seen.Pins)
		}
		wantTools(t, alice, "plain__do")
		resp := e.operator(t, http.MethodGet, "/api/v1/pins", nil)
		if err := errors.Join(json.NewDecoder(resp.Body).Decode(&seen), resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
	}
	found, err := review.Seen(cfg, seen.Pins)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range found.Upstreams[0].Changes {
		if change.Name == "all" {
			found.Approve("up", change)
		}
	}
	if err := found.Save(); err != nil {
		t.Fatal(err)
	}
	e = newExchanging(t, stateless, pinned)
	wantTools(t, e.raw(t, stateless, e.issuer.Token(claims{"sub": "alice"})), "up__all", "plain__do")
}

// lockAll approves everything that the upstreams have now.
func lockAll(t *testing.T, cfg gateway.Config) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	found, err := trial.Lock(ctx, gateway.Inspector("test", slog.New(slog.DiscardHandler)), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range found.Upstreams {
		for _, change := range u.Changes {
			found.Approve(u.Name, change)
		}
	}
	if err := found.Save(); err != nil {
		t.Fatal(err)
	}
}
