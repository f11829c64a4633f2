package diagnose

import (
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// Upstream is the health of one upstream. It contains no secrets.
type Upstream struct {
	Name string `json:"name"`
	// State is connecting, ready, degraded, needs-login, down, disabled or per user.
	State upstream.State `json:"state"`
	// Since is the begin of the state.
	Since time.Time `json:"since"`
	// LastFailure is the last failure; nil for none.
	LastFailure *admin.Failure `json:"last_failure,omitempty"`
	// RefusedUntil is the end of refusing calls without asking the server; zero if they are not
	// refused.
	RefusedUntil time.Time `json:"calls_refused_until,omitzero"`
	// UsersNeedLogin counts the users with a credential that the server has refused.
	UsersNeedLogin int `json:"users_need_login,omitempty"`
}

// UpstreamOf combines the states that calls and lists have shown.
func UpstreamOf(view catalog.UpstreamView, status upstream.Status) Upstream {
	state, since, last := operate.StateOf(view, status)
	return Upstream{
		Name: view.Name, State: state, Since: since, LastFailure: operate.ShownFailure(last),
		RefusedUntil: status.Refused, UsersNeedLogin: status.UsersNeedLogin,
	}
}

// Replica is the state of another replica, as far as this one knows.
type Replica struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	// Revision is the revision of the replica's configuration.
	Revision string `json:"revision,omitempty"`
	// Version is the version of its program; "unknown" for releases that do not tell.
	Version string `json:"version,omitempty"`
	// Leaving says that the replica is about to stop.
	Leaving bool `json:"leaving,omitempty"`
	// Error is the reason why the replica cannot be reached, "" if it can.
	Error string `json:"error,omitempty"`
}

// Issuer is the state of one issuer of tokens.
type Issuer struct {
	URL string `json:"url"`
	// State is ready, degraded or down.
	State string `json:"state"`
	// Reason is the cause why it is not ready.
	Reason string `json:"reason,omitempty"`
	Keys   int    `json:"keys"`
	// Fetched is the time when its keys were last fetched; zero for never.
	Fetched time.Time `json:"fetched,omitzero"`
}

// sessionStore is the state of the session store.
type sessionStore struct {
	Kind   string `json:"kind"` // memory or redis
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
}

// configuration is the state of the configuration file.
type configuration struct {
	operate.ConfigStatus
	Problems []string `json:"problems,omitempty"`        // why the current file is not in use
	Pending  []string `json:"pending_restart,omitempty"` // the keys of the file that wait for a restart
}
