package egress

import (
	"errors"
	"net/url"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

// Values of the key "proxy" that are not the URL of a proxy.
const (
	// Environment takes the proxy for each URL from HTTPS_PROXY, HTTP_PROXY and NO_PROXY.
	Environment = "environment"
	// None is for direct connections.
	None = "none"
)

// TLS is the section "tls" of a server or an issuer. Its files are read again for each new
// connection, so renewed ones take effect without a restart.
type TLS struct {
	// CAFile has authorities that may sign the certificate, in PEM, in addition to those of the
	// system. Default none.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile are the gateway's own certificate and its key, in PEM, for a server
	// that asks for one. Default none.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ServerName is the name that the certificate has, for a URL with another host. Default: the
	// host of the URL.
	ServerName string `yaml:"server_name"`
}

// IsZero reports whether nothing is set.
func (t TLS) IsZero() bool { return t == TLS{} }

// Files are those that the section names.
func (t TLS) Files() tlsfiles.Files {
	return tlsfiles.Files{CA: t.CAFile, Cert: t.CertFile, Key: t.KeyFile}
}

// Paths returns pointers to the names of the files.
func (t *TLS) Paths() []*string { return []*string{&t.CAFile, &t.CertFile, &t.KeyFile} }

// Validate reports everything that is wrong, without reading the files.
func (t TLS) Validate() error {
	var found problems.List
	found.Join(t.Files().Validate())
	found.When(strings.ContainsAny(t.ServerName, ":/@ ") || strings.HasPrefix(t.ServerName, "."),
		"server_name: %q is not the name of a host, such as crm.example.com", t.ServerName)
	return found.Err()
}

// CheckProxy reports what is wrong with a value of the key "proxy". It does not repeat the value,
// which may hold credentials.
func CheckProxy(proxy mcp.Secret) error {
	switch proxy {
	case "", Environment, None:
		return nil
	}
	_, err := parseProxy(string(proxy))
	return err
}

func parseProxy(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return nil, errors.New("want the URL of a proxy, such as http://proxy.example.com:3128, environment or none")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the URL of a proxy begins with http:// or https://")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the URL of a proxy has only a host, a port, and a user with a password")
	}
	return u, nil
}

// Named returns where a value of the key "proxy" leads, without credentials: host and port of a
// proxy, "environment" or "none"; "" for none of them.
func Named(proxy mcp.Secret) string {
	if proxy == "" || proxy == Environment || proxy == None {
		return string(proxy)
	}
	u, err := parseProxy(string(proxy))
	if err != nil {
		return ""
	}
	return address(u)
}
