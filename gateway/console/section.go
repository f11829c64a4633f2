package console

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/doorway"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

// Section is the section "admin".
type Section struct {
	// Listen is the address, host:port, unix:/path or systemd:NAME, that serves /healthz, /readyz and
	// /metrics (docs/metrics.md) to all who reach it. /readyz gives the state of upstreams only to requests
	// from this machine, but /metrics includes their names. Default none.
	Listen string `yaml:"listen"`
	// TLS has the certificates of this listener. Default: plain HTTP.
	TLS tlsfiles.Server `yaml:"tls"`
	// API gives access to the API for operators, /api/v1/ at the same address (docs/admin-api.md). A reload
	// changes it, but does not begin or end to serve it. Default: it is not served.
	API admin.Config `yaml:"api"`
	// URL is the address of this listener for browsers: https, or http on a loopback address.
	// Default: http://<listen>, or https with tls.
	URL string `yaml:"url"`
	// Rules give roles to people who sign in to the console. Default: none.
	Rules admin.RoleRules `yaml:"rules"`
	// Console has the pages for operators, /console/ at the same address (docs/console.md). A reload changes
	// it, but does not begin or end to serve it. Default: it is not served.
	Console Config `yaml:"console"`
}

// Operated reports whether operators may ask what has happened.
func (a Section) Operated() bool { return !a.API.IsZero() || !a.Console.IsZero() }

// At returns the address of the listener for browsers, without / at its end.
func (a Section) At() string {
	host := a.Listen
	if a.elsewhere() {
		host = "localhost"
	}
	return strings.TrimSuffix(cmp.Or(a.URL, a.TLS.Scheme()+"://"+host), "/")
}

// elsewhere reports whether browsers cannot reach the listener by its address.
func (a Section) elsewhere() bool {
	kind, _ := doorway.Kind(a.Listen)
	return kind != doorway.TCP
}

// Around holds the facts of other sections that this one has to fit.
type Around struct {
	// Issuers are auth.issuers, which count with auth.mode oauth only.
	Issuers []string
	// Approvers says that rules of policy name people who approve calls.
	Approvers bool
	// CheckListen checks an address to listen at.
	CheckListen func(string) error
}

// Check reports all mistakes, each with the path of its key in front.
func (a Section) Check(with Around) (found problems.List) {
	switch {
	case a.Listen != "":
		found.At("admin.listen", with.CheckListen(a.Listen))
	case !a.API.IsZero():
		found.Add("admin.listen: admin.api needs it: the address of the API, such as 127.0.0.1:9090")
	case !a.Console.IsZero():
		found.Add("admin.listen: admin.console needs it: the address of the console, such as 127.0.0.1:9090")
	}
	found.At("admin.tls", a.TLS.Validate())
	found.When(a.Listen == "" && !a.TLS.IsZero(), "admin.listen: admin.tls needs it: the address, such as 0.0.0.0:9090")
	found.At("admin.api", a.API.Validate())
	found.When(a.API.Messages != "" && !a.Operated(),
		"admin.api.messages: nobody could see them: add tokens, loopback or a console, or leave it out")
	found.When(a.API.RecentBytes != 0 && !a.Operated(),
		"admin.api.recent_bytes: nobody could see them: add tokens, loopback or a console, or leave it out")
	found.At("admin.console", a.Console.Validate())
	found.At("admin.rules", a.Rules.Validate())
	if a.URL != "" || !a.Console.SignIn.IsZero() {
		found.At("admin.url", checkURL(a.At()))
	}
	if a.Console.SignIn.IsZero() {
		return found
	}
	found.When(a.URL == "" && a.elsewhere(),
		"admin.url: is missing: people who sign in come back to it, and admin.listen is no address for browsers")
	switch issuer := a.Console.SignIn.Issuer; {
	case len(with.Issuers) == 0:
		found.Add("admin.console.sign_in: needs auth.mode oauth: people sign in at one of auth.issuers")
	case issuer == "" && len(with.Issuers) > 1:
		found.Add("admin.console.sign_in.issuer: is missing: name one of auth.issuers")
	case issuer != "" && !slices.Contains(with.Issuers, issuer):
		found.Add("admin.console.sign_in.issuer: %q is none of auth.issuers", issuer)
	}
	found.When(len(a.Rules) == 0 && !with.Approvers, "admin.rules: are missing: nobody who signs in has a role")
	return found
}
