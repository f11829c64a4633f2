package tlsfiles

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

// versions are the values of min_version.
var versions = map[string]uint16{"": tls.VersionTLS12, "1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

// Server is the TLS of a listener. Its zero value means none: the listener speaks plain HTTP. When
// the content of a file changes, it takes effect within seconds, for new connections.
type Server struct {
	// CertFile has the certificate of the listener, in PEM, and behind it those between it and a
	// root. Required.
	CertFile string `yaml:"cert_file"`
	// KeyFile has its key, in PEM. Required.
	KeyFile string `yaml:"key_file"`
	// ClientCAFile has authorities, in PEM. Each client has to show a certificate that one of them
	// has signed, besides what auth asks for. Default: clients show none.
	ClientCAFile string `yaml:"client_ca_file"`
	// MinVersion is the oldest version of TLS that is accepted: 1.2 or 1.3. Default 1.2.
	MinVersion string `yaml:"min_version"`
}

// IsZero reports whether the listener speaks plain HTTP.
func (s Server) IsZero() bool { return s == Server{} }

// Scheme returns the scheme of URLs of the listener.
func (s Server) Scheme() string {
	if s.IsZero() {
		return "http"
	}
	return "https"
}

// Validate returns all mistakes that can be found without the files.
func (s Server) Validate() error {
	if s.IsZero() {
		return nil
	}
	var found problems.List
	found.When(s.CertFile == "", "cert_file: is missing: the listener needs a certificate")
	found.When(s.KeyFile == "", "key_file: is missing: the certificate needs its key")
	_, known := versions[s.MinVersion]
	found.When(!known, `min_version: %q: want "1.2" or "1.3"`, s.MinVersion)
	return found.Err()
}

// Paths returns the paths of the files, to be made absolute.
func (s *Server) Paths() []*string { return []*string{&s.CertFile, &s.KeyFile, &s.ClientCAFile} }

// Check returns what is wrong with the files.
func (s Server) Check() error {
	if s.IsZero() {
		return nil
	}
	_, _, err := s.read()
	return err
}

// Trust has a client on the same machine take the certificate of cert_file for that of the listener,
// by whatever address it comes there.
func (s Server) Trust(client *tls.Config) error {
	chain, err := readAll(s.CertFile)
	if err != nil {
		return fmt.Errorf("cert_file: %w", err)
	}
	leaf := chain[0]
	switch {
	case len(leaf.DNSNames) > 0:
		client.ServerName = strings.Replace(leaf.DNSNames[0], "*", "any", 1)
	case len(leaf.IPAddresses) > 0:
		client.ServerName = leaf.IPAddresses[0].String()
	default:
		return fmt.Errorf("cert_file: %s is for no host", s.CertFile)
	}
	client.RootCAs = x509.NewCertPool()
	client.RootCAs.AddCert(leaf)
	return nil
}

// String describes the listener for people. It reads the files.
func (s Server) String() string {
	if s.IsZero() {
		return ""
	}
	text := fmt.Sprintf("TLS %s or newer, %s", strings.TrimPrefix(tls.VersionName(versions[s.MinVersion]), "TLS "),
		filepath.Base(s.CertFile))
	now, _, err := s.read()
	switch {
	case err != nil:
		return text + ": " + err.Error()
	case s.ClientCAFile != "":
		text += ", client certificates of " + filepath.Base(s.ClientCAFile)
	}
	return text + ", good until " + now.ends[0].At.UTC().Format(time.DateOnly)
}

// material is the content of the files of a listener.
type material struct {
	config *tls.Config
	ends   []End // the first is that of the listener's own certificate
}

// read reads the files. It returns what was there in any case.
func (s Server) read() (m material, seen []strictyaml.Seen, err error) {
	var found problems.List
	file := func(key, path string) (text []byte) {
		if path == "" {
			return nil
		}
		text, _, this, err := strictyaml.SeeFile(path, maxCA)
		if err != nil {
			found.Add("%s: %s: %w", key, path, err)
		}
		seen = append(seen, this)
		return text
	}
	cert, key, clients := file("cert_file", s.CertFile), file("key_file", s.KeyFile), file("client_ca_file",
		s.ClientCAFile)
	if err := found.Err(); err != nil {
		return m, seen, err
	}
	chain, err := parse(s.CertFile, cert)
	if err != nil {
		return m, seen, fmt.Errorf("cert_file: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return m, seen, fmt.Errorf("cert_file and key_file: %w", err)
	}
	m.config = &tls.Config{
		MinVersion:   versions[s.MinVersion],
		NextProtos:   []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{pair},
	}
	m.ends = []End{endOf("cert_file", s.CertFile, chain)}
	if s.ClientCAFile == "" {
		return m, seen, nil
	}
	authorities, err := parse(s.ClientCAFile, clients)
	if err != nil {
		return m, seen, fmt.Errorf("client_ca_file: %w", err)
	}
	m.config.ClientAuth, m.config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	for _, authority := range authorities {
		m.config.ClientCAs.AddCert(authority)
	}
	// Each connection shows its certificate to the authorities of the moment.
	m.config.SessionTicketsDisabled = true
	m.ends = append(m.ends, endOf("client_ca_file", s.ClientCAFile, authorities))
	return m, seen, nil
}

// leaf returns the listener's own certificate.
func (m material) leaf() *x509.Certificate { return m.config.Certificates[0].Leaf }

// same reports whether two materials have the same content.
func (m material) same(other material) bool {
	return bytes.Equal(m.leaf().Raw, other.leaf().Raw)
}
