package diagnose

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// ExcludeStore is the check that a balancer can exclude, as in /readyz?exclude=store. Without the store all replicas
// are alike, and still serve calls without a session.
const ExcludeStore = "store"

// Serving holds the facts that readiness depends on, at a moment.
type Serving struct {
	Stopping      bool // the gateway takes no new sessions any more
	Heard         bool // each upstream has answered or failed once
	Upstreams     []Upstream
	Issuers       []auth.Status
	Replicas      []Replica // the other ones
	Version       string    // of this one
	Configuration operate.ConfigStatus
}

// Readiness answers probes that ask whether this replica is ready (/readyz). It is safe for concurrent use.
type Readiness struct {
	redis   *redisdb.DB // the session store; nil for memory
	now     func() Serving
	warm    atomic.Bool // lists were complete once
	reached atomic.Bool // an issuer has answered once
}

// NewReadiness returns a Readiness of a gateway with a session store, nil for memory.
func NewReadiness(redis *redisdb.DB, now func() Serving) *Readiness {
	return &Readiness{redis: redis, now: now}
}

// ServeHTTP tells whether this replica takes new sessions: 200, or 503 with the reasons. Only
// clients on this machine learn more.
func (r *Readiness) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	now := r.now()
	reasons := append(r.notReady(now), r.noIssuer(now.Issuers)...)
	excluded, told := req.URL.Query().Get("exclude") == ExcludeStore, loopback.Sent(req)
	away := ""
	if !excluded || told {
		away = r.StoreAway(req.Context())
	}
	if !excluded && away != "" {
		reasons = append(reasons, away)
	}
	answer := struct {
		Ready         bool           `json:"ready"`
		Reasons       []string       `json:"reasons,omitempty"`
		Warnings      []string       `json:"warnings,omitempty"`
		Upstreams     []Upstream     `json:"upstreams,omitempty"`
		Issuers       []Issuer       `json:"issuers,omitempty"`
		Store         *sessionStore  `json:"store,omitempty"`
		Replicas      []Replica      `json:"replicas,omitempty"` // the other replicas
		Configuration *configuration `json:"configuration,omitempty"`
	}{Ready: len(reasons) == 0, Reasons: reasons}
	if told {
		answer.Warnings = severalVersions(now)
		answer.Upstreams, answer.Issuers, answer.Replicas = now.Upstreams, shownIssuers(now.Issuers), now.Replicas
		answer.Store, answer.Configuration = &sessionStore{Kind: r.kind(), Ready: away == "", Reason: away},
			newConfiguration(now.Configuration)
	}
	w.Header().Set("Content-Type", "application/json")
	if !answer.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer) // the client has left
}

// Versions returns how many replicas have each version, with this one.
func (s Serving) Versions() map[string]int {
	versions := map[string]int{s.Version: 1}
	for _, r := range s.Replicas {
		versions[r.Version]++
	}
	return versions
}

// severalVersions warns while replicas of several versions share a store, as during an upgrade.
func severalVersions(s Serving) []string {
	versions := s.Versions()
	if len(versions) < 2 {
		return nil
	}
	return []string{"replicas of several versions share this Redis: " +
		strings.Join(slices.Sorted(maps.Keys(versions)), ", ") + "; bring the upgrade to its end"}
}

// notReady returns why this replica takes no new sessions, nil if it does.
func (r *Readiness) notReady(now Serving) (reasons []string) {
	if now.Stopping {
		reasons = append(reasons, "the gateway is stopping")
	}
	if !r.warm.Load() && !now.Heard {
		reasons = append(reasons, "the gateway has just started and waits for its upstreams")
	}
	r.warm.Store(len(reasons) == 0 || r.warm.Load())
	return reasons
}

// noIssuer returns why no caller can sign in: no issuer has been reached since the start. One that
// was reached once is enough, since its keys are kept.
func (r *Readiness) noIssuer(all []auth.Status) []string {
	if r.reached.Load() {
		return nil
	}
	if len(all) == 0 || slices.ContainsFunc(all, func(s auth.Status) bool { return !s.Fetched.IsZero() }) {
		r.reached.Store(true)
		return nil
	}
	return []string{"no issuer of tokens has been reached yet"}
}

func shownIssuers(known []auth.Status) (all []Issuer) {
	for _, s := range known {
		all = append(all, Issuer{URL: s.Issuer, State: s.State, Reason: s.Reason, Keys: s.Keys, Fetched: s.Fetched})
	}
	return all
}

// StoreAway returns why no replica takes new sessions, "" if the store can keep one.
func (r *Readiness) StoreAway(ctx context.Context) string {
	if r.redis == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	switch err := r.redis.Room(ctx); {
	case err == nil:
		return ""
	case errors.Is(err, redisdb.ErrFull):
		return "the session store is full"
	}
	return "the session store does not answer, or takes no changes"
}

func (r *Readiness) kind() string {
	if r.redis == nil {
		return session.StoreMemory
	}
	return session.StoreRedis
}

func newConfiguration(status operate.ConfigStatus) *configuration {
	c := &configuration{ConfigStatus: status}
	if c.Err != nil {
		c.Problems = strings.Split(c.Err.Error(), "\n")
	}
	for _, p := range c.ConfigStatus.Pending {
		c.Pending = append(c.Pending, p.Path)
	}
	return c
}
