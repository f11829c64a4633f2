package auth

import (
	"crypto/x509"
	"strings"
	"time"
)

// The states of an issuer.
const (
	StateReady    = "ready"    // its keys are there, and the last fetch was good
	StateDegraded = "degraded" // its keys are there, but something fails
	StateDown     = "down"     // there are no keys: its tokens are answered with 503
)

// Status is the state of an issuer.
type Status struct {
	Issuer  string // URL
	State   string // StateReady, StateDegraded or StateDown
	Reason  string // for a state other than ready, to show to people
	Keys    int    // that can verify tokens
	Refused []string
	Fetched time.Time // time of the last successful fetch of keys; zero for never
	// Certificate is that of the issuer's host, nil if it has shown none that is valid.
	Certificate *x509.Certificate
	Counts
}

// Pending reports whether the first fetch of keys has not ended yet.
func (s Status) Pending() bool { return s.Fetched.IsZero() && s.Failures == 0 }

// Status returns the state of each issuer, in the order of the configuration.
func (a *Auth) Status() []Status {
	var all []Status
	for _, iss := range a.list {
		s := iss.keys.status()
		s.Certificate = iss.client.Peer()
		if a.opaque != nil && a.opaque.issuer == iss && a.opaque.failing.Load() && s.State == StateReady {
			s.State, s.Reason = StateDegraded, "tokens cannot be introspected"
		}
		all = append(all, s)
	}
	return all
}

// Ready reports whether tokens of some issuer can be verified. reason says why tokens of an
// issuer cannot. Without issuers it is always ready.
func (a *Auth) Ready() (ok bool, reason string) {
	var reasons []string
	for _, s := range a.Status() {
		ok = ok || s.State != StateDown
		if s.Reason != "" {
			reasons = append(reasons, "issuer "+s.Issuer+": "+s.Reason)
		}
	}
	return ok || len(a.list) == 0, strings.Join(reasons, "; ")
}

func (k *keys) status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := Status{Issuer: k.issuer, State: StateReady, Fetched: k.fetched, Counts: k.count}
	if k.set != nil {
		s.Keys, s.Refused = len(k.set.keys), k.set.refused
	}
	switch {
	case !k.usable(time.Now()):
		s.State, s.Reason = StateDown, k.trouble().Error()
	case k.failure != nil:
		s.State, s.Reason = StateDegraded, k.failure.Error()
	case s.Keys == 0 && !k.keyless:
		s.State, s.Reason = StateDegraded, "it has no key that can verify a token"
	}
	return s
}
