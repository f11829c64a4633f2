package gateway

import (
	"time"

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

// healthOf combines what calls have shown with what lists have shown.
func healthOf(view catalog.UpstreamView, status upstream.Status) UpstreamHealth {
	h := UpstreamHealth{Name: view.Name, UsersNeedLogin: status.UsersNeedLogin}
	var last upstream.Failure
	if h.State, h.Since, last = servers.StateOf(view, status); last.Error != "" {
		h.LastFailure = &FailureReport{At: last.At, Code: last.Name.String(), Stage: last.Stage, Error: last.Error, Cause: last.Cause}
	}
	if !status.Refused.IsZero() {
		h.RefusedUntil = &status.Refused
	}
	return h
}
