package diagnose

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// slowStart is the time after which a server that still connects is a finding.
const slowStart = 30 * time.Second

// upstreams finds servers that are down, degraded or refuse the gateway.
func upstreams(f Facts) (all []admin.Finding) {
	for _, u := range f.Upstreams {
		found := admin.Finding{Kind: "server", Subject: u.Name, Since: since(u.Since), Look: "/api/v1/upstreams"}
		switch upstream.State(u.State) {
		case upstream.StateDown:
			found.Severity, found.What = admin.Critical, fmt.Sprintf("The server %s is down.", u.Name)
		case upstream.StateNeedsLogin:
			found.Severity, found.What = admin.Critical, fmt.Sprintf("The server %s refuses the gateway's credential.", u.Name)
		case upstream.StateDegraded:
			found.Severity, found.What = admin.Warning, fmt.Sprintf("The server %s works in part.", u.Name)
		case upstream.StateConnecting:
			if f.Now.Sub(u.Since) < slowStart {
				continue
			}
			found.Severity, found.What = admin.Warning, fmt.Sprintf("The server %s has not answered yet.", u.Name)
		case upstream.StateDisabled:
			all = append(all, admin.Finding{
				Severity: admin.Notice, Kind: "server", Subject: u.Name, Since: found.Since, Look: found.Look,
				What:  fmt.Sprintf("The server %s is disabled.", u.Name),
				Cause: "An operator has disabled it: its calls are refused until it is enabled, or the gateway starts again.",
				Next:  "Enable it when the reason is gone.",
			})
			continue
		default:
			continue
		}
		found.Cause, found.Next = "Nothing is known about the cause yet.", "Look at the server's own log."
		if last := u.LastFailure; last != nil {
			found.Code, found.Cause, found.Next = last.Code, causeOf(last), nextFor(u, last.Stage)
		}
		if u.RefusedUntil != nil && u.RefusedUntil.After(f.Now) {
			found.Cause += " Calls are refused for the moment without asking it."
		}
		all = append(all, found)
	}
	return all
}

// causeOf describes in a sentence the stage at which a server failed, and the failure.
func causeOf(last *admin.Failure) string {
	text := cmp.Or(last.Cause, last.Error) // the callers' text, without the cause, tells little more than the stage
	return fmt.Sprintf("%s: %s.", cmp.Or(stages[last.Stage], "It failed"), strings.TrimSuffix(text, "."))
}

// stages are the words for the stages of a failure.
var stages = map[string]string{
	upstream.StageResolve:   "Its name could not be resolved",
	upstream.StageConnect:   "It could not be reached",
	upstream.StageTLS:       "The TLS handshake failed",
	upstream.StageLogin:     "It did not accept the credential",
	upstream.StageHandshake: "It did not answer as an MCP server",
	upstream.StageCall:      "A call failed",
	operate.StageList:       "It does not answer lists",
	operate.StageBound:      "It lists more than it may",
}

// nextFor returns the next step after a failure at a stage.
func nextFor(u admin.Upstream, stage string) string {
	local := u.Transport == "stdio"
	switch {
	case stage == upstream.StageConnect && local:
		return "Run its command by hand on this machine: it does not start, or ends at once."
	case stage == upstream.StageConnect:
		return "Start the server, or correct its url: nothing answers there."
	case stage == operate.StageBound:
		return "Raise limits.items of the upstream if its clients need all of it."
	case stage == upstream.StageResolve:
		return "Correct the host in its url: this machine does not know it."
	case stage == upstream.StageTLS:
		return "Renew the server's certificate, or have it signed by an authority that this machine trusts."
	case stage == upstream.StageLogin:
		return "Renew the credential in its section auth."
	case stage == upstream.StageHandshake && local:
		return "Run its command by hand on this machine, and look at what it writes."
	case stage == upstream.StageHandshake:
		return "Check that its url is the endpoint of an MCP server: gatehouse check --connect says what it answers."
	}
	return "Look at the server's own log at the time of the failure."
}

// serverPath returns the path of a server in the API. That has the problem as long as it lasts; records are
// dropped earlier.
func serverPath(name string) string { return "/api/v1/upstreams/" + url.PathEscape(name) }

// signIns finds servers that refuse the credentials of some users.
func signIns(f Facts) (all []admin.Finding) {
	for _, u := range f.Upstreams {
		if u.UsersNeedLogin == 0 {
			continue
		}
		all = append(all, admin.Finding{
			Severity: admin.Warning, Kind: "sign-in", Subject: u.Name,
			What:  fmt.Sprintf("%s to sign in at %s.", count(int64(u.UsersNeedLogin), "user has", "users have"), u.Name),
			Cause: "The server refused the credential that the gateway has for them.",
			Next:  "Ask them to sign in again with their client: their failed calls say who they are.",
			Look:  serverPath(u.Name),
		})
	}
	return all
}

// pins finds definitions of pinned servers that are not approved.
func pins(f Facts) []admin.Finding {
	return byServer(f.Pins, func(p admin.Pin) string { return p.Upstream },
		func(server string, found []admin.Pin) admin.Finding {
			var names []string
			hidden, deceives := 0, false
			for _, p := range found {
				names = append(names, strings.TrimSpace(p.List+" "+p.Name))
				if p.Hidden {
					hidden++
				}
				deceives = deceives || len(p.Deceives) > 0
			}
			n := int64(len(found))
			one := admin.Finding{
				Severity: admin.Warning, Kind: "pin", Subject: server, Look: "/api/v1/pins",
				What:  fmt.Sprintf("%s offers %s that nobody has approved.", server, count(n, "thing", "things")),
				Cause: "New or changed since the lock file was written: " + few(names) + ".",
				Next:  "Read the differences, and approve of them, there or with gatehouse lock --review, if they are meant.",
			}
			if hidden > 0 {
				one.Cause += fmt.Sprintf(" Clients do not see %d of them.", hidden)
			}
			if deceives {
				one.Severity = admin.Critical
				one.Cause += " Some have texts that people cannot see."
				one.Next = "Read the differences before anybody uses this server: models read what people cannot see. gatehouse lock --review shows them."
			}
			return one
		})
}

// deceiving finds texts and names that may deceive people or models.
func deceiving(f Facts) []admin.Finding {
	return byServer(f.Spoofs, func(d Spoof) string { return d.Upstream },
		func(server string, found []Spoof) admin.Finding {
			var texts []string
			for _, d := range found {
				texts = append(texts, d.Text)
			}
			return admin.Finding{
				Severity: admin.Warning, Kind: "deceit", Subject: server, Look: serverPath(server),
				What:  fmt.Sprintf("%s offers something that may deceive people or models.", server),
				Cause: few(texts) + ".",
				Next:  "Ask who runs the server what this is for, and deny it in policy until you know.",
			}
		})
}

// broken finds items that no client can be shown.
func broken(f Facts) []admin.Finding {
	return byServer(f.Broken, func(b Broken) string { return b.Upstream },
		func(server string, found []Broken) admin.Finding {
			var names []string
			items := 0
			for _, b := range found {
				names = append(names, fmt.Sprintf("%s %s (%s)", b.What, b.Name, b.Reason))
				items += max(b.Behind, 1)
			}
			return admin.Finding{
				Severity: admin.Notice, Kind: "left-out", Subject: server, Look: "/api/v1/upstreams",
				What:  fmt.Sprintf("%s of %s cannot be offered.", count(int64(items), "item", "items"), server),
				Cause: few(names) + ".",
				Next:  "Have the server corrected: the other things that it offers are not affected.",
			}
		})
}

// byServer makes a finding for each server with problems, in the order of their names.
func byServer[T any](all []T, of func(T) string,
	finding func(server string, found []T) admin.Finding) (findings []admin.Finding) {
	groups := make(map[string][]T)
	var names []string
	for _, one := range all {
		if name := of(one); groups[name] == nil {
			names = append(names, name)
		}
		groups[of(one)] = append(groups[of(one)], one)
	}
	slices.Sort(names)
	for _, name := range names {
		findings = append(findings, finding(name, groups[name]))
	}
	return findings
}
