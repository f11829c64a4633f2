package gateway

import (
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// UpstreamHealth is how one upstream is. It holds no secrets.
type UpstreamHealth struct {
	Name string `json:"name"`
	// State is connecting, ready, degraded, needs-login or down.
	State upstream.State `json:"state"`
	// Since is when the state was entered.
	Since time.Time `json:"since"`
	// LastFailure is what went wrong last; nil for nothing.
	LastFailure *FailureReport `json:"last_failure,omitempty"`
	// RefusedUntil is until when calls are refused without asking the server; nil when
	// they are not.
	RefusedUntil *time.Time `json:"calls_refused_until,omitempty"`
	// UsersNeedLogin is of how many users the server has refused their own credential.
	UsersNeedLogin int `json:"users_need_login,omitempty"`
}

// FailureReport is what went wrong.
type FailureReport struct {
	At time.Time `json:"at"`
	// Stage is resolve, connect, tls, login, handshake, call or list.
	Stage string `json:"stage"`
	Error string `json:"error"`
	// Cause is what only operators are told, such as an address; "" for nothing.
	Cause string `json:"cause,omitempty"`
}

// stageList is where an upstream fails whose calls pass and whose lists do not come.
const stageList = "list"

// healthOf puts together what calls and what lists have shown.
func healthOf(view catalog.UpstreamView, status upstream.Status) UpstreamHealth {
	h := UpstreamHealth{Name: view.Name, State: status.State, Since: status.Since, UsersNeedLogin: status.UsersNeedLogin}
	if status.Last.Error != "" {
		h.LastFailure = &FailureReport{At: status.Last.At, Stage: status.Last.Stage, Error: status.Last.Error, Cause: status.Last.Cause}
	}
	if !status.Refused.IsZero() {
		h.RefusedUntil = &status.Refused
	}
	if status.State != upstream.StateReady {
		return h
	}
	switch view.State { // it answers calls, but not all
	case catalog.StateConnecting:
		h.State, h.Since = upstream.StateConnecting, view.Since
	case catalog.StateFailing, catalog.StateDown:
		h.State, h.Since = upstream.StateDegraded, view.Since
		if h.LastFailure == nil || h.LastFailure.At.Before(view.Since) {
			h.LastFailure = &FailureReport{At: view.Since, Stage: stageList, Error: view.LastError}
		}
	}
	return h
}
