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
	// root. Required without acme.
	CertFile string `yaml:"cert_file"`
	// KeyFile has its key, in PEM. Required without acme.
	KeyFile string `yaml:"key_file"`
	// ClientCAFile has authorities, in PEM. Each client has to show a certificate that one of them
	// has signed, besides what auth asks for. Default: clients show none.
	ClientCAFile string `yaml:"client_ca_file"`
	// MinVersion is the oldest version of TLS that is accepted: 1.2 or 1.3. Default 1.2.
	MinVersion string `yaml:"min_version"`
	// ACME orders the certificate from an authority (docs/operations.md#certificates-by-acme), in place of
	// CertFile and KeyFile. It is kept, sealed, in state.directory or in Redis: one of the two is required.
	// Default: not ordered.
	ACME *ACME `yaml:"acme"`
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
	if s.ACME != nil {
		found.At("acme", s.ACME.Validate())
		found.When(s.CertFile+s.KeyFile != "", "acme: orders the certificate: take cert_file and key_file away")
	} else {
		found.When(s.CertFile == "", "cert_file: is missing: the listener needs a certificate")
		found.When(s.KeyFile == "", "key_file: is missing: the certificate needs its key")
	}
	_, known := versions[s.MinVersion]
	found.When(!known, `min_version: %q: want "1.2" or "1.3"`, s.MinVersion)
	return found.Err()
}

// Paths returns the paths of the files, to be made absolute.
func (s *Server) Paths() []*string {
	paths := []*string{&s.CertFile, &s.KeyFile, &s.ClientCAFile}
	if s.ACME != nil {
		paths = append(paths, &s.ACME.CAFile)
	}
	return paths
}

// Check returns what is wrong with the files.
func (s Server) Check() error {
	if s.IsZero() {
		return nil
	}
	_, _, err := s.read(nil)
	return err
}

// Trust has a client on the same machine take the certificate of cert_file for that of the listener,
// by whatever address it comes there. For one by ACME, it has to trust the authority already.
func (s Server) Trust(client *tls.Config) error {
	if s.ACME != nil && len(s.ACME.Domains) > 0 {
		client.ServerName = s.ACME.Domains[0]
		return nil
	}
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
	of := filepath.Base(s.CertFile)
	if s.ACME != nil {
		of = s.ACME.String()
	}
	text := fmt.Sprintf("TLS %s or newer, %s", strings.TrimPrefix(tls.VersionName(versions[s.MinVersion]), "TLS "), of)
	now, _, err := s.read(nil)
	switch {
	case err != nil:
		return text + ": " + err.Error()
	case s.ClientCAFile != "":
		text += ", client certificates of " + filepath.Base(s.ClientCAFile)
	}
	if s.ACME != nil {
		return text
	}
	return text + ", good until " + now.ends[0].At.UTC().Format(time.DateOnly)
}

// material is the content of the files of a listener.
type material struct {
	config *tls.Config
	ends   []End // the first is that of the listener's own certificate
}

// read reads the files. It returns what was there in any case. issued is the certificate by ACME and its key, nil
// if there is none yet.
func (s Server) read(issued []byte) (m material, seen []strictyaml.Seen, err error) {
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
	m.config = &tls.Config{MinVersion: versions[s.MinVersion], NextProtos: []string{"h2", "http/1.1"}}
	from, both, path := "cert_file", "cert_file and key_file", s.CertFile
	if s.ACME != nil {
		cert, key, from, both, path = issued, issued, ByACME, ByACME, strings.Join(s.ACME.Domains, ", ")
	}
	m.ends = []End{{Key: from, File: path, Problem: "none was issued yet"}}
	if s.ACME == nil || issued != nil {
		chain, err := parse(path, cert)
		if err != nil {
			return m, seen, fmt.Errorf("%s: %w", from, err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return m, seen, fmt.Errorf("%s: %w", both, err)
		}
		m.config.Certificates, m.ends[0] = []tls.Certificate{pair}, endOf(from, path, chain)
	}
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

// leaf returns the listener's own certificate, an empty one if none was issued yet.
func (m material) leaf() *x509.Certificate {
	if m.config.Certificates == nil {
		return &x509.Certificate{}
	}
	return m.config.Certificates[0].Leaf
}

// same reports whether two materials have the same content.
func (m material) same(other material) bool {
	return bytes.Equal(m.leaf().Raw, other.leaf().Raw)
}
