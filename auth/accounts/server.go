package accounts

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Server is an MCP server where users have accounts of their own.
type Server struct {
	// Name is the configured name of the upstream, URL its endpoint.
	Name, URL string
	// Resource is the server's name in its own metadata (RFC 9728); "" for URL.
	Resource string
	// NoResource leaves the parameter resource out, for authorization servers that do not know it.
	NoResource bool
	// Issuer is its authorization server; "" for the first one that its metadata name.
	Issuer string
	// ClientID is the gateway's client id at Issuer; "" for a client ID metadata document, or
	// dynamic registration.
	ClientID     string
	ClientSecret mcp.Secret
	// ClientAuth is how ClientSecret is sent: client_secret_basic, the default, or
	// client_secret_post.
	ClientAuth string
	// Scopes are asked for where the server's challenge names none. Default: all that its metadata
	// name.
	Scopes []string
	// Route says how the server and its authorization server are reached.
	Route egress.Config
}

// Problem is the reason why a sign-in cannot continue.
type Problem struct {
	// Why is for the user: what is the matter, without secrets and without what others wrote.
	Why string
	// Cause is for the operator; nil if there is nothing to add.
	Cause error
}

// Error returns the reason.
func (p *Problem) Error() string {
	if p.Cause != nil {
		return p.Why + ": " + p.Cause.Error()
	}
	return p.Why
}

// Unwrap returns what was behind it.
func (p *Problem) Unwrap() error { return p.Cause }

func problem(cause error, format string, args ...any) *Problem {
	return &Problem{Why: fmt.Sprintf(format, args...), Cause: cause}
}

// canonical writes a resource identifier so that those of the same resource are equal: scheme and
// host in lower case, without default port and without a slash at the end.
func canonical(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", errors.New("not an absolute URL without a fragment")
	}
	port := u.Port()
	if u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
	return u.String(), nil
}

// sameResource reports whether two identifiers are of the same resource.
func sameResource(a, b string) bool {
	one, err := canonical(a)
	other, otherErr := canonical(b)
	return err == nil && otherErr == nil && one == other
}

// split cuts a URL into its origin, and its path with the query.
func split(raw string) (origin, path string, err error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "", "", errors.New("not an absolute URL")
	}
	origin, path = u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return origin, path, nil
}

// hostOf returns the host of a URL for people to read.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Host
}

// sameSite reports whether two URLs are of one site: hosts of one registrable domain, the registered
// part below a public suffix. Addresses, and names without such a part, have to be the same host.
func sameSite(a, b string) bool {
	one, err := siteOf(a)
	other, otherErr := siteOf(b)
	return err == nil && otherErr == nil && one == other
}

func siteOf(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		return "", errors.New("not an absolute URL")
	}
	host := strings.ToLower(u.Hostname())
	if _, err := netip.ParseAddr(host); err == nil {
		return host, nil
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil { // such as localhost, or a public suffix itself
		return host, nil
	}
	return domain, nil
}
