package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
)

// up is a server as the API has it, with a name and a state.
func up(name, state, more string) string {
	return fmt.Sprintf(`{"name":%s,"state":%q,"since":"2026-11-23T10:00:00Z","transport":"streamable","tools":3,"tokens":1200,"tokens_short":90,"prompts":0,"resources":0,"skills":0,"calls":0,"sessions":0%s}`, name, state, more)
}

const failed = `,"last_failure":{"at":"2026-11-23T10:00:00Z","error_code":"GH-UPSTREAM-DOWN","stage":"connect","error":"it is away","cause":` + hostileJSON + `}`

// TestServersPage: all servers are there, the worst first or by name.
func TestServersPage(t *testing.T) {
	d := newDesk(t, "viewer", map[string]string{
		"GET /upstreams": `{"upstreams":[` + strings.Join([]string{
			up(`"alpha"`, "ready", ""), up(`"beta"`, "ready", ""), up(`"gamma"`, "down", failed),
			up(`"delta"`, "disabled", failed), up(`"eta"`, "degraded", failed), up(hostileJSON, "needs-login", failed),
		}, ",") + `]}`,
		"GET /series": `{"replica":"r1","upstreams":[{"name":"beta","calls":1200,"errors":7,"p50_ms":12.5,"p99_ms":900}]}`,
	})
	order := func(page string, names ...string) {
		t.Helper()
		at := -1
		for _, name := range names {
			next := strings.Index(page, `href="/console/servers/`+name+`"`)
			if next < at {
				t.Errorf("%s is not after the one before", name)
			}
			at = next
		}
	}
	worst, byName := d.get("/servers"), d.get("/servers?sort=name")
	if worst.Code != http.StatusOK {
		t.Fatal(worst.Code, worst.Body)
	}
	order(worst.Body.String(), "gamma", "eta", "beta", "delta", "alpha")
	order(byName.Body.String(), "alpha", "beta", "delta", "eta", "gamma")
	for _, want := range []string{`<span class="state bad">down</span>`, `<span class="state ">disabled</span>`,
		">1,200</a>", `class="number bad">7<`, "900 ms", "2 of 6 are ready", "18 tools", "7,200 tokens"} {
		if !strings.Contains(worst.Body.String(), want) {
			t.Errorf("the page has no %q:\n%s", want, worst.Body)
		}
	}
	if page := worst.Body.String(); strings.Contains(page, "<script>alert") || strings.Contains(page, "\u202e") {
		t.Error("hostile text is as it was")
	}
	d.api.answers["GET /upstreams"] = `{"upstreams":[]}`
	if page := d.get("/servers").Body.String(); !strings.Contains(page, "no servers that are enabled") {
		t.Errorf("without servers: %s", page)
	}
}

// TestServerPage: everything about one server is there, and forms for operators alone.
func TestServerPage(t *testing.T) {
	one := `{"upstream":` + up(`"a b"`, "down", failed) + `,"replica":"r1","target":` + hostileJSON + `,"prefix":"a__",
"timeline":[{"state":"down","since":"2026-11-23T11:00:00Z","error_code":"GH-UPSTREAM-DOWN","stage":"connect","error":` + hostileJSON + `},{"state":"connecting","since":"2026-11-23T10:59:00Z","by":` + hostileJSON + `,"did":"reconnected"}],
"probe":[{"at":"2026-11-23T11:00:00Z","method":"server/discover","revision":"2026-07-28","transport":"streamable","took_ms":12,"error":` + hostileJSON + `,"error_code":"GH-UPSTREAM-DOWN"}],
"capabilities":{"tools":{"x":` + hostileJSON + `}},"credentials":{"type":"bearer","whose":"gateway","state":"refused"},"pinning":{"mode":"block","file":"/x.lock","waiting":1},
"hooks":[{"name":"secrets","on":["arguments","results"]}],"resource_templates":2,
"tools":{"total":300,"tokens":9000,"tokens_short":800,"next":200,"items":[{"name":` + hostileJSON + `,"public":"a__x","title":` + hostileJSON + `,"tokens":77,"tokens_short":5}]},
"withheld":[{"list":"tools","name":` + hostileJSON + `,"reason":` + hostileJSON + `}],"withheld_more":4}`
	answers := map[string]string{
		"GET /upstreams/a b": one,
		"GET /series":        `{"replica":"r1","points":[{"at":"2026-11-23T11:00:00Z","calls":3}],"total":{"calls":3,"errors":1,"p50_ms":2,"p99_ms":8}}`,
		"GET /findings":      `{"findings":[{"severity":"critical","kind":"server","subject":"a b","what":"The server is down.","cause":"No route.","next":"Start it.","look":""},{"severity":"notice","kind":"server","subject":"other","what":"not here","cause":"","next":"","look":""}]}`,
		"GET /pins": `{"pins":[{"upstream":"a b","list":"tools","name":` + hostileJSON +
			`,"new":false,"deceives":["hidden words"],"hidden":true,"definition":{},"digest":"sha256:ab","diff":"@@ -1 +1 @@\n-old words\n+new words ` + "<U+200B>" + `"}]}`,
	}
	d := newDesk(t, "operator", answers)
	w := d.get("/servers/a%20b?sort=tokens&from=100")
	page := w.Body.String()
	for _, want := range []string{
		"The server is down.", "Start it.", "the server refuses it", "secrets on arguments and results", "101 to 101 of 300",
		`href="/console/servers/a%20b?from=200&amp;sort=tokens"`, `href="/console/servers/a%20b">by name`,
		"<rect class=\"bar-bad\"", `name="digest" value="sha256:ab"`, `<span class="good">&#43;new words`,
		`<span class="bad">-old words`, "hidden words", "And 4 more", `name="what" value="disable"`, "GH-UPSTREAM-DOWN",
		"2 resource templates",
	} {
		if w.Code != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("%d, no %q in it", w.Code, want)
		}
	}
	for _, bad := range []string{"<script>alert", "\u202e", "\x00", "\u200b", "not here", "style="} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
	if asked := d.api.asked[0]; asked != `GET /upstreams/a b {"Upstream":"a b","From":100,"Limit":100,"ByTokens":true}` {
		t.Errorf("asked %s", asked)
	}
	viewer := newDesk(t, "viewer", answers)
	if page := viewer.get("/servers/a%20b").Body.String(); strings.Contains(page, "<form") {
		t.Error("a viewer sees forms")
	}
	if w := d.get("/servers/none"); w.Code != http.StatusNotFound {
		t.Errorf("no such server: %d", w.Code)
	}
}

// TestServerForms: forms do one thing to one server, as their visitor, and say what came of it.
func TestServerForms(t *testing.T) {
	done := `{"changed":true,"upstream":` + up(`"crm"`, "ready", "") + `,"probe":[]`
	d := newDesk(t, "operator", map[string]string{
		"POST /upstreams/crm/probe":     done + `,"failure":{"error":"x"}}`,
		"POST /upstreams/crm/reconnect": done + `}`, "POST /upstreams/crm/disable": done + `,"missing":["r2"]}`,
		"POST /upstreams/crm/enable": done + `}`,
		"POST /pins/approve":         `{"approved":1,"file":"x"}`,
		"GET /pins":                  `{"pins":[{"upstream":"crm","list":"tools","name":"x","digest":"sha256:cd"},{"upstream":"crm","list":"resource templates","name":"file:///{a}","digest":"sha256:ab"}]}`,
	})
	for what, want := range map[string]string{"probe": "probe-failed", "reconnect": "reconnected",
		"disable": "not-everywhere", "enable": "enabled"} {
		w := d.post("/servers/act", "name", "crm", "what", what)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != Root+"/servers/crm?done="+want ||
			notices[want] == "" {
			t.Errorf("%s: %d %v", what, w.Code, w.Header())
		}
	}
	if w := d.post("/servers/act", "name", "../config", "what", "../../reload"); w.Code != http.StatusNotFound {
		t.Errorf("another path: %d %v", w.Code, d.api.asked)
	}
	w := d.post("/servers/approve", "name", "crm", "digest", "sha256:ab", "keep", "yes")
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != Root+"/servers/crm?done=pins-approved" {
		t.Errorf("approved: %d %v", w.Code, w.Body)
	}
	if asked := d.api.asked[len(d.api.asked)-1]; asked != `POST /pins/approve {"pins":[{"upstream":"crm","list":"resource templates","name":"file:///{a}","digest":"sha256:ab"}],"keep":true}` {
		t.Errorf("asked %s", asked)
	}
	if w := d.post("/servers/approve", "name", "crm", "digest", "sha256:ef"); w.Code != http.StatusConflict {
		t.Errorf("something else: %d", w.Code)
	}
	d.cfg.Loopback = "viewer"
	for _, form := range []string{"/servers/act", "/servers/approve"} {
		if w := d.post(form, "name", "crm", "what", "disable"); w.Code != http.StatusForbidden {
			t.Errorf("a viewer sends %s: %d", form, w.Code)
		}
	}
}

// TestStrip: states lie side by side, the newest at the right, and each can be seen.
func TestStrip(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration, state string) admin.Change {
		return admin.Change{State: state, Since: now.Add(-ago)}
	}
	parts, first := stripOf([]admin.Change{at(time.Hour, "ready"), at(6*time.Hour, "down"),
		at(6*time.Hour+time.Millisecond, "connecting"), at(48*time.Hour, "ready"), at(50*time.Hour, "down")}, now)
	end := stripWidth
	for _, p := range parts {
		if p.X+p.Width != end || p.Width < 2 {
			t.Errorf("%+v does not end at %d", p, end)
		}
		end = p.X
	}
	if end != 0 || !first.Equal(now.Add(-24*time.Hour)) || len(parts) != 4 || parts[0].Width != stripWidth/24 {
		t.Errorf("%v since %s", parts, first)
	}
	if parts, _ := stripOf(nil, now); parts != nil {
		t.Error(parts)
	}
	var many []admin.Change
	for i := range 100 {
		many = append(many, at(time.Duration(i)*time.Microsecond, "down"))
	}
	for _, p := range must(stripOf(many, now)) {
		if p.X < 0 || p.Width <= 0 {
			t.Errorf("%+v", p)
		}
	}
}

func must(parts []stripPart, _ time.Time) []stripPart { return parts }
