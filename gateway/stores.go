package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/accounts"
	"github.com/gatehouse-mcp/gatehouse/auth/grants"
	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/diagnose"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/results"
	"github.com/gatehouse-mcp/gatehouse/gateway/lifecycle"
	"github.com/gatehouse-mcp/gatehouse/gateway/observe"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
	"github.com/gatehouse-mcp/gatehouse/gateway/state"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/largeresults"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/internal/tracing"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/policy/allowance"
	"github.com/gatehouse-mcp/gatehouse/policy/foureyes"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// hopPrefix begins the names of gateways in Via.
const hopPrefix = "gatehouse-"

// hopOf returns the name in Via of all replicas that share a secret.
func hopOf(secret []byte) string {
	name := hmac.New(sha256.New, secret)
	name.Write([]byte("via"))
	return hopPrefix + hex.EncodeToString(name.Sum(nil)[:8])
}

// shared holds what all graphs use, and what replicas share: it outlives graphs and the servers of
// clients. A gateway alone has it in its memory, with its own keys.
type shared struct {
	version string
	log     *slog.Logger
	metrics *meters

	sessions session.Store // nil when no clients are served
	cluster  *cluster.Cluster
	asked    *http.ServeMux // answers other replicas
	redis    *redisdb.DB    // nil for none
	base     expiring.Base  // of what outlives the process
	secret   []byte         // of sealing keys, nil for random ones
	accepted [][]byte       // secrets of keys that only open
	hop      string         // names the gateway in Via, the same for all replicas

	// For policy.
	approvals, rounds policy.Approvals
	buckets           allowance.Buckets
	waiting           *foureyes.Table // calls that wait for approval by another person; nil when no calls are served

	vault    *vault.Vault       // users' own accounts at servers
	accounts *accounts.Accounts // has users sign in at servers; nil when no clients are served
	oauth    *grants.State      // of the gateway's own authorization server
	proofs   *expiring.Store    // proofs of tokens that were used (DPoP)

	grants  disclosure.Grants // which tool definitions were shown
	results results.Store
	kept    upstream.Keeper         // for sessions at upstreams; nil for the memory of this process
	list    func() []session.Listed // the sessions of this process; nil for none
	clients upstream.Clients        // take what servers say in sessions; nil when no clients are served
	cursors *seal.Key
	tasks   *seal.Key
	memory  *mcp.Memory  // nil for no bound, when no clients are served
	lasting *mcp.Lasting // what outlives its request

	recent   *recent.Records // for operators; nil for none
	servers  *operate.Book   // what operators do to servers and see of them; nil for no operators
	journal  *audit.Journal
	observer *observe.Observer
	events   *observe.Events             // records events that are no calls
	spoofs   *diagnose.SpoofLog          // records what may deceive
	tracer   *tracing.Tracer             // nil for none
	stopPush func(context.Context) error // of metrics; nil for none

	// collect takes every definition in place of guards; nil for guards.
	collect func(upstream string, d pin.Definition)
	// listed is the log of what lists show.
	listed *slog.Logger
}

// inMemory returns the stores of a process without replicas and sessions.
func inMemory(version string, log *slog.Logger) (*shared, error) {
	s := newShared(version, log, newMeters(version, false))
	return s, s.complete(vault.Config{}, vault.Deps{Log: log})
}

func newShared(version string, log *slog.Logger, count *meters) *shared {
	return &shared{
		version: version, log: log, listed: log, metrics: count, hop: hopPrefix + rand.Text(), cluster: cluster.Alone(),
		approvals: policy.NewMemory(), rounds: policy.NewMemory(), buckets: allowance.NewMemory(),
		grants: session.NewGrants(nil), results: largeresults.NewMemory(largeresults.Bounds{}),
		events: observe.NewEvents(nil), spoofs: diagnose.NewSpoofLog(nil), lasting: mcp.NewLasting(nil),
		asked: http.NewServeMux(),
	}
}

// complete makes the parts that need the secret or Redis.
func (s *shared) complete(keeping vault.Config, deps vault.Deps) (err error) {
	s.cursors, s.tasks = s.key("catalog cursor"), s.key("task id")
	s.proofs = expiring.New(s.base.Brief(), nil, "dpop", auth.MaxProofs)
	if s.vault, err = vault.New(keeping, deps); err != nil {
		return err
	}
	s.oauth, err = grants.NewState(s.base, s.newKey)
	return err
}

// open opens the stores for serving clients, as sessions.store says. The steps of undo are
// registered first, since their order is not that of opening in reverse: replicas take over the
// remaining sessions, upstreams hear that sessions end, and all of it is recorded.
func (s *shared) open(cfg config.Config, revision string, now *current, undo *lifecycle.List) error {
	if cfg.Sessions.Store != session.StoreRedis {
		whole := largeresults.NewMemory(cfg.Sessions.Results)
		undo.OnStop("large results", func(context.Context) error { whole.Close(); return nil })
		s.results = whole
	}
	undo.OnStop("recent records", func(ctx context.Context) error { return s.recent.Close(ctx) })
	undo.OnStop("audit", func(ctx context.Context) error { return s.journal.Close(ctx) })
	undo.OnStop("traces", func(ctx context.Context) error { return s.tracer.Close(ctx) })
	undo.OnStop("metrics", func(ctx context.Context) error {
		if s.stopPush == nil {
			return nil
		}
		return s.stopPush(ctx)
	})
	undo.OnStopSlow("upstreams", processesEnd, now.close)
	undo.OnStop("sessions", s.closeSessions)
	undo.OnStop("replicas", s.closeReplicas)

	var revisions []string
	for _, r := range wire.Revisions() {
		if r.Stateful {
			revisions = append(revisions, r.Name)
		}
	}
	keys, err := state.KeysOf(cfg, true)
	if err != nil {
		return fmt.Errorf("the key of the state: %w", err)
	}
	if s.secret, s.accepted = keys.Secret, keys.Accepted; s.secret != nil {
		s.hop = hopOf(s.secret)
	}
	if s.base.File, err = state.Open(cfg, keys); err != nil {
		return err
	}
	registry := s.metrics.Registry
	deps := session.Deps{Log: s.log, Metrics: session.NewMetrics(registry, revisions...), Redis: s.metrics.Redis}
	forwards := cluster.NewMetrics(registry) // 0 for a gateway alone
	var redis *session.Redis                 // likewise
	if cfg.Sessions.Store == session.StoreRedis {
		var err error
		if redis, err = session.NewRedis(cfg.Sessions, deps); err != nil {
			return err
		}
		s.sessions, s.redis = redis, redis.DB()
		s.base.Redis = s.redis
		joined, err := cluster.New(cfg.Replicas, cluster.Deps{
			DB: s.redis, Key: s.secret, Accepted: s.accepted, Idle: cfg.Sessions.Kept(), Revision: revision,
			Version: s.version,
			Asked:   s.asked, Log: s.log, Metrics: forwards,
		})
		if err != nil {
			return err
		}
		s.cluster = joined
	}
	if err := s.openRecords(cfg, now); err != nil {
		return err
	}
	s.events.Reloaded(record.Record{Event: "start", Revised: revision})
	deps.Homes = home.Config{Events: sessionEvents{s, now}, Metrics: home.NewMetrics(registry)}
	var fourEyes *foureyes.Shared
	if redis != nil {
		fourEyes = s.share(cfg, redis, deps)
	} else {
		memory, err := session.NewMemory(cfg.Sessions, deps)
		if err != nil {
			return err
		}
		s.sessions, s.grants, s.list = memory, session.NewGrants(memory.Homes()), memory.List
	}
	s.waiting = foureyes.New(foureyes.Deps{May: now.approves, Shared: fourEyes, Metrics: foureyes.NewMetrics(registry)})
	s.memory = mcp.NewMemory(cfg.InFlight(debug.SetMemoryLimit(-1)))
	s.clients, s.lasting = now, mcp.NewLasting(now.holds)
	return s.complete(keys.Vault, vault.Deps{
		Log: s.log, Base: s.base, Reach: now.reach, URL: now.url, Told: s.events.Account,
		Metrics: vault.NewMetrics(registry),
	})
}

// openRecords opens the sinks of records and traces. Replicas share recent records.
func (s *shared) openRecords(cfg config.Config, now *current) (err error) {
	registry, self := s.metrics.Registry, s.cluster.Self()
	sinks := audit.Deps{Replica: self, Version: s.version, Log: s.log, Metrics: audit.NewMetrics(registry)}
	kept := recent.NewMetrics(registry) // 0 without operators
	if cfg.Admin.Operated() {
		api := cfg.Admin.API
		deps := recent.Deps{Replica: self, Most: api.RecentBytes, Messages: trail.Mode(api.Messages), Metrics: kept}
		if s.redis != nil {
			deps.DB, deps.Key = s.redis, s.key("recent records")
		}
		s.recent, s.servers = recent.New(deps), operate.NewBook()
		sinks.Also = s.recent.Put
	}
	if s.journal, err = audit.New(cfg.Audit, sinks); err != nil {
		return err
	}
	s.events, s.spoofs = observe.NewEvents(s.journal), diagnose.NewSpoofLog(s.journal)
	s.observer = &observe.Observer{
		Log: s.log, Metrics: s.metrics.Calls,
		Recorder: &observe.Recorder{Journal: s.journal, RuleAt: now.ruleAt, Keeps: now.keeps, Server: now.era},
	}
	deps := tracing.Deps{Replica: self, Version: s.version, Log: s.log, Metrics: tracing.NewMetrics(registry)}
	s.tracer, err = tracing.New(cfg.Tracing, deps)
	if err == nil && !cfg.Telemetry.Metrics.IsZero() {
		s.stopPush, err = tracing.Push(cfg.Telemetry.Metrics, registry, deps)
	}
	return err
}

// share opens the stores in Redis.
func (s *shared) share(cfg config.Config, redis *session.Redis, deps session.Deps) *foureyes.Shared {
	deps.Homes.Owners = s.cluster
	redis.Open(deps)
	s.grants, s.kept, s.list = redis.Grants(), redis.Keeper(), redis.List
	s.results = largeresults.NewRedis(s.redis, s.key("result"), cfg.Sessions.Results)
	approvals := s.key("approval")
	s.approvals = policy.NewRedisApprovals(s.redis, approvals, "approvals")
	s.rounds = policy.NewRedisApprovals(s.redis, approvals, "rounds")
	s.buckets = allowance.NewRedis(s.redis)
	return foureyes.NewShared(s.redis, s.key("four eyes"))
}

func (s *shared) closeReplicas(ctx context.Context) error {
	s.cluster.Drain(ctx)
	if homes := s.homes(); homes != nil {
		homes.Close(ctx)
	}
	s.cluster.Close(ctx)
	return nil
}

func (s *shared) closeSessions(context.Context) error {
	if s.vault != nil {
		s.vault.Close()
	}
	var errs []error
	if s.sessions != nil {
		errs = append(errs, s.sessions.Close())
	}
	if s.base.File != nil {
		errs = append(errs, s.base.File.Close())
	}
	return errors.Join(errs...)
}

// homes returns the homes of the sessions, nil if there are none.
func (s *shared) homes() *home.Table {
	if s.sessions == nil {
		return nil
	}
	return s.sessions.Homes()
}

// key returns the sealing key for a purpose. The secrets are those of a valid configuration, and such a
// secret has a key for any purpose.
func (s *shared) key(purpose string) *seal.Key {
	key, err := s.newKey(purpose)
	if err != nil {
		panic(err)
	}
	return key
}

func (s *shared) newKey(purpose string) (*seal.Key, error) {
	if s.secret == nil {
		return seal.NewRandom(purpose)
	}
	return seal.NewKey(s.secret, purpose, s.accepted...)
}

// turned takes the state of an upstream as its lists show it.
func (s *shared) turned(view catalog.UpstreamView) { s.servers.Of(view.Name).Listed(view) }

// remember shows operators the states of a graph's upstreams.
func (s *shared) remember(g *graph) {
	for _, m := range g.members {
		s.servers.Of(m.Name()).Begin(m.reports, m.Status(), "", "")
	}
	s.servers.Keep(g.cfg.UpstreamNames())
}

// sessionEvents takes the events of the homes of sessions (home.Events).
type sessionEvents struct {
	*shared
	now *current
}

// Opened tells the catalog that a session has come to this replica.
func (e sessionEvents) Opened(h *home.Home) { e.now.graph().catalog.Arrived(h.String()) }

// Closed records the end of a session.
func (e sessionEvents) Closed(h *home.Home, why home.Why) {
	if !why.Over() || h.Key().Derived() {
		return
	}
	r := session.Of(h)
	e.events.SessionEnded(r)
	if !r.Created.IsZero() {
		e.tracer.ServerSession(r.Revision, time.Since(r.Created))
	}
}
