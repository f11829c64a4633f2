package config

import (
	"regexp"

	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// State is the section "state": where a gateway alone keeps what outlives it. With Redis, it is there.
type State struct {
	// Directory is for the gateway's user alone, such as /var/lib/gatehouse. It has, sealed, users' own
	// accounts at servers, certificates by ACME, and what auth.server keeps; without sessions.key or
	// vault.keys, also a key for it. There is none with Redis, which has all of this. Default: with auth.mode
	// none and accounts at servers, one for each listen in gatehouse in the user's directory for settings,
	// such as ~/.config; else none, and all of this ends with the process.
	Directory string `yaml:"directory"`
}

// notInName matches what is not taken into the name of a directory.
var notInName = regexp.MustCompile(`[^A-Za-z0-9.]+`)

// checkState returns mistakes in the section "state".
func checkState(c Config) (found problems.List) {
	found.When(c.Sessions.Store == session.StoreRedis && c.State.Directory != "",
		"state: directory: with sessions.store: redis everything is in Redis: take it away, after gatehouse state export and import if there is something in it")
	ordered := c.TLS.ACME != nil || c.Admin.TLS.ACME != nil
	found.When(ordered && c.Sessions.Store != session.StoreRedis && c.StateDirectory() == "",
		"state: directory: acme needs it to keep certificates, or each start would order new ones: name one, such as /var/lib/gatehouse, or say sessions.store: redis")
	return found
}

// stateDoubts reports what users lose with each restart.
func stateDoubts(c Config) (doubts problems.List) {
	if c.Sessions.Store == session.StoreRedis || c.StateDirectory() != "" {
		return nil
	}
	const again = "end with the process, and users sign in again: set state.directory, such as /var/lib/gatehouse, or sessions.store: redis"
	doubts.When(c.Auth.Server.Enabled, "auth: server: grants and consents "+again)
	doubts.When(HasAccounts(c.Upstreams), "vault: users' accounts at servers "+again)
	return doubts
}
