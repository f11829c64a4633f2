package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/results"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/servers"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/policy/foureyes"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// stores are what replicas of the gateway share. A gateway alone has them in its memory, with
// its own keys.
type stores struct {
	sessions session.Store
	cluster  *cluster.Cluster
	redis    *redisdb.DB // nil for none
	secret   []byte      // of sealing keys, nil for random ones
	accepted [][]byte    // secrets of keys that only open

	// For policy; nil for the memory of this process.
	approvals, rounds policy.Approvals
	buckets           policy.Buckets
	fourEyes          *foureyes.Shared

	vault *vault.Vault // users' own accounts at servers; nil when nobody is served

	grants  shownTools    // nil for the memory of this process
	results results.Store // likewise

	kept      upstream.Keeper             // for sessions at upstreams; nil for the memory of this process
	recordKey func(session string) string // the key of a session's record in Redis; nil for none
	drop      func(session string)        // forgets a session that another replica owns
	known     func() int                  // how many sessions this process knows; nil for none
	list      func() []session.Listed     // which these are; likewise
	metrics   *metrics                    // nil for none
}

// shownTools record which tool definitions were shown. They end with their sessions.
type shownTools interface {
	disclosure.Grants
	End(session string)
}

// newStores opens the stores as sessions.store says.
func (g *Gateway) newStores(cfg Config, metrics *metrics) (s *stores, err error) {
	s = &stores{metrics: metrics, drop: func(string) {}, cluster: cluster.Alone()}
	defer func() {
		if err != nil && s.sessions != nil {
			err = errors.Join(err, s.sessions.Close())
		}
	}()
	s.secret, s.accepted = cfg.Sessions.Secrets()
	deps := session.Deps{Log: g.log, OnEnd: g.endSession, Metrics: metrics.sessions, Redis: metrics.redis}
	if cfg.Sessions.Store == session.StoreRedis {
		err = g.shareStores(s, cfg, deps)
	} else {
		err = s.openMemory(cfg.Sessions, deps)
	}
	if err == nil {
		s.vault, err = openVault(g, cfg.Vault, s.redis, metrics.accounts)
	}
	return s, err
}

func (s *stores) openMemory(cfg session.Config, deps session.Deps) error {
	memory, err := session.NewMemory(cfg, deps)
	if err != nil {
		return err
	}
	s.sessions, s.results, s.known, s.list = memory, memory.Results(), memory.Known, memory.List
	return nil
}

// shareStores opens the stores in Redis.
func (g *Gateway) shareStores(s *stores, cfg Config, deps session.Deps) error {
	deps.Fence = func(key string) (string, string) { return s.cluster.Fence(key) } // nothing is written before the cluster is there
	deps.Moved = func(key, token string) { s.cluster.Doubt(key, token) }
	redis, err := session.NewRedis(cfg.Sessions, deps)
	if err != nil {
		return err
	}
	s.sessions, s.grants, s.results, s.kept, s.drop = redis, redis.Grants(), redis.Results(), redis.Kept(), redis.Drop
	s.known, s.list, s.redis, s.recordKey = redis.Known, redis.List, redis.DB(), redis.RecordKey
	s.cluster, err = cluster.New(cfg.Replicas, cluster.Deps{
		DB: s.redis, Key: s.secret, Accepted: s.accepted, Idle: cfg.Sessions.Kept(), Revision: g.reloaded.Revision,
		OnLost: g.dropSession, InUse: func(key string) bool { return g.front.InUse(key) }, Asked: asked(g), Log: g.log, Metrics: s.metrics.cluster,
	})
	if err != nil {
		return err
	}
	approvals, err := s.key("approval")
	if err != nil {
		return err
	}
	s.approvals = policy.NewRedisApprovals(s.redis, approvals, "approvals")
	s.rounds = policy.NewRedisApprovals(s.redis, approvals, "rounds")
	s.buckets = policy.NewRedisBuckets(s.redis)
	waiting, err := s.key("four eyes")
	if err != nil {
		return err
	}
	s.fourEyes = foureyes.NewShared(s.redis, waiting)
	return nil
}

// key returns the sealing key for a purpose.
func (s *stores) key(purpose string) (*seal.Key, error) {
	if s.secret == nil {
		return seal.NewRandom(purpose)
	}
	return seal.NewKey(s.secret, purpose, s.accepted...)
}

// maxClientName bounds what is shown of a text with which a client describes itself, in bytes.
const maxClientName = 256

// sessionsPath is where replicas ask each other for their sessions (cluster.Cluster.Ask).
const sessionsPath = "/sessions"

// knownSessions are the sessions of clients, as operators see and end them.
type knownSessions struct {
	self    string // the name of this replica
	list    func() []session.Listed
	end     func(ctx context.Context, user, id string) error
	cluster *cluster.Cluster
	// load counts what is held of a session here, ownLists are the servers that show it other lists.
	load     func(key string) live.Load
	ownLists func(key string) []string
}

func sessionsOf(g *Gateway) knownSessions {
	s := g.services
	return knownSessions{self: s.cluster.Self(), list: s.list, end: s.sessions.Delete, cluster: s.cluster, load: g.front.LoadOf, ownLists: g.graph().catalog.OwnLists}
}

// all returns the sessions of all replicas, the last one that was used first, and the replicas
// that did not answer.
func (k knownSessions) all(ctx context.Context) (all []admin.Session, missing []string) {
	all = k.here()
	for _, a := range k.cluster.Ask(ctx, http.MethodGet, sessionsPath) {
		var theirs []admin.Session
		if a.Err != nil || a.Status != http.StatusOK || json.Unmarshal(a.Body, &theirs) != nil {
			missing = append(missing, a.Replica)
			continue
		}
		all = append(all, theirs...)
	}
	slices.SortStableFunc(all, func(a, b admin.Session) int { return b.Used.Compare(a.Used) })
	seen := make(map[string]bool, len(all)) // one that is handed over may be at two replicas
	return slices.DeleteFunc(all, func(s admin.Session) bool {
		before := seen[s.Session]
		seen[s.Session] = true
		return before
	}), missing
}

// here returns the sessions of this replica.
func (k knownSessions) here() []admin.Session {
	all := []admin.Session{}
	for _, s := range k.list() {
		load := k.load(s.Key())
		all = append(all, admin.Session{
			Calls: load.Calls, Streams: load.Streams, Questions: load.Questions, OwnLists: k.ownLists(s.Key()),
			Session: record.Digest(s.Key()), User: s.Subject, Client: s.Client,
			ClientName: describes(s.Record, "name"), ClientVersion: describes(s.Record, "version"),
			View: s.View, Revision: s.Revision, Replica: k.self, Started: s.Created, Used: s.Used,
		})
	}
	return all
}

// describes returns a text with which a client describes itself.
func describes(r session.Record, member string) string {
	text := r.ClientInfo.At(member).Text()
	if len(text) > maxClientName {
		return text[:maxClientName] + "..."
	}
	return text
}

// endAnywhere ends the session with a digest at the replica that has it.
func (k knownSessions) endAnywhere(ctx context.Context, digest string) error {
	err := k.endHere(ctx, digest)
	if !errors.Is(err, admin.ErrNoSession) {
		return err
	}
	for _, a := range k.cluster.Ask(ctx, http.MethodDelete, sessionsPath+"/"+url.PathEscape(digest)) {
		switch {
		case a.Err == nil && a.Status == http.StatusNoContent:
			return nil
		case a.Err != nil || a.Status != http.StatusNotFound:
			err = admin.ErrNotAsked
		}
	}
	return err
}

// endHere ends the session with a digest, if this replica has it.
func (k knownSessions) endHere(ctx context.Context, digest string) error {
	for _, one := range k.list() {
		if record.Digest(one.Key()) != digest {
			continue
		}
		err := k.end(ctx, one.User, one.ID)
		if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrMoved) {
			return admin.ErrNoSession
		}
		return err
	}
	return admin.ErrNoSession
}

func accountNewsOf(g *Gateway) accountNews {
	return accountNews{
		vault: g.services.vault, log: g.log,
		lists:  func(server string, caller *mcp.Caller) { g.graph().catalog.SignedIn(server, caller) },
		others: func(ctx context.Context, path string) []string { return postOthers(ctx, g, path) },
	}
}

// asked answers other replicas: for operators who have signed in on their admin APIs, and for users
// whose accounts have changed there.
func asked(g *Gateway) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+sessionsPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(sessionsOf(g).here()) // the other replica has left
	})
	mux.HandleFunc("POST "+accountsPath, func(w http.ResponseWriter, r *http.Request) { accountNewsOf(g).told(w, r) })
	mux.HandleFunc("POST "+servers.Path+"/{name}/{what}", func(w http.ResponseWriter, r *http.Request) { deskOf(g).Asked(w, r) })
	mux.HandleFunc("DELETE "+sessionsPath+"/{session}", func(w http.ResponseWriter, r *http.Request) {
		switch err := sessionsOf(g).endHere(r.Context(), r.PathValue("session")); {
		case errors.Is(err, admin.ErrNoSession):
			w.WriteHeader(http.StatusNotFound)
		case err != nil:
			g.log.Warn("an operator at another replica could not end a session", failure.StoreDown.Attr(), "error", err)
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	return mux
}

// dropSession lets go of a client's session that another replica owns now. The session's own
// sessions at upstreams continue there. The store goes first: with what it holds, a request that
// came before the loss could still begin a call here.
func (g *Gateway) dropSession(key string) {
	g.services.drop(key)
	stopListening := g.front.DropSession(key)
	g.dropAtUpstreams(key)
	stopListening()
}

// leaveSession gives up a session so that another replica can own it. The store goes last: for a
// request that came before it may load the session again.
func (g *Gateway) leaveSession(key string) {
	g.dropAtUpstreams(key)
	g.leaveHome(key)
	g.services.drop(key)
}

func (g *Gateway) dropAtUpstreams(key string) {
	for _, u := range g.members() {
		u.DropSession(key)
	}
}

func (g *Gateway) leaveHome(key string) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	if err := g.services.cluster.Leave(ctx, key); err != nil {
		g.log.Debug("a session was not given up: other replicas own it when this one has gone", "error", err)
	}
}
