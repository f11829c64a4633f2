package clientele

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

// DefaultLifetime is how long a registration lasts.
const DefaultLifetime = 90 * 24 * time.Hour

const (
	maxLifetime = 366 * 24 * time.Hour
	minSecret   = 16
	maxFixed    = 1000
)

// Config are those keys of "auth.server" that say who may be a client.
type Config struct {
	// Clients are clients that the configuration names. Default: none.
	Clients []Fixed `yaml:"clients"`
	// Registration says how others become clients. Default: not at all.
	Registration Registration `yaml:"registration"`
}

// Fixed is a client that the configuration names.
type Fixed struct {
	// ID is its client_id: a word, or the URL of its document.
	ID string `yaml:"id"`
	// Name is what the consent page calls it. Default: that of its document, or its id.
	Name string `yaml:"name"`
	// RedirectURIs are the addresses to which users are sent back. They are compared byte for byte,
	// but with any port on a loopback address. Default: those of its document.
	RedirectURIs []string `yaml:"redirect_uris"`
	// Secret is the secret of a confidential client, at least 16 characters. Default: none, a
	// public client.
	Secret mcp.Secret `yaml:"secret"`
	// Document is a file with a copy of the document at the id, which is then never fetched. Paths
	// start at the directory of the configuration.
	Document string `yaml:"document"`
}

// Registration is the section "auth.server.registration".
type Registration struct {
	// CIMD takes clients by documents at the URLs that are their ids (OAuth Client ID Metadata Documents).
	CIMD CIMD `yaml:"cimd"`
	// DCR takes clients that register themselves (RFC 7591).
	DCR DCR `yaml:"dcr"`
}

// CIMD is the section "auth.server.registration.cimd": clients that have the URL of a document as their id.
type CIMD struct {
	// Allow lists the hosts that documents are fetched from: claude.ai, *.example.com for all hosts below it,
	// or * for every host. Default: none.
	Allow []string `yaml:"allow"`
	// Deny lists exceptions: hosts that documents are never fetched from. Default: none.
	Deny []string `yaml:"deny"`
}

// DCR is the section "auth.server.registration.dcr": clients that register themselves.
type DCR struct {
	// Enabled lets clients register themselves: all that can reach the gateway. Default: false.
	Enabled bool `yaml:"enabled"`
	// Redirects say where their redirect URIs may lead, besides to the user's own machine over HTTP:
	// hosts as in cimd.allow, and schemes of programs, such as "cursor:". Default: none.
	Redirects []string `yaml:"redirects"`
	// Lifetime is how long a registration lasts, at most 366 days. Default: 2160h, which is 90 days.
	Lifetime time.Duration `yaml:"lifetime"`
}

// IsZero reports whether there can be no clients.
func (c Config) IsZero() bool {
	return len(c.Clients) == 0 && len(c.Registration.CIMD.Allow) == 0 && !c.Registration.DCR.Enabled
}

// ResolvePaths changes each path of a file.
func (c Config) ResolvePaths(change func(*string)) {
	for i := range c.Clients {
		change(&c.Clients[i].Document)
	}
}

// Validate reports all mistakes, each with the path of its key in front.
func (c Config) Validate() error {
	var found problems.List
	found.When(len(c.Clients) > maxFixed, "clients: %d are more than %d", len(c.Clients), maxFixed)
	ids := map[string]int{}
	for i, f := range c.Clients {
		path := fmt.Sprintf("clients[%d]", i)
		found.At(path, f.check()...)
		if first, taken := ids[f.ID]; taken {
			found.Add("%s: id: clients[%d] is the same", path, first)
			continue
		}
		ids[f.ID] = i
	}
	r := c.Registration
	for _, p := range r.CIMD.Allow {
		found.When(!isPattern(p),
			"registration.cimd.allow: %q is not the name of a host in lower case, such as claude.ai, *.example.com, or * for every host", p)
	}
	for _, p := range r.CIMD.Deny {
		found.When(!isPattern(p),
			"registration.cimd.deny: %q is not the name of a host in lower case, such as claude.ai or *.example.com", p)
	}
	found.When(len(r.CIMD.Deny) > 0 && len(r.CIMD.Allow) == 0,
		"registration.cimd.deny: nothing is allowed that could be denied: there is no registration.cimd.allow")
	for _, p := range r.DCR.Redirects {
		if scheme, is := strings.CutSuffix(p, ":"); is {
			if _, err := parseRedirect(scheme + ":/x"); err != nil {
				found.Add("registration.dcr.redirects: %q is not the scheme of a program in lower case, such as \"cursor:\"", p)
			}
		} else if !isPattern(p) {
			found.Add("registration.dcr.redirects: %q is neither the name of a host in lower case, such as claude.ai, *.example.com, or * for every host, nor a scheme, such as \"cursor:\"", p)
		}
	}
	found.When(r.DCR.Lifetime < 0 || r.DCR.Lifetime > maxLifetime || r.DCR.Lifetime > 0 && r.DCR.Lifetime < time.Minute,
		"registration.dcr.lifetime: %s is not between 1m and %s", r.DCR.Lifetime, maxLifetime)
	found.When(!r.DCR.Enabled && (len(r.DCR.Redirects) > 0 || r.DCR.Lifetime != 0),
		"registration.dcr.enabled: nobody can register themselves while it is false: write true, or take the other keys away")
	return found.Err()
}

func (f Fixed) check() (found problems.List) {
	isURL := strings.Contains(f.ID, ":")
	switch {
	case f.ID == "":
		found.Add("id: is needed: what the client says it is")
	case isURL:
		if err := checkDocumentURL(f.ID); err != nil {
			found.Add("id: as the URL of a document, it %w", err)
		} else if f.Document == "" {
			found.Add("document: is needed for an id that is a URL: a copy of what is there; to have it fetched, name its host in registration.cimd.allow instead")
		}
	case !isWord(f.ID) || strings.HasPrefix(f.ID, registeredPrefix):
		found.Add("id: %q: want up to %d letters, digits and -._~, and not %s in front", f.ID, maxWord, registeredPrefix)
	}
	switch {
	case f.Document != "" && f.ID != "" && !isURL:
		found.Add("document: is only for an id that is its URL")
	case f.Document == "" && len(f.RedirectURIs) == 0:
		found.Add("redirect_uris: are needed: where users are sent back to")
	}
	found.When(len(f.RedirectURIs) > maxRedirects, "redirect_uris: %d are more than %d", len(f.RedirectURIs), maxRedirects)
	for _, uri := range f.RedirectURIs {
		if _, err := parseRedirect(uri); err != nil {
			found.Add("redirect_uris: %.200q %w", uri, err)
		}
	}
	found.When(f.Secret != "" && len(f.Secret) < minSecret, "secret: is shorter than %d characters", minSecret)
	found.When(f.Secret != "" && isURL, "secret: a client with a document has none: everybody can read its document")
	found.When(f.Name != "" && cleanName(f.Name) != f.Name,
		"name: %q: want up to %d characters, and none that people cannot see", f.Name, maxName)
	return found
}

const maxWord = 200

// isWord reports whether an id has one spelling everywhere.
func isWord(id string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"
	return id != "" && len(id) <= maxWord && strings.Trim(id, letters) == ""
}

// isPattern reports whether a text is a host, *.host or *.
func isPattern(p string) bool { return p == "*" || isName(strings.TrimPrefix(p, "*.")) }

// matches reports whether a host is one of these.
func matches(patterns []string, host string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		below, wild := strings.CutPrefix(p, "*")
		return p == host || wild && strings.HasSuffix(host, below)
	})
}
