package issuer

import (
	"bytes"
	_ "embed" // the pages
	"fmt"
	"html/template"
	"net/http"
	"unicode/utf8"
)

var (
	//go:embed page/page.html
	pageText string
	//go:embed page/style.css
	styleText string
)

// pages are the pages for people. They need no script.
type pages struct {
	templates *template.Template
}

// signIn is the data of the page "signin".
type signIn struct {
	Issuer      string
	Client      string
	Document    string // host of the client's metadata document, "" without one
	Resource    string
	Destination string
	Local       bool // the destination is on this machine
	Scopes      []Scope
	Users       []User
	CSRF        string
}

func newPages() (*pages, error) {
	initial := func(name string) string {
		_, size := utf8.DecodeRuneInString(name)
		return name[:size]
	}
	t, err := template.New("").Funcs(template.FuncMap{"initial": initial}).Parse(pageText)
	if err != nil {
		return nil, fmt.Errorf("development issuer: pages: %w", err)
	}
	return &pages{templates: t}, nil
}

// show writes a page. Its form may lead to this issuer and, with a redirect, to the CSP
// source formTo.
func (p *pages) show(w http.ResponseWriter, status int, formTo, name string, data any) {
	var body bytes.Buffer
	if err := p.templates.ExecuteTemplate(&body, name, data); err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src data:; form-action 'self' "+formTo+
		"; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with a stricter policy, browsers hide the origin of our own form
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(body.Bytes())
}

func (p *pages) style(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/css; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	fmt.Fprint(w, styleText)
}

// showProblem tells a person what went wrong. next, unless "", is the link that reports it
// to the client.
func (s *Issuer) showProblem(w http.ResponseWriter, status int, text, next string) {
	s.pages.show(w, status, "", "problem", struct{ Text, Next string }{text, next})
}

func (s *Issuer) about(w http.ResponseWriter, _ *http.Request) {
	s.pages.show(w, http.StatusOK, "", "about", struct {
		Issuer    string
		Resources []string
		Users     []User
	}{s.cfg.URL, s.cfg.Resources, s.shown()})
}
