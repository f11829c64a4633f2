package operate

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// maxClientName bounds the shown part of a text with which a client describes itself, in bytes.
const maxClientName = 256

// SessionsPath is the path at which replicas ask each other for their sessions.
const SessionsPath = "/sessions"

// Sessions answers operators who ask for sessions of clients, and other replicas that ask for them.
type Sessions struct {
	Log  *slog.Logger
	Self string // the name of this replica
	List func() []session.Listed
	End  func(ctx context.Context, user, id string) error
	// Held counts what this replica holds of a session, and names the servers that show it other lists.
	Held interface {
		LoadOf(key string) live.Load
		OwnLists(key string) []string
	}
	// Others sends a request to all other replicas, and passes each answer to heard.
	Others func(ctx context.Context, method, path string, heard func(replica string, status int, body []byte, err error))
}

// All returns the sessions of all replicas, the last one that was used first, and the replicas
// that did not answer.
func (s Sessions) All(ctx context.Context) (all []admin.Session, missing []string) {
	all = s.here()
	s.Others(ctx, http.MethodGet, SessionsPath, func(replica string, status int, body []byte, err error) {
		var theirs []admin.Session
		if err != nil || status != http.StatusOK || json.Unmarshal(body, &theirs) != nil {
			missing = append(missing, replica)
			return
		}
		all = append(all, theirs...)
	})
	slices.SortStableFunc(all, func(a, b admin.Session) int { return b.Used.Compare(a.Used) })
	seen := make(map[string]bool, len(all)) // one that is handed over may be at two replicas
	return slices.DeleteFunc(all, func(one admin.Session) bool {
		before := seen[one.Session]
		seen[one.Session] = true
		return before
	}), missing
}

// here returns the sessions of this replica.
func (s Sessions) here() []admin.Session {
	all := []admin.Session{}
	for _, one := range s.List() {
		load := s.Held.LoadOf(one.Key())
		all = append(all, admin.Session{
			Calls:         load.Calls,
			Streams:       load.Streams,
			Questions:     load.Questions,
			OwnLists:      s.Held.OwnLists(one.Key()),
			Session:       record.Digest(one.Key()),
			User:          one.Subject,
			Client:        one.Client,
			ClientName:    describes(one.Record, "name"),
			ClientVersion: describes(one.Record, "version"),
			View:          one.View,
			Revision:      one.Revision,
			Replica:       s.Self,
			Started:       one.Created,
			Used:          one.Used,
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

// EndAnywhere ends the session with a digest at the replica that has it.
func (s Sessions) EndAnywhere(ctx context.Context, digest string) error {
	err := s.endHere(ctx, digest)
	if !errors.Is(err, admin.ErrNoSession) {
		return err
	}
	ended := false
	s.Others(ctx, http.MethodDelete, SessionsPath+"/"+url.PathEscape(digest),
		func(_ string, status int, _ []byte, failed error) {
			switch {
			case failed == nil && status == http.StatusNoContent:
				ended = true
			case failed != nil || status != http.StatusNotFound:
				err = admin.ErrNotAsked
			}
		})
	if ended {
		return nil
	}
	return err
}

// endHere ends the session with a digest, if this replica has it.
func (s Sessions) endHere(ctx context.Context, digest string) error {
	for _, one := range s.List() {
		if record.Digest(one.Key()) != digest {
			continue
		}
		err := s.End(ctx, one.User, one.ID)
		if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrMoved) {
			return admin.ErrNoSession
		}
		return err
	}
	return admin.ErrNoSession
}

// Asked answers another replica: a GET of SessionsPath with the sessions here, a DELETE of one below it by
// ending it.
func (s Sessions) Asked(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.here()) // the other replica has left
		return
	}
	switch err := s.endHere(r.Context(), r.PathValue("session")); {
	case errors.Is(err, admin.ErrNoSession):
		w.WriteHeader(http.StatusNotFound)
	case err != nil:
		s.Log.Warn("an operator at another replica could not end a session", failure.StoreDown.Attr(), "error", err)
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}
