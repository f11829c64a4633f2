package console

import (
	"html"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// hostile is what a server, a client or a caller may choose to be called.
const hostile = `"><script>alert(1)</script>` + "\u202e\x00\u200b'" + `{{.}}`

const hostileJSON = `"\"><script>alert(1)</script>\u202e\u0000\u200b'{{.}}"`

// TestPages: each page shows what the API answers, and what others wrote does no harm.
func TestPages(t *testing.T) {
	d := newDesk(t, "operator", map[string]string{
		"GET /sessions": `{"sessions":[{"session":"abc","user":` + hostileJSON + `,"client_name":` + hostileJSON +
			`,"revision":"2025-06-18","calls":1,"streams":2,"own_lists":["files"],"started":"2026-11-23T10:00:00Z","used":"2026-11-23T10:00:00Z"}],"missing":["r2"]}`,
		"GET /approvals": `{"approvals":[{"id":"c1","user":` + hostileJSON +
			`,"upstream":"up","original":"drop","name":"up__drop","rules":["four-eyes"],"digest":"d1","arguments":{"a":` +
			hostileJSON + `},"mine":true}]}`,
		"GET /decisions": `{"decisions":[{"time":"2026-11-23T10:00:00Z","kind":"signin","event":"refused","reason":` +
			hostileJSON + `,"user":` + hostileJSON + `}]}`,
		"GET /config": `{}`,
		"GET /signins": `{"failures":[{"agent":` + hostileJSON + `,"client":"dcr-7","event":"refused","reason":` +
			hostileJSON + `,"remedy":"Sign in again.","count":7,"last":"2026-11-23T10:00:00Z"}],"left_out":3,"last":[]}`,
	})
	for path, want := range map[string]string{
		"/sessions": "own lists of files", "/approvals": `name="digest" value="d1"`, "/sign-ins": "Sign in again.",
	} {
		w := d.get(path)
		page := w.Body.String()
		if w.Code != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("%s: %d, no %q in it:\n%s", path, w.Code, want, page)
		}
		for _, bad := range []string{"<script>alert", "\u202e", "\x00", "\u200b"} {
			if strings.Contains(page, bad) {
				t.Errorf("%s: the page has %q", path, bad)
			}
		}
		if !strings.Contains(page, "⟨U&#43;202E⟩") {
			t.Errorf("%s: what is hidden is not named", path)
		}
		if h := w.Header(); !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") ||
			h.Get("Cache-Control") != "no-store" || h.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: headers %v", path, h)
		}
	}
	if strings.Contains(d.get("/approvals").Body.String(), hostile) {
		t.Error("hostile text is as it was")
	}
}

// TestTokenTest: an operator pastes a token, and sees what the gateway thinks of it. The token is not on
// the page, and no claim of it does harm.
func TestTokenTest(t *testing.T) {
	const api, canary = "POST /auth/test", "eyJcanary.eyJcanary.canary"
	d := newDesk(t, "operator", map[string]string{
		"GET /decisions": `{}`,
		"GET /signins":   `{"failures":[{"agent":"cursor","client":"dcr-7","event":"refused","reason":"no","count":1}],"last":[]}`,
		"GET /config":    `{"views":[{"name":"sales"},{"name":"hr"}]}`,
		api: `{"kind":"a JWT","good":false,"status":401,"error_code":"GH-TOKEN-INVALID","reason":"the token is for another audience","detail":` + hostileJSON + `,"next":"Have the issuer make tokens.",
			"steps":[{"step":"form","result":"good"},{"step":"audience","result":"failed"},{"step":"times","result":"not looked at"}],"says":[{"name":"iss","value":` + hostileJSON + `}]}`,
	})
	page := d.get("/sign-ins?token=" + canary).Body.String()
	for _, want := range []string{`<input type="password" name="token" required size="34" autocomplete="off"`,
		`<option value="sales">`, "cursor", "dcr-7"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	asked := len(d.api.asked)
	w := d.post("/sign-ins", "token", canary, "view", "hr")
	page = w.Body.String()
	harmless(t, page)
	for _, want := range []string{
		"It is a JWT.", `<span class="state bad">refused</span> the token is for another audience`, "(HTTP 401,",
		"GH-TOKEN-INVALID", "Have the issuer make tokens.",
		`<dt>audience</dt><dd><span class="state bad">failed</span>`, "not looked at", "<dt>iss</dt>",
		`<option value="hr" selected>`,
	} {
		if w.Code != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("%d, no %s in\n%s", w.Code, want, page)
		}
	}
	if strings.Contains(page, "canary") || !slices.Contains(d.api.asked[asked:],
		api+` {"token":"`+canary+`","view":"hr"}`) {
		t.Errorf("asked %q", d.api.asked[asked:])
	}
	d.api.answers[api] = `{"kind":"an API key","good":true,"next":"Nothing.","steps":[],"caller":{"issuer":"keys","user":` + hostileJSON + `,"groups":["staff","ops"],"scopes":[]},"rules":["ci","all"]}`
	page = d.post("/sign-ins", "token", canary).Body.String()
	harmless(t, page)
	for _, want := range []string{`<span class="state good">accepted</span>`, "staff, ops", "<dt>Scopes</dt><dd>none</dd>",
		`<a href="/console/policy?find=ci">ci</a>, <a`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	d.api.status[api], d.api.answers[api] = http.StatusBadRequest,
		`{"error":{"code":"GH-ADMIN-REQUEST","message":"no such view"}}`
	if w := d.post("/sign-ins", "token", canary, "view", "x"); w.Code != http.StatusOK ||
		!strings.Contains(w.Body.String(), `role="alert">No such view.`) || strings.Contains(w.Body.String(), "canary") {
		t.Errorf("a bad question: %d %s", w.Code, w.Body)
	}

	// Nobody else: not another site, not another role, not by a link.
	asked = len(d.api.asked)
	r := d.form("/sign-ins", "token", canary)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w = httptest.NewRecorder()
	if d.ServeHTTP(w, r); w.Code != http.StatusForbidden || len(d.api.asked) != asked {
		t.Errorf("from another site: %d", w.Code)
	}
	d.post("/sign-ins?token="+canary, "view", "")
	if last := d.api.asked[len(d.api.asked)-1]; last != api+` {"token":""}` {
		t.Errorf("a token in a URL is taken: %s", last)
	}
	for _, role := range []string{"viewer", "auditor"} {
		d := newDesk(t, role, d.api.answers)
		if page := d.get("/sign-ins").Body.String(); strings.Contains(page, `name="token"`) ||
			!strings.Contains(page, "You need the role operator") {
			t.Errorf("%s sees the form", role)
		}
		d.api.asked = nil
		if w := d.post("/sign-ins", "token", canary); w.Code != http.StatusForbidden || len(d.api.asked) > 0 {
			t.Errorf("%s tests a token: %d %q", role, w.Code, d.api.asked)
		}
	}
}

// TestApprovalsShowArguments: whoever decides on a call can read what it does.
func TestApprovalsShowArguments(t *testing.T) {
	d := newDesk(t, "operator", map[string]string{
		"GET /approvals": `{"approvals":[{"id":"c1","user":"bob","rules":["two"],"digest":"d1","arguments":{"account":7,"to":"<b>"},"others":[{"in":"_meta","name":"trace","value":["a"]}],"mine":true}]}`,
		"GET /decisions": `{}`,
	})
	page := html.UnescapeString(d.get("/approvals").Body.String())
	for _, want := range []string{"\"account\": 7,\n  \"to\": \"<b>\"", "[\n  \"a\"\n]"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
}

// TestActions: a form asks the API for one thing, as its visitor.
func TestActions(t *testing.T) {
	d := newDesk(t, "operator", map[string]string{"DELETE /sessions/abc": ""})
	w := d.post("/sessions/end", "session", "abc")
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != Root+"/sessions?done=ended" ||
		len(d.api.asked) != 1 {
		t.Errorf("%d %v %v", w.Code, w.Header(), d.api.asked)
	}
	w = d.post("/sessions/end", "session", "../config")
	if w.Code != http.StatusNotFound || d.api.asked[1] != "DELETE /sessions/../config" {
		t.Errorf("%d %v", w.Code, d.api.asked)
	}
}
