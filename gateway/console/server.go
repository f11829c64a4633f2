package console

import (
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
)

// serverPage shows one server.
var serverPage = page{
	path: "/servers/{name}", title: "Server", look: "server", role: admin.RoleViewer,
	show: showServer, fresh: 5 * time.Second,
}

const (
	// toolsOnPage is the number of tools on a page.
	toolsOnPage = 100
	// mostPins bounds the shown definitions that wait for approval.
	mostPins = 50
	// stripWidth is the width of the strip of states.
	stripWidth = 720
)

type serverData struct {
	admin.Server
	Mark     string
	Hour     admin.Series
	Charts   []Chart
	Findings []admin.Finding
	Strip    []stripPart
	First    time.Time // begin of the strip
	Pins     []pinShown
	MorePins int
	ByTokens bool
	From     int // the first tool that is shown, counted from 1
	To       int
	Before   string // the parameter from of the page of tools before; "" for none
	Next     string
}

// stripPart is a time in one state.
type stripPart struct {
	X, Width int
	Class    string
	State    string
	Since    time.Time
}

// pinShown is a definition that waits for approval, and the lines in which it differs.
type pinShown struct {
	admin.Pin
	Lines []diffLine
}

func showServer(v *visit) (any, error) {
	page := admin.ToolPage{Upstream: v.r.PathValue("name"), Limit: toolsOnPage, ByTokens: v.form("sort") == "tokens"}
	page.From, _ = strconv.Atoi(v.form("from")) // anything but a number means the beginning
	page.From = max(page.From, 0)
	d := serverData{ByTokens: page.ByTokens}
	var err error
	if d.Server, err = ask(v, admin.GetUpstream, page); err != nil {
		return nil, err
	}
	hour, err := ask(v, admin.GetSeries, admin.SeriesQuestion{Upstream: page.Upstream, Last: time.Hour,
		Step: recent.Coarse})
	if err != nil {
		return nil, err
	}
	d.Hour, d.Charts = hour, chartsOf(hour.Points, time.Minute)
	found, err := ask(v, admin.GetFindings, admin.None{})
	if err != nil {
		return nil, err
	}
	for _, f := range found.Findings {
		if f.Subject == page.Upstream {
			d.Findings = append(d.Findings, f)
		}
	}
	if d.Pinning.Waiting > 0 {
		if err := d.readPins(v); err != nil {
			return nil, err
		}
	}
	d.Mark = stateMark(d.Upstream.State)
	d.Strip, d.First = stripOf(d.Timeline, time.Now())
	d.From, d.To = page.From+1, page.From+len(d.Tools.Items)
	if page.From > 0 {
		d.Before = strconv.Itoa(max(page.From-toolsOnPage, 0))
	}
	if d.Tools.Next > 0 {
		d.Next = strconv.Itoa(d.Tools.Next)
	}
	return d, nil
}

// readPins asks for the definitions that wait for approval.
func (d *serverData) readPins(v *visit) error {
	answer, err := ask(v, admin.ListPins, d.Upstream.Name)
	d.MorePins = max(len(answer.Pins)-mostPins, 0)
	for _, p := range answer.Pins[:len(answer.Pins)-d.MorePins] {
		d.Pins = append(d.Pins, pinShown{p, diffLines(p.Diff)})
	}
	return err
}

// stripOf lays out a timeline, newest first, from left to right: at most the last day.
func stripOf(timeline []admin.Change, now time.Time) (parts []stripPart, first time.Time) {
	if len(timeline) == 0 {
		return nil, now
	}
	first = timeline[len(timeline)-1].Since
	if day := now.Add(-24 * time.Hour); first.Before(day) {
		first = day
	}
	all := max(now.Sub(first), time.Second)
	until := stripWidth
	for _, c := range timeline {
		x := int(stripWidth * max(c.Since.Sub(first), 0) / all)
		x = max(min(x, until-2), 0) // each state can be seen
		class := stateMark(c.State)
		if class == "" {
			class = "plain"
		}
		parts = append(parts, stripPart{X: x, Width: until - x, Class: "bar-" + class, State: c.State, Since: c.Since})
		if until = x; x == 0 {
			break
		}
	}
	return parts, first
}
