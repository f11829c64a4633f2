package config

import (
	"fmt"
	"path/filepath"
	"slices"

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
	redis, transit, traces, metrics := c.Sessions.Redis, c.Vault.Transit, c.Tracing, c.Telemetry.Metrics
	all := []Certificates{
		{"sessions.redis", tlsfiles.Files{CA: redis.CAFile, Cert: redis.CertFile, Key: redis.KeyFile}},
		{"vault.transit", tlsfiles.Files{CA: transit.CAFile, Cert: transit.CertFile, Key: transit.KeyFile}},
		{"tracing", tlsfiles.Files{CA: traces.CAFile, Cert: traces.CertFile, Key: traces.KeyFile}},
		{"telemetry.metrics", tlsfiles.Files{CA: metrics.CAFile, Cert: metrics.CertFile, Key: metrics.KeyFile}},
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

// checkBoxes reports paths of sandboxes below one that a program may change: it could put a link there, by which the
// next program in a box reaches something else.
func checkBoxes(c Config) (found problems.List) {
	for i, u := range c.Upstreams {
		if u.Sandbox == nil {
			continue
		}
		for _, path := range slices.Concat(u.Sandbox.Read, u.Sandbox.Write) {
			for j, other := range c.Upstreams {
				below := other.Sandbox != nil && slices.ContainsFunc(other.Sandbox.Write, func(parent string) bool {
					rest, err := filepath.Rel(parent, path)
					return err == nil && rest != "." && filepath.IsLocal(rest)
				})
				found.When(below, "%s: sandbox: %s is below a path that %s may write: it could lead elsewhere: name one outside",
					UpstreamKey(i, u), path, UpstreamKey(j, other))
			}
		}
	}
	return found
}
