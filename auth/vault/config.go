package vault

import (
	"cmp"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

// Config is the section "vault": the keys with which the tokens of users' own accounts at servers
// are sealed. A reload does not change it.
type Config struct {
	// Keys seal the data keys of users. The first one seals, unless there is a Transit; all open,
	// so that keys can be changed. Default, without Redis: the key in state.directory, or a random one
	// until the process ends.
	Keys []Key `yaml:"keys"`
	// Transit has the transit engine of a HashiCorp Vault, or of OpenBao, seal the data keys. Default none.
	Transit Transit `yaml:"transit"`
}

// Key is one key.
type Key struct {
	// ID tells keys apart, such as 2026-11: letters, digits and "._-". It stands beside what the key sealed.
	// Required.
	ID string `yaml:"id"`
	// Key is at least 32 random bytes, such as the output of openssl rand -base64 32. Required.
	Key mcp.Secret `yaml:"key"`
}

// Transit is the transit secrets engine of a HashiCorp Vault (or of OpenBao).
type Transit struct {
	// URL is the address of the Vault: https, or http on a loopback address. Required.
	URL string `yaml:"url"`
	// Key is the name of the key there. Required.
	Key string `yaml:"key"`
	// Mount is where the engine is mounted. Default transit.
	Mount string `yaml:"mount"`
	// Namespace is the namespace of the engine. Default none.
	Namespace string `yaml:"namespace"`
	// VaultToken authenticates the gateway. It or TokenFile is required.
	VaultToken mcp.Secret `yaml:"token"`
	// TokenFile is a file with the token, which is read for each request: a Vault Agent may renew
	// it there. Beside it, VaultToken is used as long as there is no such file.
	TokenFile string `yaml:"token_file"`
	// CAFile, CertFile and KeyFile are as in sessions.redis.
	CAFile   string `yaml:"ca_file"`
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// Timeout bounds a request. Default 5s.
	Timeout time.Duration `yaml:"timeout"`
	// Cache is how long a data key that was opened is used without asking again. Default 10m, at
	// most 24h.
	Cache time.Duration `yaml:"cache"`
}

// Defaults of Transit.
const (
	DefaultMount   = "transit"
	DefaultTimeout = 5 * time.Second
	DefaultCache   = 10 * time.Minute
	mostCache      = 24 * time.Hour
	mostTimeout    = 30 * time.Second
	mostKeys       = 20
)

var (
	idPattern   = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	pathPattern = regexp.MustCompile(`^[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*$`)
)

// Keyless reports whether the section names no keys.
func (c Config) Keyless() bool { return len(c.Keys) == 0 && c.Transit == Transit{} }

// Validate reports everything that is wrong.
func (c Config) Validate() error {
	var found problems.List
	found.When(len(c.Keys) > mostKeys, "keys: %d are more than %d", len(c.Keys), mostKeys)
	seen := make(map[string]bool)
	for i, k := range c.Keys {
		found.When(!idPattern.MatchString(k.ID), "keys[%d]: id: want up to 64 letters, digits and ._-, such as 2026-11", i)
		found.When(seen[k.ID], "keys[%d]: id: %q is that of another key already", i, k.ID)
		seen[k.ID] = true
		if k.Key == "" {
			found.Add("keys[%d]: key: is needed: write a reference to a secret, such as ${env:GATEHOUSE_VAULT_KEY}, of what openssl rand -base64 32 prints", i)
		} else if err := seal.Check([]byte(string(k.Key))); err != nil {
			found.Add("keys[%d]: key: %w", i, err)
		}
	}
	if c.Transit != (Transit{}) {
		found.At("transit", c.Transit.validate()...)
	}
	return found.Err()
}

// files are the certificates for the Vault.
func (t Transit) files() tlsfiles.Files {
	return tlsfiles.Files{CA: t.CAFile, Cert: t.CertFile, Key: t.KeyFile}
}

func (t Transit) withDefaults() Transit {
	t.Mount = cmp.Or(t.Mount, DefaultMount)
	t.Timeout = cmp.Or(t.Timeout, DefaultTimeout)
	t.Cache = cmp.Or(t.Cache, DefaultCache)
	return t
}

func (t Transit) validate() (found problems.List) {
	u, err := url.Parse(t.URL)
	switch {
	case t.URL == "":
		found.Add("url: is needed, such as https://vault.example.com:8200")
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "":
		found.Add("url: is not an absolute URL without user, query and fragment, such as https://vault.example.com:8200")
	case u.Scheme == "http" && !loopback.Host(u.Hostname()):
		found.Add("url: http is only for loopback addresses; use https")
	case u.Scheme == "http" && !t.files().IsZero():
		found.Add("ca_file, cert_file and key_file: they are for https, with which the URL does not begin")
	}
	found.When(!idPattern.MatchString(t.Key),
		"key: is needed: the name of a key of the transit engine, in letters, digits and ._-")
	found.When(t.Mount != "" && !pathPattern.MatchString(t.Mount),
		"mount: %q: want a path without / at its ends, such as %s", t.Mount, DefaultMount)
	found.When(t.Namespace != "" && !pathPattern.MatchString(strings.TrimSuffix(t.Namespace, "/")),
		"namespace: %q: want a path, such as team/a", t.Namespace)
	found.When(t.VaultToken == "" && t.TokenFile == "",
		"token or token_file is needed: write a reference to a secret, such as ${file:/run/secrets/vault-token}")
	found.Join(t.files().Validate())
	found.When(t.Timeout < 0 || t.Timeout > mostTimeout, "timeout: %s: want up to %s", t.Timeout, mostTimeout)
	found.When(t.Cache < 0 || t.Cache > mostCache, "cache: %s: want up to %s", t.Cache, mostCache)
	return found
}
