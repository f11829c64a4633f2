package tlsfiles

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"
)

// Renewed makes the settings of new connections from Files, as they are at that moment. Renewed
// files take effect without a restart. Its methods may be called concurrently.
type Renewed struct {
	files Files

	mu    sync.Mutex // guards the fields below
	text  []byte     // of Files.CA
	roots *x509.CertPool
}

// NewRenewed reads nothing yet.
func NewRenewed(files Files) *Renewed { return &Renewed{files: files} }

// Config returns the settings for one connection. It trusts the authorities of Files.CA in addition
// to those of the system.
func (r *Renewed) Config() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.files.Cert != "" {
		cfg.GetClientCertificate = r.files.certificate
	}
	if r.files.CA == "" {
		return cfg, nil
	}
	text, err := readFile(r.files.CA)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.roots == nil || !bytes.Equal(text, r.text) {
		roots, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("the authorities of the system: %w", err)
		}
		if !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ca_file: %s holds no certificate in PEM", r.files.CA)
		}
		r.text, r.roots = text, roots
	}
	cfg.RootCAs = r.roots
	return cfg, nil
}
