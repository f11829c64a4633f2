package console

import (
	"net/http"
	"strings"
	"testing"
)

const stateJSON = `{"revision":"abc","loaded":"2026-11-23T10:00:00Z","endpoint":"http://127.0.0.1:8080/mcp","upstreams":[],"problems":[{"line":3,"message":` + hostileJSON + `}]}`

// configurations are the answers of an API with a configuration.
func configurations() map[string]string {
	return map[string]string{
		"GET /config":           stateJSON,
		"GET /config/effective": `{"text":"listen: x # default\n","revision":"abc"}`,
		"GET /config/text":      `{"file":"/etc/gatehouse.yaml","text":"\nlisten: <secret>\nname: \u202ex\n","masked":true,"revision":"abc","in_force":false,"save":true}`,
		"GET /config/history": `{"history":[{"at":"2026-11-23T10:00:00Z","revision":"abc","applied":true,"changed":["policy"],"diff":"@@ -1 +1 @@\n-a\n+<b>\n"},
			{"at":"2026-11-23T09:00:00Z","revision":"abb","applied":false,"problems":[{"line":7,"message":"unknown key"}],"note":"no text"}]}`,
		"POST /config/check": `{"problems":[],"warnings":[{"line":2,"column":3,"message":"doubtful"}],"changed":["upstreams"],"added":["wiki"],"replaced":["crm"],"removed":["old"],"notes":["References are not looked up for you."]}`,
		"POST /config/save":  `{"applied":true,"revision":"abd"}`,
	}
}

func has(t *testing.T, page string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if strings.Contains(page, "<script>alert") {
		t.Error("the page has a script of others")
	}
}

func TestConfigurationPage(t *testing.T) {
	d := newDesk(t, "viewer", configurations())
	has(t, d.get("/configuration").Body.String(), "is refused, so the configuration from before still holds", "Line 3: ",
		"listen: x # default", `href="/console/configuration" aria-current="page"`)
	has(t, d.get("/configuration?show=file").Body.String(), "/etc/gatehouse.yaml", "listen: &lt;secret&gt;",
		"⟨U&#43;202E⟩", "The file is not what holds")
	has(t, d.get("/configuration?show=history").Body.String(), `<span class="bad">-a`, `<span class="good">&#43;&lt;b&gt;`,
		"changed: policy", "Line 7: unknown key", "No difference to show: no text.")
	delete(d.api.answers, "GET /config/effective")
	has(t, d.get("/configuration").Body.String(), "This gateway has no configuration file.")
}

// TestEditor: the text comes back as it was written, with problems at their lines; it is saved for
// operators alone, and only where the API does so.
func TestEditor(t *testing.T) {
	d := newDesk(t, "operator", configurations())
	has(t, d.get("/configuration/edit").Body.String(), "<textarea", ">\n\nlisten: &lt;secret&gt;\n",
		`name="revision" value="abc"`, "Save and reload", "The file has secrets in it", "in line 3.")

	const text = "a: 1\r\nb: </textarea><script>alert(1)</script>\r\n"
	w := d.post("/configuration/check", "text", text, "revision", "abc")
	has(t, w.Body.String(), "A reload would accept this text", "It changes upstreams.", "Servers added: wiki.",
		"Connected to anew: crm.", "Removed: old.", "Line 2: doubtful", "b: &lt;/textarea&gt;", "\n  ^</pre>",
		"not looked up for you")
	if asked := d.api.asked[len(d.api.asked)-1]; w.Code != http.StatusOK ||
		!strings.Contains(asked, `POST /config/check {"text":"a: 1\nb: `) {
		t.Errorf("%d %s", w.Code, asked)
	}
	w = d.post("/configuration/download", "text", text)
	if w.Body.String() != strings.ReplaceAll(text, "\r\n", "\n") ||
		!strings.Contains(w.Header().Get("Content-Disposition"), "attachment") ||
		!strings.HasPrefix(w.Header().Get("Content-Type"), "application/yaml") {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
	if w = d.post("/configuration/save", "text", text, "revision", "abc"); w.Code != http.StatusSeeOther ||
		w.Header().Get("Location") != Root+"/configuration?show=history&done=saved" {
		t.Errorf("%d %v", w.Code, w.Header())
	}

	d.api.answers["POST /config/save"], d.api.status["POST /config/save"] = `{"error":{"code":"GH-ADMIN-REQUEST","message":"the file has changed since"}}`, http.StatusConflict
	w = d.post("/configuration/save", "text", text, "revision", "abc")
	has(t, w.Body.String(), "The file has changed since.", `name="revision" value="abc"`, "b: &lt;/textarea&gt;")
	d.api.answers["POST /config/save"], d.api.status["POST /config/save"] = `{"problems":[]}`,
		http.StatusUnprocessableEntity
	d.api.answers["POST /config/check"] = `{"problems":[{"line":1,"column":1,"message":"bad"}],"warnings":[],"changed":[],"added":[],"replaced":[],"removed":[]}`
	has(t, d.post("/configuration/save", "text", text, "revision", "abc").Body.String(),
		"The text was not saved, and nothing has changed", "1 problem<", "Line 1: bad", "a: 1\n^")

	viewer := newDesk(t, "viewer", configurations())
	if page := viewer.get("/configuration/edit").Body.String(); strings.Contains(page, "Save and reload") {
		t.Error("a viewer is offered to save")
	}
	if w := viewer.post("/configuration/save", "text", "x", "revision", "abc"); w.Code != http.StatusForbidden ||
		len(viewer.api.asked) != 1 {
		t.Errorf("a viewer saves: %d %v", w.Code, viewer.api.asked)
	}
}

func TestFirstRun(t *testing.T) {
	d := newDesk(t, "operator", map[string]string{
		"GET /setup":     `{"endpoint":"http://127.0.0.1:8080/mcp","clients":[{"client":"Cursor","where":"in a file","text":"{\"mcpServers\": 1}\n"}]}`,
		"GET /decisions": `{"decisions":[]}`,
		"POST /setup": `{"servers":[{"name":"crm","url":"https://a.example","enabled":true}],"config":"whole","upstreams":"  - name: crm\n","merged":"all of it","revision":"abc",
			"variables":[{"name":"CRM_TOKEN","for":` + hostileJSON + `}],"notes":[{"server":"crm","text":` + hostileJSON + `}]}`,
		"POST /setup/probe": `{"servers":[{"name":"crm","state":"up","server":` + hostileJSON +
			`,"revision":"r","tools":3,"prompts":0,"resources":0,"skills":0},{"name":"x","state":"down","server":"","revision":"","tools":0,"prompts":0,"resources":0,"skills":0,"error":"refused"}],"warnings":[]}`,
	})
	has(t, d.get("/first-run").Body.String(), "No call yet.", "{&#34;mcpServers&#34;: 1}", `data-copy="client-0"`,
		"Show it and try each server")
	d.api.answers["GET /decisions"] = `{"decisions":[{"time":"2026-11-23T10:00:00Z","kind":"call","id":"c1","method":"tools/call","name":` + hostileJSON + `,"outcome":"ok"}]}`
	has(t, d.get("/first-run").Body.String(), "/console/calls/c1", "not signed in")

	w := d.post("/first-run", "text", "{\r\n}", "try", "1", "value-CRM_TOKEN", "t0ken")
	has(t, w.Body.String(), `name="value-CRM_TOKEN"`, "- name: crm", `name="text" value="all of it"`, "works",
		"refused", "⟨U&#43;202E⟩")
	asked := strings.Join(d.api.asked, "\n")
	if !strings.Contains(asked, `POST /setup/probe {"text":"{\n}","values":{"CRM_TOKEN":"t0ken"}}`) ||
		strings.Contains(w.Body.String(), "t0ken") {
		t.Errorf("%s", asked)
	}
	d.api.answers["POST /setup/probe"], d.api.status["POST /setup/probe"] = `{"problems":[{"message":"to try a program needs more"}]}`, http.StatusUnprocessableEntity
	has(t, d.post("/first-run", "text", "x", "try", "1").Body.String(),
		"The servers were not tried: to try a program needs more")
	d.api.answers["POST /setup"], d.api.status["POST /setup"] = `{"problems":[{"message":"there is no server in it"}]}`,
		http.StatusUnprocessableEntity
	has(t, d.post("/first-run", "text", "x").Body.String(), "there is no server in it.")

	viewer := newDesk(t, "viewer", d.api.answers)
	has(t, viewer.get("/first-run").Body.String(), "You need the role operator")
}
