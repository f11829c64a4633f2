package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/diagnose"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/results"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/largeresults"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/policy/foureyes"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// hopPrefix is what the names of gateways in Via begin with.
const hopPrefix = "gatehouse-"

// hopOf is the name in Via of all replicas that share a secret.
func hopOf(secret []byte) string {
	name := hmac.New(sha256.New, secret)
	name.Write([]byte("via"))
	return hopPrefix + hex.EncodeToString(name.Sum(nil)[:8])
}

// stores are what replicas of the gateway share. A gateway alone has them in its memory, with
// its own keys.
type stores struct {
	sessions session.Store
	cluster  *cluster.Cluster
	redis    *redisdb.DB // nil for none
	secret   []byte      // of sealing keys, nil for random ones
	accepted [][]byte    // secrets of keys that only open
	hop      string      // names the gateway in Via, the same for all replicas

	// For policy.
	approvals, rounds policy.Approvals
	buckets           policy.Buckets
	fourEyes          *foureyes.Shared // nil for the memory of this process

	vault *vault.Vault // users' own accounts at servers; nil when nobody is served

	grants  disclosure.Grants // which tool definitions were shown
	results results.Store

	kept    upstream.Keeper         // for sessions at upstreams; nil for the memory of this process
	list    func() []session.Listed // the sessions of this process; nil for none
	metrics *meters
}

// homes are those of the sessions, nil if nobody has any.
func (s *stores) homes() *home.Table {
	if s.sessions == nil {
		return nil
	}
	return s.sessions.Homes()
}

// inMemory returns the stores of a process alone in which nobody has sessions.
func inMemory(count *meters) *stores {
	return &stores{
		hop: hopPrefix + rand.Text(), metrics: count, cluster: cluster.Alone(),
		approvals: policy.NewMemory(), rounds: policy.NewMemory(), buckets: policy.NewMemoryBuckets(),
		grants: session.NewGrants(nil), results: largeresults.NewMemory(largeresults.Bounds{}),
	}
}

// newStores opens the stores as sessions.store says.
func (g *Gateway) newStores(cfg config.Config, count *meters) (s *stores, err error) {
	s = inMemory(count)
	defer func() {
		if err != nil && s.sessions != nil {
			s.homes().Close(context.Background())
			err = errors.Join(err, s.sessions.Close())
		}
	}()
	if s.secret, s.accepted = cfg.Sessions.Secrets(); s.secret != nil {
		s.hop = hopOf(s.secret)
	}
	var revisions []string
	for _, r := range wire.Revisions() {
		if r.Stateful {
			revisions = append(revisions, r.Name)
		}
	}
	deps := session.Deps{
		Homes: home.Config{Events: sessionEvents{g}, Metrics: home.NewMetrics(count.Registry)},
		Log:   g.log, Metrics: session.NewMetrics(count.Registry, revisions...), Redis: count.Redis,
	}
	forwards := cluster.NewMetrics(count.Registry) // 0 for a gateway alone
	var memory *session.Memory
	if cfg.Sessions.Store == session.StoreRedis {
		err = g.shareStores(s, cfg, deps, forwards)
	} else if memory, err = session.NewMemory(cfg.Sessions, deps); err == nil {
		whole := largeresults.NewMemory(cfg.Sessions.Results)
		g.undo.OnStop("large results", func(context.Context) error { whole.Close(); return nil })
		s.sessions, s.grants, s.results, s.list = memory, session.NewGrants(memory.Homes()), whole, memory.List
	}
	if err == nil {
		s.vault, err = openVault(g, cfg, s.redis, vault.NewMetrics(count.Registry))
	}
	return s, err
}

// shareStores opens the stores in Redis.
func (g *Gateway) shareStores(s *stores, cfg config.Config, deps session.Deps, forwards *cluster.Metrics) error {
	redis, err := session.NewRedis(cfg.Sessions, deps)
	if err != nil {
		return err
	}
	s.redis = redis.DB()
	s.cluster, err = cluster.New(cfg.Replicas, cluster.Deps{
		DB: s.redis, Key: s.secret, Accepted: s.accepted, Idle: cfg.Sessions.Kept(), Revision: g.reloaded.Revision,
		Asked: asked(g), Log: g.log, Metrics: forwards,
	})
	if err != nil {
		return errors.Join(err, redis.Close())
	}
	deps.Homes.Owners = s.cluster
	redis.Open(deps)
	s.sessions, s.grants, s.kept, s.list = redis, redis.Grants(), redis.Keeper(), redis.List
	s.results = largeresults.NewRedis(s.redis, s.key("result"), cfg.Sessions.Results)
	approvals := s.key("approval")
	s.approvals = policy.NewRedisApprovals(s.redis, approvals, "approvals")
	s.rounds = policy.NewRedisApprovals(s.redis, approvals, "rounds")
	s.buckets = policy.NewRedisBuckets(s.redis)
	s.fourEyes = foureyes.NewShared(s.redis, s.key("four eyes"))
	return nil
}

// openVault opens what keeps the users' own accounts at servers.
func openVault(g *Gateway, cfg config.Config, redis *redisdb.DB, metrics *vault.Metrics) (*vault.Vault, error) {
	server := func(name string) upstream.Config {
		for _, u := range g.graph().cfg.Upstreams {
			if u.Name == name {
				return u
			}
		}
		return upstream.Config{}
	}
	keeping, err := cfg.VaultConfig()
	if err != nil {
		g.log.Info("tokens of accounts at servers end with this process, since there is no directory for them: set vault.directory", "cause", err)
	}
	return vault.New(keeping, vault.Deps{
		Log: g.log, Redis: redis, Name: cfg.Listen, Told: func(e vault.Event) { g.services.events.Account(e) }, Metrics: metrics,
		URL: func(name string) string { return server(name).URL },
		Trust: func(name string) []string {
			if u := server(name); u.URL != "" {
				return u.Auth.Trusted(u.URL)
			}
			return nil
		},
	})
}

// key returns the sealing key for a purpose. The secrets are those of a valid configuration, and such a
// secret has a key for any purpose.
func (s *stores) key(purpose string) *seal.Key {
	key, err := s.newKey(purpose)
	if err != nil {
		panic(err)
	}
	return key
}

func (s *stores) newKey(purpose string) (*seal.Key, error) {
	if s.secret == nil {
		return seal.NewRandom(purpose)
	}
	return seal.NewKey(s.secret, purpose, s.accepted...)
}

// sessionsOf answers operators who ask for sessions.
func sessionsOf(g *Gateway) operate.Sessions {
	s := g.services
	return operate.Sessions{
		Log:  g.log,
		Self: s.cluster.Self(),
		List: s.list,
		End:  endSession(s.homes()),
		Held: operated{g},
		Others: func(ctx context.Context, method, path string, heard func(replica string, status int, body []byte, err error)) {
			for _, a := range s.cluster.Ask(ctx, method, path) {
				heard(a.Replica, a.Status, a.Body, a.Err)
			}
		},
	}
}

// endSession ends a session of this replica, for an operator.
func endSession(homes *home.Table) func(ctx context.Context, user, id string) error {
	return func(ctx context.Context, user, id string) error {
		h := homes.Known(home.Key{User: user, ID: id})
		if h == nil {
			return session.ErrNotFound
		}
		return h.End(ctx, home.Ended)
	}
}

// accountsOf answers operators who ask for users' accounts at servers.
func accountsOf(g *Gateway) operate.Accounts {
	return operate.Accounts{
		Vault:  g.services.vault,
		Now:    operated{g}.now,
		Lists:  g.signedIn,
		Others: operated{g}.post,
		Log:    g.log,
	}
}

// signedIn has the lists of a server asked for again for a user.
func (g *Gateway) signedIn(server string, caller *mcp.Caller) {
	g.graph().catalog.SignedIn(server, caller)
}

// asked answers other replicas: for operators who have signed in on their admin APIs, and for users
// whose accounts have changed there.
func asked(g *Gateway) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+operate.SessionsPath, func(w http.ResponseWriter, r *http.Request) { sessionsOf(g).Asked(w, r) })
	mux.HandleFunc("DELETE "+operate.SessionsPath+"/{session}", func(w http.ResponseWriter, r *http.Request) { sessionsOf(g).Asked(w, r) })
	mux.HandleFunc("POST "+operate.AccountsPath, func(w http.ResponseWriter, r *http.Request) { accountsOf(g).Told(w, r) })
	mux.HandleFunc("POST "+operate.ServersPath+"/{name}/{what}", func(w http.ResponseWriter, r *http.Request) { serversOf(g).Asked(w, r) })
	mux.HandleFunc("GET "+admin.CallPath+"{id}", func(w http.ResponseWriter, r *http.Request) {
		if g.recent == nil {
			http.NotFound(w, r)
			return
		}
		newAPI(g).AnswerCall(w, r)
	})
	return mux
}

// CallAt asks the replica that ran a call what it has of it.
func (r operated) CallAt(ctx context.Context, replica, id string, roles []string) ([]byte, error) {
	path := admin.CallPath + url.PathEscape(id) + "?" + url.Values{"role": roles}.Encode()
	switch a := r.services.cluster.AskOne(ctx, replica, http.MethodGet, path); {
	case a.Err != nil:
		r.log.Debug("a replica does not answer an operator", "replica", replica, "error", a.Err)
		return nil, fmt.Errorf("replica %s, which alone has its steps and messages, is away", replica)
	case a.Status != http.StatusOK:
		return nil, fmt.Errorf("replica %s, which ran it, has nothing of it any more", replica)
	default:
		return a.Body, nil
	}
}

// replicas returns the other replicas.
func (g *Gateway) replicas() (all []diagnose.Replica) {
	for _, p := range g.services.cluster.Peers() {
		h := diagnose.Replica{Name: p.Name, Address: p.Address, Revision: p.Revision, Leaving: p.Leaving}
		if p.Err != nil {
			h.Error = p.Err.Error()
		}
		all = append(all, h)
	}
	return all
}

// sessionEvents take what happens to the homes of sessions (home.Events).
type sessionEvents struct{ *Gateway }

// Opened says that a session has come to this replica.
func (g sessionEvents) Opened(h *home.Home) { g.graph().catalog.Arrived(h.String()) }

// Closed records the end of a session.
func (g sessionEvents) Closed(h *home.Home, why home.Why) {
	if !why.Over() || h.Key().Derived() {
		return
	}
	r := session.Of(h)
	g.services.events.SessionEnded(r)
	if !r.Created.IsZero() {
		g.services.tracer.ServerSession(r.Revision, time.Since(r.Created))
	}
}
