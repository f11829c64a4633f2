package health

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/settings"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// ExcludeStore is the check that a balancer can exclude, as in /readyz?exclude=store: without the store all replicas are alike,
// and still serve what needs no session.
const ExcludeStore = "store"

// Deps are what health is told from. All but Redis are required.
type Deps struct {
	// Stopping reports whether the gateway takes no new sessions any more, and Heard whether each
	// upstream has answered or failed once.
	Stopping, Heard func() bool
	Upstreams       func() []Upstream
	Issuers         func() []auth.Status
	Replicas        func() []Replica // the other ones
	Configuration   func() settings.Status
	Redis           *redisdb.DB // the session store; nil for memory
}

// Desk answers whoever asks whether this replica is ready. It is safe for concurrent use.
type Desk struct {
	deps    Deps
	warm    atomic.Bool // lists were there once
	reached atomic.Bool // an issuer has answered once
}

// NewDesk returns a desk.
func NewDesk(deps Deps) *Desk { return &Desk{deps: deps} }

// ServeHTTP tells whether this replica takes new sessions: 200, or 503 with the reasons. Only those
// who ask on this machine learn more.
func (d *Desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reasons := append(d.notReady(), d.noIssuer()...)
	excluded, told := r.URL.Query().Get("exclude") == ExcludeStore, loopback.Sent(r)
	away := ""
	if !excluded || told {
		away = d.StoreAway(r.Context())
	}
	if !excluded && away != "" {
		reasons = append(reasons, away)
	}
	answer := struct {
		Ready         bool           `json:"ready"`
		Reasons       []string       `json:"reasons,omitempty"`
		Upstreams     []Upstream     `json:"upstreams,omitempty"`
		Issuers       []Issuer       `json:"issuers,omitempty"`
		Store         *store         `json:"store,omitempty"`
		Replicas      []Replica      `json:"replicas,omitempty"` // the other replicas
		Configuration *configuration `json:"configuration,omitempty"`
	}{Ready: len(reasons) == 0, Reasons: reasons}
	if told {
		answer.Upstreams, answer.Issuers, answer.Replicas = d.deps.Upstreams(), d.issuers(), d.deps.Replicas()
		answer.Store, answer.Configuration = &store{Kind: d.kind(), Ready: away == "", Reason: away}, d.configuration()
	}
	w.Header().Set("Content-Type", "application/json")
	if !answer.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer) // whoever asked has left
}

// notReady returns why this replica takes no new sessions, nil if it does.
func (d *Desk) notReady() (reasons []string) {
	if d.deps.Stopping() {
		reasons = append(reasons, "the gateway is stopping")
	}
	if !d.warm.Load() && !d.deps.Heard() {
		reasons = append(reasons, "the gateway has just started and waits for its upstreams")
	}
	d.warm.Store(len(reasons) == 0 || d.warm.Load())
	return reasons
}

// noIssuer returns why nobody can sign in: no issuer has been reached since the start. An issuer that
// was reached once is enough, since its keys are kept.
func (d *Desk) noIssuer() []string {
	if d.reached.Load() {
		return nil
	}
	all := d.deps.Issuers()
	if len(all) == 0 || slices.ContainsFunc(all, func(s auth.Status) bool { return !s.Fetched.IsZero() }) {
		d.reached.Store(true)
		return nil
	}
	return []string{"no issuer of tokens has been reached yet"}
}

func (d *Desk) issuers() (all []Issuer) {
	for _, s := range d.deps.Issuers() {
		all = append(all, Issuer{URL: s.Issuer, State: s.State, Reason: s.Reason, Keys: s.Keys, Fetched: s.Fetched})
	}
	return all
}

// StoreAway returns why no replica takes new sessions, "" if the store can keep one.
func (d *Desk) StoreAway(ctx context.Context) string {
	if d.deps.Redis == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	switch err := d.deps.Redis.Room(ctx); {
	case err == nil:
		return ""
	case errors.Is(err, redisdb.ErrFull):
		return "the session store is full"
	}
	return "the session store does not answer, or takes no changes"
}

func (d *Desk) kind() string {
	if d.deps.Redis == nil {
		return session.StoreMemory
	}
	return session.StoreRedis
}

func (d *Desk) configuration() *configuration {
	c := &configuration{Status: d.deps.Configuration()}
	if c.Err != nil {
		c.Problems = strings.Split(c.Err.Error(), "\n")
	}
	for _, p := range c.Status.Pending {
		c.Pending = append(c.Pending, p.Path)
	}
	return c
}
