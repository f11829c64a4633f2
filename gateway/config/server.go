package config

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/clients"
	"github.com/gatehouse-mcp/gatehouse/internal/webpage"
)

// ownServer describes how clients get in at the gateway's own authorization server.
func ownServer(s auth.ServerConfig) clients.Server {
	who := s.Clientele()
	denied := func(names ...string) error {
		for _, name := range names {
			if u, err := url.Parse(name); err == nil && (slices.Contains(s.DenyClients, name) ||
				slices.Contains(s.DenyClients, u.Hostname())) {
				return fmt.Errorf("take %s out of auth.server.deny_clients", u.Hostname())
			}
		}
		return nil
	}
	return clients.Server{
		Document: func(at string) error { return cmp.Or(denied(at), who.DocumentAllowed(at)) },
		Register: func(redirects []string) error {
			return cmp.Or(denied(redirects...), who.RegistrationAllowed(redirects))
		},
		Known:  who.Made,
		Public: true, NamesItself: true, Ours: true,
	}
}

// ofServer reports whether a path is one of the authorization server.
func ofServer(path string) bool {
	return strings.HasPrefix(path, "/oauth/") || path == webpage.StylePath || strings.HasPrefix(path, "/.well-known/")
}
