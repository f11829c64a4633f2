package console

import (
	"net/http"
	"strings"
	"testing"
)

const someList = `{"shown":1,"hidden":2,"next":200,"tokens":{"listed":1200,"full":3000,"short":40},"doubts":["Cursor: at most 40"],"notes":["gone does not answer"],"entries":[
	{"name":"up__read","upstream":"up","original":"read","title":` + hostileJSON + `,"description":` + hostileJSON + `,"shown":true,"call":"ask","rule":"sales","rule_at":"g.yaml:7","tokens":{"listed":9,"full":10,"short":8},"cuts":["Claude Code: cut"],
	 "definition":{"name":"up__read"},"full":{"name":"up__read","inputSchema":{"required":["to","n","on","\u202e\udb40\udc41"],"properties":{"to":{"type":"string"},"n":{"type":"integer"},"on":{"default":true}}}}},
	{"name":"up__drop","upstream":"up","original":"drop","shown":false,"by":"policy","reason":"Rule \"no\" denies it.","rule":"no","rule_at":"g.yaml:9"},
	{"upstream":"up","original":` + hostileJSON + `,"shown":false,"by":"pin","reason":"It is not approved."}]}`

// TestCatalogPage: the list of a caller is in the URL; what is hidden says why, by rule and line.
func TestCatalogPage(t *testing.T) {
	d := newDesk(t, "viewer", map[string]string{
		"POST /catalog": someList, "GET /config": `{"views":[{"name":"small"}]}`,
		"GET /decisions": `{"decisions":[{"kind":"call","user":` + hostileJSON + `,"client":"c1"}]}`,
	})
	page := d.get("/catalog?user=ann&groups=sales,ops&view=small&can=form&can=url&can=none&from=200").Body.String()
	harmless(t, page)
	for _, want := range []string{
		"<strong>1</strong> shown, <strong>2</strong> hidden", "about <strong>1,200</strong> tokens", "gone does not answer",
		"Cursor: at most 40", "Claude Code: cut",
		`<tr class="quiet">`, "by policy: Rule &#34;no&#34; denies it.", "g.yaml:9", "by pin: It is not approved.",
		"asks first", `<option value="small">`, `<option value="c1">`,
		`href="/console/catalog/tool?can=form&amp;can=url&amp;groups=sales%2Cops&amp;kind=tools&amp;name=up__read&amp;user=ann&amp;view=small"`,
		`href="/console/policy?can=form&amp;can=url&amp;groups=sales%2Cops&amp;kind=tools&amp;method=tools%2Fcall&amp;name=up%2Fdrop&amp;user=ann&amp;view=small#explain"`,
		`from=200`, `name="can" value="form" checked`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if asked := d.api.asked[2]; asked != `POST /catalog {"kind":"tools","user":"ann","groups":["sales","ops"],"view":"small","capabilities":{"elicitation":{"form":{},"url":{}}},"offset":200,"limit":200}` {
		t.Errorf("asked %s", asked)
	}
	d.api.answers["POST /catalog"] = `{"shown":0,"hidden":0,"entries":[]}`
	if w := d.get("/catalog?kind=prompts"); w.Code != http.StatusOK ||
		!strings.Contains(w.Body.String(), "No server has such a list") {
		t.Errorf("an empty list: %d", w.Code)
	}
	d.api.status["POST /catalog"], d.api.answers["POST /catalog"] = http.StatusBadRequest,
		`{"error":{"code":"GH-ADMIN-REQUEST","message":"no such view"}}`
	if w := d.get("/catalog?view=x"); w.Code != http.StatusOK ||
		!strings.Contains(w.Body.String(), `role="alert">No such view.`) {
		t.Errorf("a bad question: %d", w.Code)
	}
}

// TestCatalogGroups: groups that nobody typed are those of the user's last call; the page says so, or that none
// are known.
func TestCatalogGroups(t *testing.T) {
	d := newDesk(t, "viewer", map[string]string{
		"POST /catalog": someList, "GET /config": `{}`,
		"GET /decisions": `{"decisions":[{"kind":"signin","user":"eve"},{"kind":"call","user":"ann","issuer":"https://i.example","groups":["sales","ops"],"time":"2026-11-28T00:00:00Z"}]}`,
	})
	page := d.get("/catalog?user=ann").Body.String()
	if !strings.Contains(page, "The groups are as of the last call or sign-in of ann") ||
		!strings.Contains(page, `name="groups" value="sales, ops"`) {
		t.Errorf("%s", page)
	}
	if asked := d.api.asked[len(d.api.asked)-1]; !strings.Contains(asked,
		`"issuer":"https://i.example","user":"ann","groups":["sales","ops"]`) {
		t.Errorf("asked %s", asked)
	}
	if page := d.get("/catalog?user=bob").Body.String(); !strings.Contains(page,
		"No call of bob is kept, so their groups are not known") {
		t.Errorf("%s", page)
	}
	if page := d.get("/catalog?user=ann&groups=x").Body.String(); strings.Contains(page, "as of the last") ||
		!strings.Contains(page, `value="x"`) {
		t.Errorf("typed groups: %s", page)
	}
}

// TestToolPage: one tool with its schema; operators try it, and see what becomes of it.
func TestToolPage(t *testing.T) {
	d := newDesk(t, "viewer", map[string]string{"POST /catalog": someList})
	page := d.get("/catalog/tool?name=up__read&user=ann").Body.String()
	harmless(t, page)
	if !strings.Contains(page, "need the role operator") || strings.Contains(page, "<textarea") ||
		!strings.Contains(page, "As the client gets it") {
		t.Errorf("a viewer sees\n%s", page)
	}
	if w := d.post("/catalog/tool?name=up__read", "arguments", "{}"); w.Code != http.StatusForbidden ||
		len(d.api.asked) != 1 {
		t.Errorf("a viewer tries: %d", w.Code)
	}
	d = newDesk(t, "operator", map[string]string{
		"POST /catalog": someList, "POST /try": `{"id":"try-1","took_ms":1.5,"result":{"content":[{"type":"text","text":` +
			hostileJSON + `}]}}`,
	})
	page = d.get("/catalog/tool?name=up__read").Body.String()
	if want := "{\n  &#34;to&#34;: &#34;&#34;,\n  &#34;n&#34;: 0,\n  &#34;on&#34;: true,\n  &#34;\\u202e\\udb40\\udc41&#34;: &#34;&#34;\n}</textarea>"; !strings.Contains(page, want) {
		t.Errorf("no %q in\n%s", want, page)
	}
	page = d.post("/catalog/tool?name=up__read&view=small", "arguments", `{"to":"x"}`).Body.String()
	harmless(t, page)
	if !strings.Contains(page, `href="/console/calls/try-1"`) || !strings.Contains(page, "answered") {
		t.Errorf("tried:\n%s", page)
	}
	if asked := d.api.asked[2]; asked != `POST /try {"name":"up__read","arguments":{"to":"x"},"view":"small"}` {
		t.Errorf("asked %s", asked)
	}
	for answer, want := range map[string]string{
		`{"id":"try-2","took_ms":1,"asked":["May I?"],"note":"cannot answer"}`:                                 "May I?",
		`{"id":"try-3","took_ms":1,"error":{"code":1,"name":"GH-ARGUMENTS-DENIED","message":"Not like this"}}`: "Not like this",
	} {
		d.api.answers["POST /try"] = answer
		if page := d.post("/catalog/tool?name=up__read", "arguments", "{}").Body.String(); !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if page := d.post("/catalog/tool?name=up__read", "arguments", "7").Body.String(); !strings.Contains(page,
		"want a JSON object") {
		t.Error("arguments that are none")
	}
	d.api.answers["POST /catalog"] = `{"shown":0,"hidden":0,"entries":[]}`
	if page := d.get("/catalog/tool?name=none").Body.String(); !strings.Contains(page, "nothing of this name") {
		t.Errorf("no such tool:\n%s", page)
	}
}
