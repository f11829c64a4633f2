package demo

import (
	_ "embed" // the texts
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

var (
	//go:embed welcome.txt
	welcomeText string
	//go:embed curl_stateless.txt
	curlStateless string
	//go:embed curl_stateful.txt
	curlStateful string
)

// Welcome writes what the demo offers at the gateway's endpoint and how to try it:
// lines to read are indented, lines to paste are not.
func (d *Demo) Welcome(w io.Writer, endpoint string) error {
	stateless, stateful, err := Curl(endpoint)
	if err != nil {
		return err
	}
	return fill(w, welcomeText, page{
		URL: endpoint, Offers: d.offers,
		Stateless: wire.Stateless().Name, Stateful: wire.NewestStateful().Name,
		CurlStateless: stateless, CurlStateful: stateful,
	})
}

// Curl returns shell commands that call a tool of the demo, in each era.
func Curl(endpoint string) (stateless, stateful string, err error) {
	p := page{URL: endpoint, Stateless: wire.Stateless().Name, Stateful: wire.NewestStateful().Name}
	var one, other strings.Builder
	if err := fill(&one, curlStateless, p); err != nil {
		return "", "", err
	}
	if err := fill(&other, curlStateful, p); err != nil {
		return "", "", err
	}
	return one.String(), other.String(), nil
}

// page is what the texts are filled with.
type page struct {
	URL                         string
	Offers                      []offer
	Stateless, Stateful         string
	CurlStateless, CurlStateful string
}

func fill(w io.Writer, text string, p page) error {
	t, err := template.New("").Funcs(template.FuncMap{"names": publicNames, "uris": publicURIs}).Parse(text)
	if err != nil {
		return fmt.Errorf("demo: welcome text: %w", err)
	}
	return t.Execute(w, p)
}

// publicNames and publicURIs are the names that clients see, by the default rules
// of gateway/catalog.
func publicNames(upstream string, names []string) string { return joined(upstream+"__", names) }

func publicURIs(upstream string, uris []string) string { return joined(upstream+"+", uris) }

func joined(prefix string, names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return prefix + strings.Join(names, ", "+prefix)
}
