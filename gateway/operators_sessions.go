package gateway

import (
	"context"
	"errors"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// maxClientName bounds what is shown of a text with which a client describes itself, in bytes.
const maxClientName = 256

// shownSessions returns sessions for operators, the last one that was used first.
func shownSessions(list []session.Listed) (all []admin.Session) {
	slices.SortFunc(list, func(a, b session.Listed) int { return b.Used.Compare(a.Used) })
	for _, s := range list {
		all = append(all, admin.Session{
			Session: record.Digest(s.Key()), User: s.Subject, Client: s.Client,
			ClientName: describes(s.Record, "name"), ClientVersion: describes(s.Record, "version"),
			View: s.View, Revision: s.Revision, Started: s.Created, Used: s.Used,
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

// endDigest ends the session with a digest, if this replica has it.
func endDigest(ctx context.Context, list []session.Listed, end func(ctx context.Context, user, id string) error, digest string) error {
	for _, one := range list {
		if record.Digest(one.Key()) != digest {
			continue
		}
		err := end(ctx, one.User, one.ID)
		if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrMoved) {
			return admin.ErrNoSession
		}
		return err
	}
	return admin.ErrNoSession
}
