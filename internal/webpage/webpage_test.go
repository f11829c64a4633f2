package webpage_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/webpage"
)

// TestHostileText: what a client calls itself is shown as text: no markup, nothing that is hidden or
// turns the rest around, and no more than fits.
func TestHostileText(t *testing.T) {
	p, err := webpage.New(`{{define "page"}}{{template "top" "Title"}}<p>{{text .}}</p>{{template "bottom"}}{{end}}`)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	p.Show(w, http.StatusOK, "page", "https://client.example/cb?x=1", "<script>\u202eevil\x00"+strings.Repeat("x", 300))
	body := w.Body.String()
	for _, want := range []string{"<p>&lt;script&gt;⟨U&#43;202E⟩evil␀xxx", "… (114 characters more)</p>",
		"<title>Title - Gatehouse</title>", webpage.StylePath} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in %s", want, body)
		}
	}
}

// TestHeaders: no page can be framed, runs anything, or leads a form to a program that it does not name.
func TestHeaders(t *testing.T) {
	p, err := webpage.New(`{{define "page"}}{{template "top" "Title"}}{{template "bottom"}}{{end}}`)
	if err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string]string{
		"":                          "form-action 'self'",
		"https://client.example/cb": "form-action 'self' https:",
		"http://127.0.0.1:33418/":   "form-action 'self' https: http://127.0.0.1:33418",
		"http://[::1]:1/cb":         "form-action 'self' https: http:",
		"cursor://anysphere/cb":     "form-action 'self' https: cursor:",
		"https://a.example;x=*/cb":  "form-action 'self' https:",
		"http://a.example;x=*/cb":   "form-action 'self' https: http:",
		"x y://a":                   "form-action 'self'",
	} {
		w := httptest.NewRecorder()
		p.Show(w, http.StatusOK, "page", to, nil)
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.HasSuffix(policy, "; "+want) || !strings.Contains(policy, "frame-ancestors 'none'") ||
			!strings.HasPrefix(policy, "default-src 'none'") ||
			w.Header().Get("X-Frame-Options") != "DENY" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%q: %v", to, w.Header())
		}
	}
}

// TestCrossSiteForm: a form of another site is not ours.
func TestCrossSiteForm(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "https://gw.example/oauth/consent", nil)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if webpage.SameSite(r) {
		t.Error("a form of another site is taken for ours")
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if !webpage.SameSite(r) {
		t.Error("our own form is refused")
	}
}
