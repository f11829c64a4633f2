package config

import (
	"fmt"

	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

// Certificates are the files of certificates of connections to others.
type Certificates struct {
	Section string // such as sessions.redis
	tlsfiles.Files
}

// CertificatesOf returns the files of certificates of all connections to services of the operator,
// issuers and upstreams.
func CertificatesOf(c Config) []Certificates {
	redis, transit, traces := c.Sessions.Redis, c.Vault.Transit, c.Tracing
	all := []Certificates{
		{"sessions.redis", tlsfiles.Files{CA: redis.CAFile, Cert: redis.CertFile, Key: redis.KeyFile}},
		{"vault.transit", tlsfiles.Files{CA: transit.CAFile, Cert: transit.CertFile, Key: transit.KeyFile}},
		{"tracing", tlsfiles.Files{CA: traces.CAFile, Cert: traces.CertFile, Key: traces.KeyFile}},
	}
	for i, s := range c.Audit.Sinks {
		all = append(all, Certificates{fmt.Sprintf("audit.sinks[%d]", i),
			tlsfiles.Files{CA: s.CAFile, Cert: s.CertFile, Key: s.KeyFile}})
	}
	for i, h := range c.Hooks {
		if s := h.HTTP; s != nil {
			all = append(all, Certificates{fmt.Sprintf("hooks[%d].http", i),
				tlsfiles.Files{CA: s.CAFile, Cert: s.CertFile, Key: s.KeyFile}})
		}
	}
	for i, iss := range c.Auth.Issuers {
		all = append(all, Certificates{fmt.Sprintf("auth.issuers[%d].tls", i), iss.TLS.Files()})
	}
	for i, u := range c.Upstreams {
		if Enabled(u) {
			all = append(all, Certificates{fmt.Sprintf("upstreams[%d].tls", i), u.TLS.Files()})
		}
	}
	return all
}

// checkFiles returns problems of the files and directories without which a gateway does not start.
// Their paths are absolute.
func checkFiles(c Config) error {
	var found problems.List
	for _, files := range CertificatesOf(c) {
		_, err := files.Config()
		found.At(files.Section, err)
	}
	found.At("tls", c.TLS.Check())
	found.At("admin.tls", c.Admin.TLS.Check())
	for i, s := range c.Audit.Sinks {
		found.At(fmt.Sprintf("audit.sinks[%d]", i), s.CheckFile())
	}
	_, unread := c.CheckDescriptions()
	found.Join(unread, CheckLock(c))
	return found.Err()
}
