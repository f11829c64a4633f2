package console

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
)

// nowPage is the first page: findings, and the number of calls over time.
var nowPage = page{
	path: "/{$}", title: "Now", menu: "Now", look: "now", role: admin.RoleViewer,
	show: showNow, fresh: 5 * time.Second,
}

const (
	// mostFindings bounds the findings on a page, and mostBusy the servers.
	mostFindings = 100
	mostBusy     = 10
)

type nowData struct {
	Findings []shownFinding
	More     int // findings that are not shown
	Critical int
	At       time.Time
	Replica  string

	Last    string // of the charts: 10m, 1h or 2h
	Spans   []span
	Total   recent.Point
	Counted time.Time // when counting began; zero if that is longer ago than Last
	Charts  []Chart
	Busy    []admin.UpstreamTotal
	Servers int // that were called
	Points  []recent.Point

	Endpoint string // of clients; only while there are no calls
}

// span is a period that charts may show.
type span struct {
	Last, Text string
	Here       bool
}

// shownFinding is a finding, and the page that tells more about it; "" for none.
type shownFinding struct {
	admin.Finding
	Page, PageName string
}

func showNow(v *visit) (any, error) {
	f, err := ask(v, admin.GetFindings, admin.None{})
	if err != nil {
		return nil, err
	}
	d := nowData{At: f.At, Replica: f.Replica, Last: "1h"}
	for _, one := range f.Findings {
		if one.Severity == admin.Critical {
			d.Critical++
		}
		if len(d.Findings) == mostFindings {
			d.More++
			continue
		}
		shown := shownFinding{Finding: one}
		shown.Page, shown.PageName = pageOf(one)
		d.Findings = append(d.Findings, shown)
	}
	for _, s := range []span{{Last: "10m", Text: "10 minutes"}, {Last: "1h", Text: "hour"},
		{Last: "2h", Text: "2 hours"}} {
		if s.Here = s.Last == cmp.Or(v.form("last"), "1h"); s.Here {
			d.Last = s.Last
		}
		d.Spans = append(d.Spans, s)
	}
	return d, d.count(v)
}

// count asks for the numbers of calls.
func (d *nowData) count(v *visit) error {
	q := admin.SeriesQuestion{Step: recent.Coarse}
	if d.Last == "10m" {
		q.Step = recent.Fine
	}
	q.Last, _ = time.ParseDuration(d.Last) // it is one of Spans
	s, err := ask(v, admin.GetSeries, q)
	if err != nil {
		return err
	}
	d.Total, d.Points, d.Busy, d.Servers = s.Total, s.Points, s.Upstreams, len(s.Upstreams)
	if time.Since(s.Counting) < q.Last {
		d.Counted = s.Counting
	}
	slices.SortStableFunc(d.Busy,
		func(a, b admin.UpstreamTotal) int { return cmp.Compare(b.Calls+b.Refused, a.Calls+a.Refused) })
	d.Busy = d.Busy[:min(len(d.Busy), mostBusy)]
	d.Charts = chartsOf(s.Points, q.Step)
	if d.Total.Calls+d.Total.Refused == 0 && v.Can(admin.RoleViewer) {
		state, err := ask(v, admin.GetState, admin.None{})
		if err != nil {
			return err
		}
		d.Endpoint = state.Endpoint
	}
	slices.Reverse(d.Points) // the table has the newest first
	return nil
}

// chartsOf draws the numbers of calls over time, as numbers a minute.
func chartsOf(points []recent.Point, step time.Duration) []Chart {
	if len(points) == 0 {
		return nil
	}
	of := func(value func(recent.Point) float64) (all []float64) {
		for _, p := range points {
			all = append(all, value(p))
		}
		return all
	}
	perMinute := time.Minute.Seconds() / step.Seconds()
	first := points[0].At
	return []Chart{
		newChart("calls", "Calls per minute", first, step, plainly,
			numbers{"calls", "line", true, of(func(p recent.Point) float64 { return float64(p.Calls) * perMinute })}),
		newChart("errors", "Errors and refusals per minute", first, step, plainly,
			numbers{"refused", "line warn-line", false,
				of(func(p recent.Point) float64 { return float64(p.Refused) * perMinute })},
			numbers{"errors", "line bad-line", false,
				of(func(p recent.Point) float64 { return float64(p.Errors) * perMinute })}),
		newChart("latency", "How long calls take", first, step, millis,
			numbers{"99 of 100", "line warn-line", false, of(func(p recent.Point) float64 { return latency(p, p.P99) })},
			numbers{"half", "line", false, of(func(p recent.Point) float64 { return latency(p, p.P50) })}),
	}
}

// latency returns the time that calls took, none without calls.
func latency(p recent.Point, took float64) float64 {
	if p.Slowest == 0 {
		return none
	}
	return took
}

// pageOf returns the page that tells more about a finding.
func pageOf(f admin.Finding) (page, name string) {
	if query, found := strings.CutPrefix(f.Look, "/api/v1/decisions?"); found {
		if f.Kind == "turned-away" {
			return path("sign-ins"), "Sign-ins"
		}
		return path("calls") + "?" + query, "These calls"
	}
	switch f.Kind {
	case "server", "left-out", "pin", "sign-in", "deceit":
		return path("servers", f.Subject), "This server"
	case "reload", "certificate", "key":
		return path("configuration"), "Configuration"
	case "issuer":
		return path("sign-ins"), "Sign-ins"
	}
	return "", ""
}
