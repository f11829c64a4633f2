package issuer

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// defaultLifetime is how long access tokens live.
const defaultLifetime = 5 * time.Minute

// Config says who can sign in, and where to. URL, Resources and Users are needed.
type Config struct {
	// URL is the issuer identifier: http, a loopback IP address and a port, nothing
	// behind it, such as http://127.0.0.1:9000. It is also where the issuer listens.
	URL string
	// Resources are the values of the parameter resource that are accepted at sign-in,
	// and become the audience of the token, byte for byte.
	Resources []string
	// Scopes are those that can be had. Others that a client asks for are left out of
	// what it gets (RFC 6749 §3.3).
	Scopes []Scope
	// Users are those that the sign-in page offers, in this order.
	Users []User
	// Clients are programs with a secret. Clients of people register themselves.
	Clients []Client
	// Lifetime is how long access tokens live; default 5m.
	Lifetime time.Duration
	// TokenLifetime is the same for those that Issuer.Token makes; default Lifetime.
	TokenLifetime time.Duration
}

// Scope is what a client can ask for.
type Scope struct {
	Name string
	// Means tells the user what a client with it can do.
	Means string
}

// User is somebody who can sign in.
type User struct {
	// Subject is the claim sub.
	Subject string
	Name    string
	// Email is the claim email, always with email_verified.
	Email string
	// Groups is the claim groups.
	Groups []string
	// About is a line for the sign-in page.
	About string
}

// Client is a program that has a secret and no user of its own.
type Client struct {
	ID, Secret string
	// Groups is the claim groups of its tokens.
	Groups []string
	// Audiences are the resources for which it gets tokens of its own
	// (client_credentials), with itself as the subject.
	Audiences []string
	// Resource is the resource that this client serves, "" for none: only tokens for it
	// can it introspect, or exchange for others.
	Resource string
	// Exchange are the resources for which it gets a user's token in exchange
	// (RFC 8693).
	Exchange []string
}

// scopeToken is RFC 6749 §3.3.
var scopeToken = regexp.MustCompile(`^[!#-\[\]-~]+$`)

// Validate reports everything that is wrong.
func (c Config) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := checkURL(c.URL); err != nil {
		add("url: %w", err)
	}
	if len(c.Resources) == 0 {
		add("resources: at least one is needed")
	}
	if len(c.Users) == 0 {
		add("users: at least one is needed")
	}
	subjects := map[string]bool{}
	for i, u := range c.Users {
		if u.Subject == "" || u.Name == "" {
			add("users[%d]: subject and name are needed", i)
		}
		if subjects[u.Subject] {
			add("users[%d]: subject %q is taken", i, u.Subject)
		}
		subjects[u.Subject] = true
	}
	for i, client := range c.Clients {
		if client.ID == "" || client.Secret == "" {
			add("clients[%d]: id and secret are needed", i)
		}
		if subjects[client.ID] { // it is the subject of its own tokens: RFC 9068 §5
			add("clients[%d]: id %q is the subject of somebody else", i, client.ID)
		}
		subjects[client.ID] = true
	}
	for i, s := range c.Scopes {
		if !scopeToken.MatchString(s.Name) {
			add("scopes[%d]: %q is not a scope", i, s.Name)
		}
	}
	for _, audience := range c.audiences() {
		if u, err := url.Parse(audience); err != nil || !u.IsAbs() || u.Fragment != "" {
			add("%q is not a resource: want an absolute URI without a fragment", audience)
		}
	}
	if c.Lifetime < 0 || c.TokenLifetime < 0 {
		add("lifetime: negative")
	}
	return errors.Join(errs...)
}

// audiences are all that tokens can be for.
func (c Config) audiences() []string {
	all := slices.Clone(c.Resources)
	for _, client := range c.Clients {
		all = append(all, client.Audiences...)
		all = append(all, client.Exchange...)
	}
	return all
}

func (c Config) withDefaults() Config {
	if c.Lifetime == 0 {
		c.Lifetime = defaultLifetime
	}
	if c.TokenLifetime == 0 {
		c.TokenLifetime = c.Lifetime
	}
	return c
}

func checkURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" || u.Host == "" || raw != "http://"+u.Host {
		return fmt.Errorf("%q: want http, a loopback IP address and a port, such as http://127.0.0.1:9000", raw)
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err != nil || !addr.IsLoopback() {
		return fmt.Errorf("%s is not a loopback IP address: this issuer knows no passwords, and must not be reached from other machines", u.Host)
	}
	return nil
}

// scopeNames are the scopes that there are.
func (c Config) scopeNames() []string {
	names := []string{}
	for _, s := range c.Scopes {
		names = append(names, s.Name)
	}
	return names
}

// granted are the scopes of a list, separated by spaces, that there are, each once;
// without a list all of them. ok is false for a list of which nothing is left.
func (c Config) granted(list string) (names []string, ok bool) {
	all := c.scopeNames()
	asked := strings.Fields(list)
	if len(asked) == 0 {
		return all, true
	}
	for _, name := range all {
		if slices.Contains(asked, name) {
			names = append(names, name)
		}
	}
	return names, len(names) > 0
}
