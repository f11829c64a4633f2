package vault

import (
	"context"
	"errors"
	"time"
)

// Values of State.State.
const (
	StateOK          = "ok"
	StateNeedsSignIn = "needs_sign_in"
	StateExpired     = "expired" // the token has ended, and there is no refresh token
	StateRevoked     = "revoked" // the authorization server does not refresh it any more
	StateError       = "error"   // it cannot be refreshed now
)

// AllStates are the values of State.State.
func AllStates() []string {
	return []string{StateOK, StateNeedsSignIn, StateExpired, StateRevoked, StateError}
}

// State is the state of a user's account at a server.
type State struct {
	Server string
	State  string
	// Why is the reason of a state other than ok, "" for none.
	Why string
	// Since is when the user signed in, Used when the account was last used, to the minute. Zero
	// for never.
	Since, Used time.Time
	// Expires is when the access token ends; zero if that is unknown.
	Expires time.Time
	// AuthServer is where the user has signed in, Scope what was granted.
	AuthServer, Scope string
	// Wanted are the scopes that the server has asked for beyond those. The next sign-in should
	// ask for them, too.
	Wanted []string
	// Unknown is what the gateway had registered itself as at AuthServer, which does not know it any
	// more; "" if no server has said so.
	Unknown string
}

// States returns the state of a user's account at each of these servers. The error is that of the
// store.
func (v *Vault) States(ctx context.Context, owner Owner, servers []string) ([]State, error) {
	all := make([]State, 0, len(servers))
	now := time.Now()
	for _, server := range servers {
		at := place{owner, server}
		a := v.account(at)
		since := a.since()
		k, err := v.read(ctx, a)
		switch {
		case errors.Is(err, errUnreadable):
			all = append(all, State{Server: server, State: StateNeedsSignIn, Why: "what is kept cannot be opened"})
			continue
		case err != nil:
			return nil, away(err)
		case k == nil:
			a.forget()
			all = append(all, State{Server: server, State: StateNeedsSignIn})
			continue
		}
		a.learn(since, k, now)
		s := v.stateOf(at, k, now)
		s.Used = v.used(ctx, at)
		all = append(all, s)
	}
	return all, nil
}

// stateOf says in which state an account is.
func (v *Vault) stateOf(at place, k *known, now time.Time) State {
	s := State{
		Server: at.server, State: StateOK, Since: k.Since, Expires: k.Grant.Expires,
		AuthServer: k.Grant.AuthServer, Scope: k.Grant.Scope, Wanted: k.Wanted,
	}
	if k.Unknown {
		s.Unknown = k.Grant.ClientID
	}
	switch {
	case k.End != "":
		s.State, s.Why = k.End, k.Why
	case v.deps.URL != nil && v.deps.URL(at.server) != k.Grant.URL:
		s.State, s.Why = StateNeedsSignIn, "the server has another address than the one at which the user signed in"
	case !k.dead(now):
	case k.Grant.RefreshToken == "":
		s.State, s.Why = StateExpired, "the token has ended, and there is none to refresh it with"
	case k.Trouble != nil:
		s.State, s.Why = StateError, k.Trouble.Why
	}
	return s
}

// Counts returns how many of the accounts that this process knows are in each state, by server.
func (v *Vault) Counts() map[string]map[string]int {
	counts, now := make(map[string]map[string]int), time.Now()
	for _, a := range v.known.Values() {
		k, _ := a.now(now)
		if k == nil {
			continue
		}
		if counts[a.server] == nil {
			counts[a.server] = make(map[string]int)
		}
		counts[a.server][v.stateOf(a.place, k, now).State]++
	}
	return counts
}
