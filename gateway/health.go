package gateway

import (
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
