package fake

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// Start makes an Upstream for the fake, or for cfg if that says how to connect.
func Start(t *testing.T, cfg upstream.Config) *Upstream {
	t.Helper()
	return StartOver(t, cfg, upstream.NewTransport(nil, cfg))
}

// StartOver makes an Upstream over a transport.
func StartOver(t *testing.T, cfg upstream.Config, transport interface {
	http.RoundTripper
	CloseIdleConnections()
}) *Upstream {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "fake"
	}
	t.Cleanup(transport.CloseIdleConnections)
	u, err := NewUpstream(t, cfg, upstream.Deps{Log: slog.New(slog.DiscardHandler), HTTP: transport})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Close(t, u) })
	return u
}

// Close closes an Upstream within Patience.
func Close(t *testing.T, u interface{ Close(context.Context) error }) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := u.Close(ctx); err != nil {
		t.Error(err)
	}
}

// Upstream is an upstream with homes of its own for clients' sessions.
type Upstream struct {
	*upstream.Upstream
	homes homes
}

// homes opens the home of each session that an upstream asks for.
type homes struct{ *home.Table }

func (h homes) Known(key home.Key) *home.Home {
	_ = h.Begin(key, func(*home.Home) {}) // it may be there
	return h.Table.Known(key)
}

// NewUpstream makes an Upstream.
func NewUpstream(t testing.TB, cfg upstream.Config, deps upstream.Deps) (*Upstream, error) {
	all := homes{home.Open(home.Config{Idle: 24 * time.Hour, Max: 1000, Most: func(string) int { return 1000 }},
		&session.Memory{})}
	t.Cleanup(func() { all.Close(t.Context()) })
	deps.Homes = all
	u, err := upstream.New(cfg, deps)
	return &Upstream{u, all}, err
}

// EndSession ends the home of a client's session at the process of the upstream.
func (u *Upstream) EndSession(session string, forget bool) {
	why := home.Moved
	if forget {
		why = home.Ended
	}
	if h := u.homes.Table.Known(home.ParseKey(session)); h != nil {
		_ = h.End(context.Background(), why) // Memory agrees
	}
}
