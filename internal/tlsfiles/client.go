package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// maxCA is the largest size of a CA file in bytes.
const maxCA = 1 << 20

// Files name the certificates of one client, in PEM. All may be empty.
type Files struct {
	// CA has the authorities that sign the server's certificate. Default: those of the system.
	CA string
	// Cert and Key are the client's own certificate and its key, for a server that asks for
	// one. They are read again for each connection, so a renewed certificate takes effect at
	// once.
	Cert, Key string
}

// IsZero reports whether no file is named.
func (f Files) IsZero() bool { return f == Files{} }

// Validate reports what can be said without reading the files.
func (f Files) Validate() error {
	if (f.Cert == "") != (f.Key == "") {
		return errors.New("cert_file and key_file: one needs the other")
	}
	return nil
}

// Config reads the files. The server's certificate must carry the name of the host that is
// dialled.
func (f Files) Config() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pool, err := readCA(f.CA)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		cfg.RootCAs = pool
	}
	if f.Cert != "" {
		if _, err := f.certificate(nil); err != nil {
			return nil, err
		}
		cfg.GetClientCertificate = f.certificate
	}
	return cfg, nil
}

// certificate reads the client's own certificate.
func (f Files) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("cert_file and key_file: %w", err)
	}
	return &cert, nil
}

func readCA(path string) (*x509.CertPool, error) {
	pem, err := readFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", path)
	}
	return pool, nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxCA {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxCA)
	}
	return os.ReadFile(path)
}
