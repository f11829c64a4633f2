package console

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
)

// serversPage shows all servers, the worst first.
var serversPage = page{
	path: "/servers", title: "Servers", menu: "Servers", look: "servers", role: admin.RoleViewer,
	show: showServers, fresh: 5 * time.Second,
}

// serverLine is a server and its numbers of the last hour.
type serverLine struct {
	admin.Upstream
	Hour admin.UpstreamTotal
	Mark string // the class of its state
	Rank int    // the lower, the worse
	Why  string // of a state that is not good
}

type serversData struct {
	Servers []serverLine
	ByName  bool
	Replica string
	Ready   int
	Tools   int
	Tokens  int
}

func showServers(v *visit) (any, error) {
	answer, err := ask(v, admin.ListUpstreams, admin.None{})
	if err != nil {
		return nil, err
	}
	hour, err := ask(v, admin.GetSeries, admin.SeriesQuestion{Last: time.Hour, Step: recent.Coarse})
	if err != nil {
		return nil, err
	}
	totals := make(map[string]admin.UpstreamTotal, len(hour.Upstreams))
	for _, t := range hour.Upstreams {
		totals[t.Name] = t
	}
	d := serversData{ByName: v.form("sort") == "name", Replica: hour.Replica}
	for _, u := range answer.Upstreams {
		d.Servers = append(d.Servers, lineOf(u, totals[u.Name]))
		d.Tools, d.Tokens = d.Tools+u.Tools, d.Tokens+u.Tokens
		if u.State == "ready" {
			d.Ready++
		}
	}
	slices.SortFunc(d.Servers, func(a, b serverLine) int {
		byName := strings.Compare(a.Name, b.Name)
		if d.ByName {
			return byName
		}
		return cmp.Or(a.Rank-b.Rank, cmp.Compare(b.Hour.Errors, a.Hour.Errors), byName)
	})
	return d, nil
}

// lineOf judges a server.
func lineOf(u admin.Upstream, hour admin.UpstreamTotal) serverLine {
	l := serverLine{Upstream: u, Hour: hour, Mark: stateMark(u.State)}
	l.Rank = map[string]int{"down": 0, "needs-login": 1, "degraded": 2, "connecting": 4, "disabled": 5, "per user": 6,
		"ready": 6}[u.State]
	if u.State == "ready" && (hour.Errors > 0 || u.UsersNeedLogin > 0) {
		l.Rank = 3
	}
	if f := u.LastFailure; f != nil && u.State != "ready" && u.State != "disabled" {
		l.Why = cmp.Or(f.Cause, f.Error)
	}
	return l
}

// actOnServer applies an action to a server.
var actOnServer = action{path: "/servers/act", role: admin.RoleOperator, do: func(v *visit) error {
	what, name := v.form("what"), v.form("name")
	done := map[string]string{admin.Probe: "probed", admin.Reconnect: "reconnected", admin.Disable: "disabled",
		admin.Enable: "enabled"}[what]
	act, ok := admin.Actions[what]
	if !ok {
		return &admin.Refusal{Status: http.StatusNotFound, Message: "nothing of this name can be done to a server"}
	}
	answer, err := ask(v, act, name)
	if err != nil {
		return err
	}
	switch {
	case answer.Failure != nil:
		done = "probe-failed"
	case len(answer.Missing) > 0:
		done = "not-everywhere"
	}
	return v.redirect(strings.TrimPrefix(path("servers", name), Root), done)
}}

// approvePins approves definitions of a server, bound by their digests to what the page showed.
var approvePins = action{path: "/servers/approve", role: admin.RoleOperator, do: func(v *visit) error {
	name, digest := v.form("name"), v.form("digest")
	waiting, err := ask(v, admin.ListPins, name)
	if err != nil {
		return err
	}
	wanted := admin.PinApproval{Keep: v.form("keep") != ""}
	for _, p := range waiting.Pins {
		if p.Digest == digest {
			wanted.Pins = append(wanted.Pins, admin.PinDigest{Upstream: p.Upstream, List: p.List, Name: p.Name,
				Digest: p.Digest})
		}
	}
	if wanted.Pins == nil {
		return &admin.Refusal{Status: http.StatusConflict,
			Message: "nothing was approved: this does not wait for approval any more: look at the page again"}
	}
	if _, err := ask(v, admin.ApprovePins, wanted); err != nil {
		return err
	}
	return v.redirect(strings.TrimPrefix(path("servers", name), Root), "pins-approved")
}}
