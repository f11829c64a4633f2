package clientele

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// DocumentAllowed returns what has to change before a client with a document at this URL is
// accepted, nil for nothing.
func (c Config) DocumentAllowed(id string) error {
	if slices.ContainsFunc(c.Clients, func(f Fixed) bool { return f.ID == id }) {
		return nil
	}
	host := hostOf(id)
	switch {
	case matches(c.Registration.CIMD.Deny, host):
		return fmt.Errorf("take %s out of auth.server.registration.cimd.deny", host)
	case !matches(c.Registration.CIMD.Allow, host):
		return fmt.Errorf("add %s to auth.server.registration.cimd.allow", host)
	}
	return nil
}

// RegistrationAllowed returns what has to change before a client with these redirect URIs can
// register itself, nil for nothing.
func (c Config) RegistrationAllowed(redirects []string) error {
	var missing []string
	for _, uri := range redirects {
		parts, err := parseRedirect(uri)
		if err != nil || c.mayRegister(uri) == nil {
			continue
		}
		name := parts.host
		if parts.scheme != "https" {
			name = `"` + parts.scheme + `:"`
		}
		if !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	var changes []string
	if !c.Registration.DCR.Enabled {
		changes = append(changes, "set auth.server.registration.dcr.enabled")
	}
	if len(missing) > 0 {
		changes = append(changes, "add "+strings.Join(missing, ", ")+" to auth.server.registration.dcr.redirects")
	}
	if changes == nil {
		return nil
	}
	return errors.New(strings.Join(changes, " and "))
}

// Made returns the id of a configured client with one of these redirect URIs, "" for none.
func (c Config) Made(redirects []string) string {
	for _, f := range c.Clients {
		made := Client{Redirects: f.RedirectURIs}
		if slices.ContainsFunc(redirects, made.Allows) {
			return f.ID
		}
	}
	return ""
}

// mayRegister returns why a redirect URI may not be registered, nil if it may.
func (c Config) mayRegister(uri string) error {
	parts, err := parseRedirect(uri)
	if err != nil {
		return err
	}
	allowed := c.Registration.DCR.Redirects
	switch {
	case parts.loopback(), parts.scheme == "https" && matches(allowed, parts.host),
		slices.Contains(allowed, parts.scheme+":"):
		return nil
	case parts.scheme == "https":
		return fmt.Errorf("leads to %s, which is not among the hosts of this gateway's clients (auth.server.registration.dcr.redirects)", parts.host)
	}
	return fmt.Errorf("has the scheme %s, which is not among those of this gateway's clients (auth.server.registration.dcr.redirects)", parts.scheme)
}
