package config

import (
	"reflect"

	"github.com/gatehouse-mcp/gatehouse/gateway/console"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// UntilRestart returns the configuration as a reload can apply it: with the keys of holds, the
// current one, that only a restart can change. The error names those that differ, each at the
// beginning of a text. holds has defaults.
func UntilRestart(c, holds Config) (Config, error) {
	next := c.WithDefaults()
	if holds.PublicURL == ownURL(holds.TLS, holds.Listen) && next.PublicURL == ownURL(next.TLS, next.Listen) {
		next.PublicURL = holds.PublicURL // follows from listen and tls, which are named
	}
	c.Listen, c.PublicURL, c.Vault, c.Replicas = holds.Listen, holds.PublicURL, holds.Vault, holds.Replicas
	c.TLS, c.HTTP, c.Connections = holds.TLS, holds.HTTP, holds.Connections
	c.State = holds.State
	c.Sessions = sessionsUntilRestart(holds.Sessions, next.Sessions)
	c.Admin = adminUntilRestart(holds.Admin, next.Admin)
	c.Telemetry = holds.Telemetry
	c.Telemetry.Log.Level = next.Telemetry.Log.Level
	var found problems.List
	for _, key := range []struct {
		name      string
		now, next any
	}{
		{"listen", c.Listen, next.Listen},
		{"tls", c.TLS, next.TLS},
		{"public_url", c.PublicURL, next.PublicURL},
		{"sessions", c.Sessions, next.Sessions},
		{"vault", c.Vault, next.Vault},
		{"state", holds.StateDirectory(), next.StateDirectory()},
		{"replicas", c.Replicas, next.Replicas},
		{"http", c.HTTP, next.HTTP},
		{"connections", c.Connections, next.Connections},
		{"admin", c.Admin, next.Admin},
		{"telemetry", c.Telemetry, next.Telemetry},
	} {
		found.When(!reflect.DeepEqual(key.now, key.next), "%s: waits for a restart, which alone can change it", key.name)
	}
	return c, found.Err()
}

// sessionsUntilRestart returns the section in force, with the next one's user of Redis.
func sessionsUntilRestart(holds, next session.Config) session.Config {
	now, then := holds, next
	now.Redis, then.Redis = now.Redis.WithoutUser(), then.Redis.WithoutUser()
	if reflect.DeepEqual(now, then) {
		return next
	}
	holds.Redis = holds.Redis.WithUserOf(next.Redis)
	return holds
}

// adminUntilRestart returns the section in force, with the next one's operators: only whether there
// are an API and a console cannot change.
func adminUntilRestart(holds, next console.Section) console.Section {
	holds.Rules = next.Rules
	if holds.API.IsZero() == next.API.IsZero() {
		holds.API = next.API
	}
	if holds.Console.IsZero() == next.Console.IsZero() {
		holds.Console = next.Console
	}
	return holds
}
