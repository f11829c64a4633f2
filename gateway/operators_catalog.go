package gateway

import (
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/ascaller"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/gateway/servers"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// leftOut returns what nobody gets of a server.
func leftOut(view catalog.UpstreamView, status upstream.Status) (all []ascaller.Left) {
	for _, w := range servers.Withheld(view, status) {
		all = append(all, ascaller.Left{Upstream: view.Name, List: w.List, Name: w.Name, By: "server", Reason: "It is left out for all: " + w.Reason + "."})
	}
	return all
}

// notApproved returns what the guard of a server hides.
func notApproved(guard *pinning.Guard) (all []ascaller.Left) {
	for _, f := range guard.Found() {
		reason := "It is not approved: the lock file has nothing of its name."
		if !f.New {
			reason = "It is not as it was approved: it differs in " + strings.Join(f.Differ, ", ") + "."
		}
		if f.Blocked && f.Name != "" {
			all = append(all, ascaller.Left{Upstream: f.Upstream, List: string(f.Kind), Name: f.Name, By: "pin", Reason: reason})
		}
	}
	return all
}

// unknownLists says whose lists are not known.
func unknownLists(views []catalog.UpstreamView) (notes []string) {
	for _, view := range views {
		switch view.State {
		case catalog.StateUp:
		case catalog.StatePerUser:
			notes = append(notes, view.Name+" is asked with each user's own credential: what it shows to this caller is not known here.")
		case catalog.StateConnecting:
			notes = append(notes, view.Name+" has not answered yet.")
		default:
			notes = append(notes, view.Name+" does not answer: its list is as it was last, or missing.")
		}
	}
	return notes
}
