package mcptest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// A Tab of a browser opens pages and presses buttons over real HTTP, as a user without JavaScript
// does. Redirects lead to pages and, in the end, back to a client.
type Tab struct {
	t    testing.TB
	http *http.Client
}

// NewTab makes a tab of a new browser of a user (NewBrowser). The test closes its connections.
func NewTab(t testing.TB, user string) *Tab {
	browser := NewBrowser(user)
	t.Cleanup(browser.CloseIdleConnections)
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Tab{t, browser}
}

// Page is what a tab shows.
type Page struct {
	URL    *url.URL
	Status int // 0 where the browser was handed over to a program: there is nothing but the URL
	Header http.Header
	HTML   string
	// Text is the visible text, with one space between words.
	Text  string
	forms []form
}

// form is a form with its fields, without those of buttons.
type form struct {
	method  string
	action  *url.URL
	fields  url.Values
	buttons []button
}

type button struct{ name, value, text string }

// Open opens a URL and follows redirects up to a page, or to until, which is not opened: the
// redirect URI of a client.
func (b *Tab) Open(ctx context.Context, at, until string) *Page {
	b.t.Helper()
	return b.send(ctx, http.MethodGet, at, "", nil, until)
}

// Press presses the button with this value or text on a page, and goes on as Open does. The page needs
// one.
func (b *Tab) Press(ctx context.Context, p *Page, label, until string) *Page {
	b.t.Helper()
	for _, f := range p.forms {
		at := slices.IndexFunc(f.buttons, func(one button) bool { return one.value == label || one.text == label })
		if at < 0 {
			continue
		}
		fields, pressed := url.Values{}, f.buttons[at]
		for name, values := range f.fields {
			fields[name] = slices.Clone(values)
		}
		if pressed.name != "" {
			fields.Add(pressed.name, pressed.value)
		}
		if f.method == http.MethodGet {
			to := *f.action
			to.RawQuery = fields.Encode()
			return b.send(ctx, http.MethodGet, to.String(), p.URL.String(), nil, until)
		}
		return b.send(ctx, http.MethodPost, f.action.String(), p.URL.String(), fields, until)
	}
	b.t.Fatalf("no button %q on %s (%d): %s", label, p.URL, p.Status, p.Text)
	return nil
}

// Fill writes into the field of this name. The page needs one.
func (p *Page) Fill(t testing.TB, name, text string) {
	t.Helper()
	for _, f := range p.forms {
		if f.fields.Has(name) {
			f.fields.Set(name, text)
			return
		}
	}
	t.Fatalf("no field %q on %s (%d): %s", name, p.URL, p.Status, p.Text)
}

// Has reports whether the page has a field of this name.
func (p *Page) Has(name string) bool {
	return slices.ContainsFunc(p.forms, func(f form) bool { return f.fields.Has(name) })
}

func (b *Tab) send(ctx context.Context, method, at, from string, fields url.Values, until string) *Page {
	b.t.Helper()
	for range 20 {
		var body io.Reader
		if method == http.MethodPost {
			body = strings.NewReader(fields.Encode())
		}
		req, err := http.NewRequestWithContext(ctx, method, at, body)
		if err != nil {
			b.t.Fatal(err)
		}
		req.Header.Set("Accept", "text/html")
		if method == http.MethodPost {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if page, err := url.Parse(from); err == nil {
				req.Header.Set("Origin", page.Scheme+"://"+page.Host)
				req.Header.Set("Sec-Fetch-Site", site(page, req.URL))
			}
		}
		resp, err := b.http.Do(req)
		if err != nil {
			b.t.Fatal(err)
		}
		text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		resp.Body.Close()
		if err != nil {
			b.t.Fatal(err)
		}
		to, err := resp.Location()
		if err != nil || resp.StatusCode/100 != 3 {
			return newPage(b.t, resp, string(text))
		}
		if until != "" && isOrHasQuery(to.String(), until) {
			return &Page{URL: to}
		}
		method, from, at = http.MethodGet, at, to.String()
	}
	b.t.Fatalf("too many redirects, at last to %s", at)
	return nil
}

func isOrHasQuery(at, base string) bool {
	rest, ok := strings.CutPrefix(at, base)
	return ok && (rest == "" || rest[0] == '?' || rest[0] == '&' && strings.Contains(base, "?"))
}

func site(from, to *url.URL) string {
	if from.Scheme == to.Scheme && from.Host == to.Host {
		return "same-origin"
	}
	return "cross-site"
}

// newPage reads a page.
func newPage(t testing.TB, resp *http.Response, text string) *Page {
	t.Helper()
	p := &Page{URL: resp.Request.URL, Status: resp.StatusCode, Header: resp.Header, HTML: text}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		p.Text = text
		return p
	}
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var words strings.Builder
	p.read(root, &words, -1)
	p.Text = strings.Join(strings.Fields(words.String()), " ")
	return p
}

// read reads a node that stands within the form with this index, -1 for none.
func (p *Page) read(n *html.Node, words *strings.Builder, within int) {
	switch {
	case n.Type == html.TextNode:
		words.WriteString(n.Data + " ")
	case n.Type != html.ElementNode:
	case n.Data == "style", n.Data == "script", n.Data == "title":
		return
	case n.Data == "form":
		action, err := p.URL.Parse(attribute(n, "action"))
		if err != nil {
			action = p.URL
		}
		method := strings.ToUpper(cmp.Or(attribute(n, "method"), http.MethodGet))
		p.forms = append(p.forms, form{method: method, action: action, fields: url.Values{}})
		within = len(p.forms) - 1
	case within < 0:
	case n.Data == "button", n.Data == "input" && attribute(n, "type") == "submit":
		var label strings.Builder
		(&Page{URL: p.URL}).children(n, &label, -1)
		text := cmp.Or(strings.Join(strings.Fields(label.String()), " "), attribute(n, "value"))
		p.forms[within].buttons = append(p.forms[within].buttons, button{attribute(n, "name"), attribute(n, "value"), text})
	case n.Data == "input" && attribute(n, "name") != "":
		kind, checked := attribute(n, "type"), slices.ContainsFunc(n.Attr,
			func(a html.Attribute) bool { return a.Key == "checked" })
		if kind != "checkbox" && kind != "radio" || checked {
			p.forms[within].fields.Add(attribute(n, "name"), attribute(n, "value"))
		}
	}
	p.children(n, words, within)
}

func (p *Page) children(n *html.Node, words *strings.Builder, within int) {
	for c := range n.ChildNodes() {
		p.read(c, words, within)
	}
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// String is what the page says, for failures.
func (p *Page) String() string { return fmt.Sprintf("%d %s: %s", p.Status, p.URL, p.Text) }
