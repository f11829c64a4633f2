package tlsfiles

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/acme"

	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

// mostDomains bounds the names of a certificate. Let's Encrypt takes as many.
const mostDomains = 100

// ACME is an authority that issues the certificate of a listener (RFC 8555). The gateway orders it, and a new one
// when two thirds of its life are over, or a month before its end.
type ACME struct {
	// Domains are the names of the certificate, such as mcp.example.com; at most 100. Required.
	Domains []string `yaml:"domains"`
	// AcceptTerms says that you agree to the authority's terms of service. Required: true.
	AcceptTerms bool `yaml:"accept_terms"`
	// Email is an address at which the authority may warn you. Default none.
	Email string `yaml:"email"`
	// Directory is the https URL of the authority's directory. Default: that of Let's Encrypt,
	// https://acme-v02.api.letsencrypt.org/directory.
	Directory string `yaml:"directory"`
	// CAFile has authorities, in PEM, for the connection to the directory, in addition to those of the
	// system. Default none.
	CAFile string `yaml:"ca_file"`
	// HTTPListen is an address, such as 0.0.0.0:80, where the authority finds proofs (HTTP-01, as port 80 of
	// each domain) and all others 404. Default: none, and it finds them at the listeners themselves
	// (TLS-ALPN-01, as port 443 of each domain).
	HTTPListen string `yaml:"http_listen"`
}

// domain matches names that an authority can ask for proof over HTTP or TLS. Those in other scripts are written
// with xn--.
var domain = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Validate returns all mistakes but those of HTTPListen.
func (a ACME) Validate() error {
	var found problems.List
	found.When(len(a.Domains) == 0, "domains: are missing: the names of the certificate, such as mcp.example.com")
	found.When(len(a.Domains) > mostDomains, "domains: %d are more than %d", len(a.Domains), mostDomains)
	for i, name := range a.Domains {
		found.When(len(name) > 253 || !domain.MatchString(name) || slices.Contains(a.Domains[:i], name),
			"domains[%d]: %q: want each name once and in lower case, such as mcp.example.com, and without *", i, name)
	}
	found.When(!a.AcceptTerms, "accept_terms: is missing: say true if you agree to the terms of service of the authority")
	found.When(a.Email != "" && !strings.Contains(a.Email, "@"), "email: %q is no address", a.Email)
	u, err := url.Parse(a.URL())
	found.When(err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil,
		"directory: want an https URL, such as %s", acme.LetsEncryptURL)
	return found.Err()
}

// URL returns the URL of the directory.
func (a ACME) URL() string { return cmp.Or(a.Directory, acme.LetsEncryptURL) }

// challenge is the proof that the authority is asked to look for.
func (a ACME) challenge() string {
	if a.HTTPListen != "" {
		return "http-01"
	}
	return "tls-alpn-01"
}

// String describes the certificate for people.
func (a ACME) String() string {
	u, err := url.Parse(a.URL())
	if err != nil {
		return err.Error()
	}
	return strings.Join(a.Domains, ", ") + " by ACME from " + u.Host + " (" + a.challenge() + ")"
}
