package diagnose

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/hooks"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

// Most bounds the findings of an answer; the least bad ones are left out.
const Most = 500

// Facts are the input of findings.
type Facts struct {
	Now time.Time
	// Stopping says that the gateway is about to stop.
	Stopping bool
	// Replicas are this one and the others.
	Replicas []admin.Replica
	// Missing are replicas that ended without leaving, and that no others have replaced.
	Missing []Missing
	// Store is the reason why the session store cannot be used, "" if it can or there is none.
	Store string
	// State is the configuration in force. Line is the text of the first problem's line, "" if it
	// is not known.
	State admin.State
	Line  string

	Upstreams []admin.Upstream
	// Broken are the items of servers that clients cannot be shown.
	Broken []Broken
	Pins   []admin.Pin
	// Spoofs are texts and names that may deceive people or models.
	Spoofs []Spoof

	Hooks        []hooks.Outage
	Issuers      []auth.Status
	Sinks        []audit.Status
	Certificates []Certificate
	Keys         []apikey.Entry // API keys

	Series *recent.Series
	// Records returns recent records that fit.
	Records func(record.Filter) []*record.Record
}

// Missing is a replica that has ended, with its address.
type Missing struct {
	Name, Address string
	Gone          time.Time
}

// Broken is an item of a server that no client is shown.
type Broken struct {
	Upstream, What, Name, Reason string
	Behind                       int // see catalog.Withheld
}

// Certificate is a file of certificates of the configuration.
type Certificate struct {
	Section string // such as sessions.redis
	tlsfiles.End
}

// checks are the rules. Their order is that of equally bad findings.
var checks = [...]func(Facts) []admin.Finding{
	stopping, store, upstreams, issuers, sinks, refusedReload, pendingRestart, doubts, hookOutages, certificates, keys,
	missing, replicas, failing, refusals, turnedAway, signIns, pins, deceiving, broken,
}

// Of returns the findings about facts, worst first.
func Of(f Facts) (all []admin.Finding) {
	for _, check := range checks {
		all = append(all, check(f)...)
	}
	rank := map[string]int{admin.Critical: 0, admin.Warning: 1, admin.Notice: 2}
	slices.SortStableFunc(all, func(a, b admin.Finding) int { return cmp.Compare(rank[a.Severity], rank[b.Severity]) })
	return all[:min(len(all), Most)]
}

// since returns a time for a finding, nil for none.
func since(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// few lists names, at most three of them.
func few(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + " and " + count(int64(len(names)-most), "other", "others")
}
