package gateway

import (
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// UpstreamHealth is the state of one upstream. It contains no secrets.
type UpstreamHealth struct {
	Name string `json:"name"`
	// State is connecting, ready, degraded, needs-login or down.
	State upstream.State `json:"state"`
	// Since is when the state began.
	Since time.Time `json:"since"`
	// LastFailure is the last failure; nil for none.
	LastFailure *FailureReport `json:"last_failure,omitempty"`
	// RefusedUntil is until when calls are refused without asking the server; nil if they are
	// not.
	RefusedUntil *time.Time `json:"calls_refused_until,omitempty"`
	// UsersNeedLogin is how many users have a credential that the server has refused.
	UsersNeedLogin int `json:"users_need_login,omitempty"`
}

// FailureReport is a failure.
type FailureReport struct {
	At time.Time `json:"at"`
	// Code is the name of the failure, as in docs/errors.md.
	Code string `json:"error_code"`
	// Stage is resolve, connect, tls, login, handshake, call or list.
	Stage string `json:"stage"`
	Error string `json:"error"`
	// Cause is a detail for operators only, such as an address; "" for nothing.
	Cause string `json:"cause,omitempty"`
}

// stageList is the stage of an upstream's failure if calls succeed but lists do not.
const stageList = "list"

// healthOf combines what calls have shown with what lists have shown.
func healthOf(view catalog.UpstreamView, status upstream.Status) UpstreamHealth {
	h := UpstreamHealth{Name: view.Name, State: status.State, Since: status.Since, UsersNeedLogin: status.UsersNeedLogin}
	if status.Last.Error != "" {
		h.LastFailure = &FailureReport{At: status.Last.At, Code: status.Last.Name.String(), Stage: status.Last.Stage, Error: status.Last.Error, Cause: status.Last.Cause}
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
			h.LastFailure = &FailureReport{At: view.Since, Code: view.Failed.String(), Stage: stageList, Error: view.LastError}
		}
	}
	return h
}
