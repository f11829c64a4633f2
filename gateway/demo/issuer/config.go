package issuer

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

// defaultLifetime is the lifetime of access tokens.
const defaultLifetime = 5 * time.Minute

// Config says who can sign in, and where. URL, Resources and Users are required.
type Config struct {
	// URL is the issuer identifier: http, a loopback IP address and a port, without a path,
	// such as http://127.0.0.1:9000. The issuer also listens there.
	URL string
	// Resources are the accepted values of the parameter resource at sign-in. The chosen
	// one becomes the audience of the token, byte for byte.
	Resources []string
	// Scopes are the available scopes. Other scopes that a client asks for are not granted
	// (RFC 6749 §3.3).
	Scopes []Scope
	// Users are the users on the sign-in page, in this order. One without About is not on it.
	Users []User
	// Clients are programs with a secret. Clients of users register themselves.
	Clients []Client
	// Lifetime is the lifetime of access tokens; default 5m.
	Lifetime time.Duration
	// TokenLifetime is the lifetime of tokens of Issuer.Token; default Lifetime.
	TokenLifetime time.Duration
}

// Scope is a scope that a client can ask for.
type Scope struct {
	Name string
	// Means tells the user what a client with the scope can do.
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
	// Audiences are the resources for which the client gets tokens of its own
	// (client_credentials), with itself as the subject.
	Audiences []string
	// Resource is the resource that this client serves, "" for none. The client can
	// introspect and exchange only tokens for this resource.
	Resource string
	// Exchange are the resources for which the client can exchange a user's token (RFC
	// 8693).
	Exchange []string
}

// scopeToken is the format of RFC 6749 §3.3.
var scopeToken = regexp.MustCompile(`^[!#-\[\]-~]+$`)

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	var found problems.List
	found.At("url", checkURL(c.URL))
	found.When(len(c.Resources) == 0, "resources: at least one is needed")
	found.When(len(c.Users) == 0, "users: at least one is needed")
	subjects := map[string]bool{}
	for i, u := range c.Users {
		found.When(u.Subject == "" || u.Name == "", "users[%d]: subject and name are needed", i)
		found.When(subjects[u.Subject], "users[%d]: subject %q is taken", i, u.Subject)
		subjects[u.Subject] = true
	}
	for i, client := range c.Clients {
		found.When(client.ID == "" || client.Secret == "", "clients[%d]: id and secret are needed", i)
		if subjects[client.ID] { // the client is the subject of its own tokens: RFC 9068 §5
			found.Add("clients[%d]: id %q is the subject of somebody else", i, client.ID)
		}
		subjects[client.ID] = true
	}
	for i, s := range c.Scopes {
		found.When(!scopeToken.MatchString(s.Name), "scopes[%d]: %q is not a scope", i, s.Name)
	}
	for _, audience := range c.audiences() {
		if u, err := url.Parse(audience); err != nil || !u.IsAbs() || u.Fragment != "" {
			found.Add("%q is not a resource: want an absolute URI without a fragment", audience)
		}
	}
	found.When(c.Lifetime < 0 || c.TokenLifetime < 0, "lifetime: negative")
	return found.Err()
}

// audiences returns all possible audiences of tokens.
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

// scopeNames returns the names of the available scopes.
func (c Config) scopeNames() []string {
	names := []string{}
	for _, s := range c.Scopes {
		names = append(names, s.Name)
	}
	return names
}

// granted returns the available scopes of a list, separated by spaces, each once; without a
// list all scopes. ok is false if nothing of the list is left.
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
