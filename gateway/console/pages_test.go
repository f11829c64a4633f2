package console

import (
	"html"
	"net/http"
	"strings"
	"testing"
)

// hostile is what a server, a client or a caller may choose to be called.
const hostile = `"><script>alert(1)</script>` + "\u202e\x00\u200b'" + `{{.}}`

const hostileJSON = `"\"><script>alert(1)</script>\u202e\u0000\u200b'{{.}}"`

// TestPages: each page shows what the API answers, and what others wrote does no harm.
func TestPages(t *testing.T) {
	d := newDesk(t, "operator", map[string]string{
		"GET /sessions":  `{"sessions":[{"session":"abc","user":` + hostileJSON + `,"client_name":` + hostileJSON + `,"revision":"2025-06-18","calls":1,"streams":2,"own_lists":["files"],"started":"2026-11-23T10:00:00Z","used":"2026-11-23T10:00:00Z"}],"missing":["r2"]}`,
		"GET /approvals": `{"approvals":[{"id":"c1","user":` + hostileJSON + `,"upstream":"up","original":"drop","name":"up__drop","rules":["four-eyes"],"digest":"d1","arguments":{"a":` + hostileJSON + `},"mine":true}]}`,
		"GET /decisions": `{"decisions":[{"time":"2026-11-23T10:00:00Z","kind":"signin","event":"refused","reason":` + hostileJSON + `,"user":` + hostileJSON + `}]}`,
		"GET /signins":   `{"failures":[{"agent":` + hostileJSON + `,"event":"refused","reason":` + hostileJSON + `,"remedy":"Sign in again.","count":7,"last":"2026-11-23T10:00:00Z"}],"left_out":3,"last":[]}`,
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
		if h := w.Header(); !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("Cache-Control") != "no-store" || h.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: headers %v", path, h)
		}
	}
	if strings.Contains(d.get("/approvals").Body.String(), hostile) {
		t.Error("hostile text is as it was")
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
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != Root+"/sessions?done=ended" || len(d.api.asked) != 1 {
		t.Errorf("%d %v %v", w.Code, w.Header(), d.api.asked)
	}
	w = d.post("/sessions/end", "session", "../config")
	if w.Code != http.StatusNotFound || d.api.asked[1] != "DELETE /sessions/..%2Fconfig" {
		t.Errorf("%d %v", w.Code, d.api.asked)
	}
}
