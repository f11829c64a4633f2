package whatif

import (
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
)

// left is an entry of a server that no client gets.
type left struct {
	upstream, list, name string // list is as in catalog.Withheld; no name stands for what is behind a bound
	by, reason           string // as in admin.ListEntry
}

// leftOut returns the entries of servers that no client gets: those that cannot be offered, and
// those that are not approved.
func leftOut(now operate.Now) (all []left) {
	for i, view := range now.Catalog.Status() {
		for _, w := range operate.Withheld(view, now.Members[i].Server.Status()) {
			all = append(all, left{view.Name, w.List, w.Name, "server", "It is left out for all: " + w.Reason + "."})
		}
	}
	for _, guard := range now.Guards {
		for _, f := range guard.Found() {
			reason := "It is not approved: the lock file has nothing of its name."
			if !f.New {
				reason = "It is not as it was approved: it differs in " + strings.Join(f.Differ, ", ") + "."
			}
			if f.Blocked && f.Name != "" {
				all = append(all, left{f.Upstream, string(f.Kind), f.Name, "pin", reason})
			}
		}
	}
	return all
}

// unknown names the servers with unknown lists.
func unknown(now operate.Now) (notes []string) {
	for _, view := range now.Catalog.Status() {
		switch view.State {
		case catalog.StateUp:
		case catalog.StatePerUser:
			notes = append(notes,
				view.Name+" is asked with each user's own credential: what it shows to this caller is not known here.")
		case catalog.StateConnecting:
			notes = append(notes, view.Name+" has not answered yet.")
		default:
			notes = append(notes, view.Name+" does not answer: its list is as it was last, or missing.")
		}
	}
	return notes
}
