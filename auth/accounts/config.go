package accounts

import (
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

// Config is the section "accounts": the pages where users sign in at servers with accounts of their
// own (upstreams[].auth.type user_oauth).
type Config struct {
	// SignIn has users sign in at the pages, with the redirect URI /account/callback at the scheme and
	// host of public_url. Default: as auth.server, else admin.console.sign_in says.
	SignIn signin.Config `yaml:"sign_in"`
}

// Check reports what is wrong. issuers are auth.issuers; needed says that some server has accounts of
// users, and that nothing else says how they sign in.
func (c Config) Check(issuers []string, needed bool) error {
	s := c.SignIn
	if s.IsZero() && (!needed || len(issuers) == 0) { // without issuers, the servers are refused
		return nil
	}
	var found problems.List
	found.When(s.ClientID == "",
		"sign_in.client_id: is missing: with auth.type user_oauth, users sign in at the gateway's own pages, too. Register these at the issuer, with the redirect URI %s at the scheme and host of public_url", enterCallback)
	switch {
	case len(issuers) == 0:
		found.Add("sign_in.issuer: there is none: users sign in at one of auth.issuers, with auth.mode oauth")
	case s.Issuer == "" && len(issuers) > 1:
		found.Add("sign_in.issuer: is missing: name one of auth.issuers")
	case s.Issuer != "" && !slices.Contains(issuers, s.Issuer):
		found.Add("sign_in.issuer: %q is none of auth.issuers", s.Issuer)
	}
	return found.Err()
}

// Origin is scheme and host of a URL: where the pages are.
func Origin(publicURL string) string {
	u, err := url.Parse(publicURL)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Scheme) + "://" + strings.ToLower(u.Host)
}

// CallbackOf returns the URL to which the gateway's issuer sends browsers back, and the path of
// that flow's cookie.
func CallbackOf(publicURL string) (at, path string) {
	return Origin(publicURL) + enterCallback, enterCallback
}
