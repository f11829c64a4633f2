package webpage

import (
	"bytes"
	_ "embed" // the frame and the style
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// StylePath is where Style has to be served.
const StylePath = "/gatehouse.css"

var (
	//go:embed static/frame.html
	frame string
	//go:embed static/style.css
	style string
)

// mostText bounds a text of others on a page, in characters.
const mostText = 200

// Pages are the templates of pages. They are safe for concurrent use.
type Pages struct{ templates *template.Template }

// New parses templates. A page is {{template "top" "Its title"}}, its content, and
// {{template "bottom"}}. What others wrote goes through the function text.
func New(templates string) (*Pages, error) {
	t, err := template.New("").Funcs(template.FuncMap{
		"text": func(s string) string { return Text(s, mostText) },
	}).Parse(frame)
	if err == nil {
		t, err = t.Parse(templates)
	}
	return &Pages{t}, err
}

// Show writes a page. Its forms may lead to this server and, with a redirect, to the URI to;
// "" for none.
func (p *Pages) Show(w http.ResponseWriter, status int, name, to string, data any) {
	var body bytes.Buffer
	if err := p.templates.ExecuteTemplate(&body, name, data); err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy",
		strings.TrimSpace("default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'; form-action 'self' "+formAction(to)))
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with a stricter policy, browsers hide the origin of our own form
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(body.Bytes())
}

// Style serves the style of the pages.
func Style(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/css; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "public, max-age=3600")
	w.Write([]byte(style))
}

// SameSite reports whether a form was sent by one of our own pages, as far as the browser tells:
// all common ones do.
func SameSite(r *http.Request) bool { return new(http.CrossOriginProtection).Check(r) == nil }

// plainHost is a host that may appear in a header.
var plainHost = regexp.MustCompile(`^[A-Za-z0-9.-]+(:[0-9]{1,5})?$`)

// scheme is the scheme of a URI.
var scheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)

// formAction returns the CSP sources that let a form lead to a URI: browsers check redirects after a
// form, too, and what is there may redirect to a web page.
func formAction(to string) string {
	u, err := url.Parse(to)
	switch {
	case err != nil || !scheme.MatchString(u.Scheme):
		return ""
	case u.Scheme == "https":
		return "https:"
	case u.Scheme == "http" && plainHost.MatchString(u.Host):
		return "https: http://" + u.Host
	}
	return "https: " + u.Scheme + ":" // a program's own scheme, or IPv6, which CSP cannot express
}
