package operate

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestOperatorEndsAnAccount: other replicas hear of an account that an operator ends, whatever its user
// is called, and replicas that do not answer are in the log.
func TestOperatorEndsAnAccount(t *testing.T) {
	t.Parallel()
	const user = "ann&user=bob/%2F é"
	var heard []string
	lists := func(at string) func(string, *mcp.Caller) {
		return func(server string, caller *mcp.Caller) {
			heard = append(heard, at+": "+server+" of "+caller.Subject+" at "+caller.Issuer)
		}
	}
	open := func() *vault.Vault {
		v, err := vault.New(vault.Config{}, vault.Deps{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(v.Close)
		return v
	}
	log := &mcptest.Log{}
	there := Accounts{Vault: open(), Lists: lists("there")}
	desk := Accounts{
		Vault: open(), Lists: lists("here"), Log: slog.New(slog.NewTextHandler(log, nil)),
		Others: func(_ context.Context, path string) []string {
			answer := httptest.NewRecorder()
			if there.Told(answer, httptest.NewRequest(http.MethodPost, path, nil)); answer.Code != http.StatusNoContent {
				t.Errorf("it answered %d", answer.Code)
			}
			return []string{"replica-3"}
		},
		Now: func() Now {
			return Now{Config: config.Config{
				Upstreams: []upstream.Config{{Name: "wiki", Auth: outbound.Config{Type: outbound.TypeUserOAuth}}},
				Auth:      auth.Config{Mode: auth.ModeOAuth, Issuers: []auth.Issuer{{URL: "https://idp.example.com"}}},
			}}
		},
	}
	if err := desk.End(t.Context(), "", user, "wiki"); err != nil {
		t.Fatal(err)
	}
	about := ": wiki of " + user + " at https://idp.example.com"
	if want := []string{"here" + about, "there" + about}; !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
	if text := log.String(); !strings.Contains(text, "replica-3") || strings.Contains(text, "ann") {
		t.Errorf("the log has %s", text)
	}
}
