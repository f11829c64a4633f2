package demo

import (
	"bytes"
	"embed"
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

//go:embed text/*.txt
var textFiles embed.FS

// Welcome writes where the demo is and three commands to try it, and puts the guide into a file, which Close removes.
func (d *Demo) Welcome(w io.Writer, endpoint string) error {
	var guide bytes.Buffer
	if err := d.Guide(&guide, endpoint); err != nil {
		return err
	}
	p := d.page(endpoint)
	p.bold = d.opts.Bold
	var err error
	if p.Guide, err = d.write("try.txt", guide.Bytes()); err != nil {
		return err
	}
	return fill(w, "banner.txt", p)
}

// Guide writes what the demo offers at the gateway's endpoint, and how to try that. Lines to read
// are indented; lines to paste are not.
func (d *Demo) Guide(w io.Writer, endpoint string) error {
	return fill(w, "guide.txt", d.page(endpoint))
}

func (d *Demo) page(endpoint string) page {
	p := newPage(endpoint)
	p.Admin, p.Offers, p.SignIn, p.Command, p.File, p.Progressive = d.opts.Admin, d.offers, d.signIn, d.opts.Command,
		d.file, d.opts.Progressive
	return p
}

// Curl returns shell commands that call a tool of a demo without sign-in, in each era.
func Curl(endpoint string) (stateless, stateful string, err error) {
	var one, other strings.Builder
	if err := fill(&one, "curl_stateless.txt", newPage(endpoint)); err != nil {
		return "", "", err
	}
	if err := fill(&other, "curl_stateful.txt", newPage(endpoint)); err != nil {
		return "", "", err
	}
	return one.String(), other.String(), nil
}

// page is the data of the texts. SignIn and File are for a demo with sign-in.
type page struct {
	URL                 string
	Admin               string // the console's address; "" for none
	Offers              []offer
	Stateless, Stateful string // revisions
	Command             string // the name of this program
	Progressive         bool   // tools are listed in short
	bold                bool

	SignIn *signIn
	File   string // of the configuration
	Guide  string // the file with more
}

func newPage(endpoint string) page {
	return page{URL: endpoint, Stateless: wire.Stateless().Name, Stateful: wire.NewestStateful().Name}
}

// fill writes one of the texts.
func fill(w io.Writer, name string, data any) error {
	bold := func(text string) string { return text }
	if p, ok := data.(page); ok && p.bold {
		bold = func(text string) string { return "\x1b[1m" + text + "\x1b[0m" }
	}
	t, err := template.New("").Funcs(template.FuncMap{
		"names": publicNames, "uris": publicURIs, "quote": quote, "quoteFile": quoteFile, "bold": bold,
		"upper": strings.ToUpper,
	}).ParseFS(textFiles, "text/*.txt")
	if err != nil {
		return fmt.Errorf("demo: texts: %w", err)
	}
	return t.ExecuteTemplate(w, name, data)
}

// publicNames and publicURIs return the names that clients see, by the default rules of
// gateway/catalog.
func publicNames(upstream string, names []string) string { return joined(upstream+"__", names) }

func publicURIs(upstream string, uris []string) string { return joined(upstream+"+", uris) }

func joined(prefix string, names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return prefix + strings.Join(names, ", "+prefix)
}
