package console

import (
	"errors"
	"net/url"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

// Config is the section "admin.console". Its zero value means that there is no console.
type Config struct {
	// SignIn has operators sign in, with the redirect URI <admin.url>/console/sign-in/callback.
	// admin.rules give them roles.
	SignIn signin.Config `yaml:"sign_in"`
	// Loopback is the role of all who open the console from the machine itself, without signing in:
	// viewer, operator or auditor. Default: all have to sign in.
	Loopback string `yaml:"loopback"`
	// Save lets operators change this file, by the API, too. They can then start programs as the user of the
	// gateway, and give any person any role. Default false.
	Save bool `yaml:"save"`
}

// IsZero reports whether there is no console.
func (c Config) IsZero() bool { return c.SignIn.IsZero() && c.Loopback == "" }

// Validate reports all mistakes, each with the path of its key in front.
func (c Config) Validate() error {
	var found problems.List
	found.When(c.Loopback != "" && !slices.Contains(admin.Roles, c.Loopback),
		"loopback: %q: want viewer, operator or auditor, or leave it out", c.Loopback)
	found.When(!c.SignIn.IsZero() && c.SignIn.ClientID == "",
		"sign_in.client_id: is missing: register the console at the issuer, with the redirect URI <admin.url>"+CallbackPath)
	return found.Err()
}

// checkURL reports a mistake in the URL of the console, which is not empty.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("want https://host, as browsers open it")
	case u.Scheme == "http" && !loopback.Host(u.Hostname()):
		return errors.New("http is for loopback addresses only: put a proxy with TLS in front, and name its URL")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "" && u.Path != "/":
		return errors.New("want scheme, host and port alone")
	}
	return nil
}
