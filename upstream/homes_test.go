package upstream_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// homes opens the home of each session that an upstream asks for.
type homes struct{ *home.Table }

func (h homes) Known(key home.Key) *home.Home {
	_ = h.Begin(key, func(*home.Home) {}) // it may be there
	return h.Table.Known(key)
}

// homesOf are the homes of upstreams.
var homesOf sync.Map

// withHomes makes an upstream whose clients' sessions have homes of their own.
func withHomes(t testing.TB, cfg upstream.Config, deps upstream.Deps) (*upstream.Upstream, error) {
	table := home.Open(home.Config{Idle: 24 * time.Hour, Max: 1000, Most: func(string) int { return 1000 }},
		&session.Memory{})
	t.Cleanup(func() { table.Close(t.Context()) })
	deps.Homes = homes{table}
	u, err := upstream.New(cfg, deps)
	homesOf.Store(u, table)
	t.Cleanup(func() { homesOf.Delete(u) })
	return u, err
}

// endSession ends the home of a client's session at the process of an upstream.
func endSession(u *upstream.Upstream, session string, forget bool) {
	table, _ := homesOf.Load(u)
	why := home.Moved
	if forget {
		why = home.Ended
	}
	if h := table.(*home.Table).Known(home.ParseKey(session)); h != nil {
		_ = h.End(context.Background(), why) // Memory agrees
	}
}
