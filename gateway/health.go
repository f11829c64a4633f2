package gateway

import (
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/servers"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// UpstreamHealth is the state of one upstream. It contains no secrets.
type UpstreamHealth struct {
	Name string `json:"name"`
	// State is connecting, ready, degraded, needs-login, down or disabled.
	State upstream.State `json:"state"`
	// Since is when the state began.
	Since time.Time `json:"since"`
	// LastFailure is the last failure; nil for none.
	LastFailure *admin.Failure `json:"last_failure,omitempty"`
	// RefusedUntil is until when calls are refused without asking the server; zero if they are
	// not.
	RefusedUntil time.Time `json:"calls_refused_until,omitzero"`
	// UsersNeedLogin is how many users have a credential that the server has refused.
	UsersNeedLogin int `json:"users_need_login,omitempty"`
}

// healthOf combines what calls have shown with what lists have shown.
func healthOf(view catalog.UpstreamView, status upstream.Status) UpstreamHealth {
	state, since, last := servers.StateOf(view, status)
	return UpstreamHealth{
		Name: view.Name, State: state, Since: since, LastFailure: servers.ShownFailure(last),
		RefusedUntil: status.Refused, UsersNeedLogin: status.UsersNeedLogin,
	}
}

// ReplicaHealth is the state of another replica, as far as this one knows.
type ReplicaHealth struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	// Revision is the revision of the replica's configuration.
	Revision string `json:"revision,omitempty"`
	// Leaving says that the replica is about to stop.
	Leaving bool `json:"leaving,omitempty"`
	// Error is why the replica cannot be reached, "" if it can.
	Error string `json:"error,omitempty"`
}

func (g *Gateway) replicas() (all []ReplicaHealth) {
	for _, p := range g.services.cluster.Peers() {
		h := ReplicaHealth{Name: p.Name, Address: p.Address, Revision: p.Revision, Leaving: p.Leaving}
		if p.Err != nil {
			h.Error = p.Err.Error()
		}
		all = append(all, h)
	}
	return all
}

// IssuerHealth is the state of one issuer of tokens.
type IssuerHealth struct {
	URL string `json:"url"`
	// State is ready, degraded or down.
	State string `json:"state"`
	// Reason is why it is not ready.
	Reason string `json:"reason,omitempty"`
	Keys   int    `json:"keys"`
	// Fetched is when its keys were last fetched; zero for never.
	Fetched time.Time `json:"fetched,omitzero"`
}

func (g *Gateway) issuers() (all []IssuerHealth) {
	for _, s := range g.graph().auth.Status() {
		all = append(all, IssuerHealth{URL: s.Issuer, State: s.State, Reason: s.Reason, Keys: s.Keys, Fetched: s.Fetched})
	}
	return all
}

// noIssuer returns why nobody can sign in: no issuer has been reached since the start. An
// issuer that was reached once is enough, since its keys are kept.
func (g *Gateway) noIssuer() []string {
	if g.reached.Load() {
		return nil
	}
	all := g.issuers()
	if len(all) == 0 || slices.ContainsFunc(all, func(i IssuerHealth) bool { return !i.Fetched.IsZero() }) {
		g.reached.Store(true)
		return nil
	}
	return []string{"no issuer of tokens has been reached yet"}
}
