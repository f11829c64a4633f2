package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/session"
)

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
}

func sessionsOf(g *Gateway) knownSessions {
	s := g.services
	return knownSessions{self: s.cluster.Self(), list: s.list, end: s.sessions.Delete, cluster: s.cluster}
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
		all = append(all, admin.Session{
			Session: record.Digest(s.Key()), User: s.Subject, Client: s.Client,
			ClientName: describes(s.Record, "name"), ClientVersion: describes(s.Record, "version"),
			View: s.View, Revision: s.Revision, Replica: k.self, Started: s.Created, Used: s.Used,
		})
	}
	return all
}

// describes returns a text with which a client describes itself.
func describes(r session.Record, member string) string {
	value, _ := r.ClientInfo.Member(member)
	text := value.Text()
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

// asked answers other replicas, on whose admin API an operator has signed in.
func asked(g *Gateway) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+sessionsPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(sessionsOf(g).here()) // the other replica has left
	})
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
