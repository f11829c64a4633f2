package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
)

const quietSeries = `{"replica":"r1","counting":"2026-11-23T10:00:00Z","step":"1m0s","points":[{"at":"2026-11-23T10:00:00Z"},{"at":"2026-11-23T10:01:00Z"}],"total":{}}`

// harmless reports what a page has of hostile names.
func harmless(t *testing.T, page string) {
	t.Helper()
	for _, bad := range []string{"<script>alert", "\u202e", "\x00", "\u200b", "style="} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

// TestNow: findings come with their cause, the next step and the page that tells more; charts
// have a text that says the same.
func TestNow(t *testing.T) {
	d := newDesk(t, "viewer", map[string]string{
		"GET /findings": `{"replica":"r1","at":"2026-11-23T10:02:00Z","findings":[
			{"severity":"critical","kind":"server","subject":` + hostileJSON + `,"what":"The server ` + strings.Trim(hostileJSON, `"`) + ` is down.","cause":` + hostileJSON + `,"next":"Start it.","look":"/api/v1/upstreams","since":"2026-11-23T10:00:00Z","error_code":"GH-UPSTREAM-DOWN"},
			{"severity":"warning","kind":"reload","what":"The configuration file was refused.","cause":"Line 3.","next":"Correct line 3.","look":"/api/v1/config","excerpt":"  lisen: …\n  ^"},
			{"severity":"notice","kind":"refusals","what":"More.","cause":"12.","next":"Look.","look":"/api/v1/decisions?kind=call&decision=deny,unknown"}]}`,
		"GET /series": `{"replica":"r1","counting":"2026-11-23T10:00:00Z","step":"1m0s","points":[
			{"at":"2026-11-23T10:00:00Z","calls":1200,"errors":3,"refused":0,"turned_away":0,"p50_ms":4,"p99_ms":40,"slowest_ms":90},
			{"at":"2026-11-23T10:01:00Z","calls":600,"errors":0,"refused":12,"turned_away":2,"p50_ms":5,"p99_ms":1500,"slowest_ms":1600}],
			"total":{"calls":1800,"errors":3,"refused":12,"turned_away":2,"p50_ms":4.5,"p99_ms":1500,"slowest_ms":1600},
			"upstreams":[{"name":"quiet","calls":1},{"name":` + hostileJSON + `,"calls":1799,"errors":3}]}`,
	})
	w := d.get("/?last=2h")
	page := w.Body.String()
	if w.Code != http.StatusOK {
		t.Fatal(w.Code, page)
	}
	harmless(t, page)
	for _, want := range []string{
		`<span class="state bad">critical</span>`, "GH-UPSTREAM-DOWN", "<strong>Next:</strong> Start it.",
		"  lisen: …\n  ^</pre>",
		`href="/console/calls?kind=call&amp;decision=deny,unknown"`, `href="/console/configuration"`,
		`href="/console/servers/%22%3E%3Cscript%3E`,
		`aria-current="true">Last 2 hours`,
		"1,800, <span class=\"bad\">3 failed</span>, <span class=\"warn\">12 more refused</span>",
		"calls: now 600, at most 1,200 at 10:00 (UTC).", "99 of 100: now 1.5 s, at most 1.5 s at 10:01",
		`<polyline class="line" points="44.0,56.8 334.0,93.4"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if strings.Index(page, "1,799") > strings.Index(page, ">quiet<") {
		t.Error("the server that is called most is not the first")
	}
	if asked := strings.Join(d.api.asked, "\n"); asked != "GET /findings\nGET /series "+
		`{"Upstream":"","Last":7200000000000,"Step":60000000000}` {
		t.Errorf("asked %s", asked)
	}
}

// TestNowWell: nothing is wrong, and nothing happens yet: the page says where clients connect.
func TestNowWell(t *testing.T) {
	d := newDesk(t, "viewer", map[string]string{
		"GET /findings": `{"replica":"r1","at":"2026-11-23T10:02:00Z","findings":[]}`, "GET /series": quietSeries,
		"GET /config": `{"endpoint":"http://127.0.0.1:8080/mcp"}`,
	})
	for _, last := range []string{"", "?last=10m", "?last=nonsense"} {
		page := d.get("/" + last).Body.String()
		for _, want := range []string{"Everything is well", "Clients connect to <code>http://127.0.0.1:8080/mcp</code>",
			"calls: now 0"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: no %q in\n%s", last, want, page)
			}
		}
	}
	if asked := strings.Join(d.api.asked, "\n"); !strings.Contains(asked, `"Last":600000000000,"Step":10000000000`) ||
		strings.Contains(asked, "nonsense") {
		t.Errorf("asked %s", asked)
	}
}

// TestManyFindings: a page has a bound, and says what it leaves out.
func TestManyFindings(t *testing.T) {
	one := `{"severity":"warning","kind":"server","subject":"x","what":"It is down.","cause":"c","next":"n","look":"/api/v1/upstreams"}`
	d := newDesk(t, "viewer", map[string]string{
		"GET /findings": `{"findings":[` + one + strings.Repeat(","+one, mostFindings+6) + `]}`, "GET /series": quietSeries,
		"GET /config": `{}`,
	})
	page := d.get("/").Body.String()
	if n := strings.Count(page, "<h3>"); n != mostFindings || !strings.Contains(page, "7 more are less urgent") {
		t.Errorf("%d findings are shown", n)
	}
}

// TestPageOf: each kind of finding leads to a page, or says that there is none.
func TestPageOf(t *testing.T) {
	for _, tt := range []struct {
		f    admin.Finding
		want string
	}{
		{admin.Finding{Kind: "server", Subject: "a/b", Look: "/api/v1/upstreams"}, "/console/servers/a%2Fb"},
		{admin.Finding{Kind: "errors", Look: "/api/v1/decisions?kind=call&upstream=crm"},
			"/console/calls?kind=call&upstream=crm"},
		{admin.Finding{Kind: "turned-away", Look: "/api/v1/decisions?kind=signin,refused"}, "/console/sign-ins"},
		{admin.Finding{Kind: "certificate", Look: "/api/v1/config"}, "/console/configuration"},
		{admin.Finding{Kind: "redis", Look: "/readyz"}, ""},
		{admin.Finding{Kind: "sign-in", Subject: "crm", Look: "/api/v1/upstreams/crm"}, "/console/servers/crm"},
		{admin.Finding{Kind: "deceit", Subject: "crm", Look: "/api/v1/upstreams/crm"}, "/console/servers/crm"},
	} {
		if got, _ := pageOf(tt.f); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.f.Kind, got, tt.want)
		}
	}
}

// TestChart: whatever the numbers, everything is drawn within the chart, and the highest value
// near its top.
func TestChart(t *testing.T) {
	at := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	for name, values := range map[string][]float64{
		"none": nil, "one": {5}, "zeros": {0, 0, 0}, "small": {0.1, 0.25}, "large": {1, 123_456_789, 2},
		"gaps": {none, 1, none, 2, 3, none}, "nothing": {none, none}, "many": make([]float64, 120),
	} {
		c := newChart("x", "X", at, time.Minute, plainly, numbers{"things", "line", true, values})
		for _, l := range c.Lines {
			for _, point := range strings.Fields(l.Points) {
				var x, y float64
				if _, err := fmt.Sscanf(point, "%f,%f", &x, &y); err != nil || x < c.Left || x > c.Right || y < chartTop ||
					y > chartHigh-chartLow {
					t.Errorf("%s: %s, %v", name, point, err)
				}
			}
		}
		if len(c.Across) != 3 || strings.Contains(fmt.Sprint(c), "NaN") ||
			len(values) > 0 && !strings.HasPrefix(c.Text, "things: now ") || name == "gaps" && len(c.Lines) != 4 {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c := chartsOf([]recent.Point{{At: at, Calls: 2}}, 10*time.Second); !strings.Contains(c[0].Text, "now 12") {
		t.Errorf("two calls in ten seconds are %s", c[0].Text)
	}
}
