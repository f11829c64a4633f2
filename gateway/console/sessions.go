package console

import (
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
)

// sessionsPage shows the sessions of clients, and the software of clients.
var sessionsPage = page{
	path: "/sessions", title: "Sessions and clients", menu: "Sessions", look: "sessions", role: admin.RoleViewer,
	show: showSessions, fresh: 5 * time.Second,
}

// endSession ends a session of a client.
var endSession = action{path: "/sessions/end", role: admin.RoleOperator, do: func(v *visit) error {
	if _, err := ask(v, admin.EndSession, v.form("session")); err != nil {
		return err
	}
	return v.redirect("/sessions", "ended")
}}

// mostSessions bounds the sessions on a page.
const mostSessions = 500

type sessionsData struct {
	Sessions []admin.Session
	All      int
	User     string // that was asked for
	Missing  []string
	Clients  []clientKind
}

// clientKind is one kind of client software and how many sessions it has.
type clientKind struct {
	Name, Version, Revision string
	Sessions                int
}

func showSessions(v *visit) (any, error) {
	answer, err := ask(v, admin.ListSessions, admin.None{})
	if err != nil {
		return nil, err
	}
	d := sessionsData{User: v.form("user"), Missing: answer.Missing, Clients: kindsOf(answer.Sessions)}
	d.Sessions = slices.DeleteFunc(answer.Sessions, func(s admin.Session) bool { return d.User != "" && s.User != d.User })
	d.All = len(d.Sessions)
	slices.SortFunc(d.Sessions, func(a, b admin.Session) int { return b.Used.Compare(a.Used) })
	d.Sessions = d.Sessions[:min(len(d.Sessions), mostSessions)]
	return d, nil
}

func kindsOf(sessions []admin.Session) (kinds []clientKind) {
	counted := make(map[clientKind]int)
	for _, s := range sessions {
		counted[clientKind{Name: s.ClientName, Version: s.ClientVersion, Revision: s.Revision}]++
	}
	for k, n := range counted {
		k.Sessions = n
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b clientKind) int {
		if a.Sessions != b.Sessions {
			return b.Sessions - a.Sessions
		}
		return strings.Compare(a.Name+a.Version+a.Revision, b.Name+b.Version+b.Revision)
	})
	return kinds[:min(len(kinds), 50)]
}
