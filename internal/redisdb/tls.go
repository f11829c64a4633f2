package redisdb

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// maxCA is the largest size of a CA file in bytes.
const maxCA = 1 << 20

// tls returns the TLS settings for a rediss URL. The server's certificate must carry the
// name of the host that is dialled, also when a Sentinel or a Cluster gave that name.
func (c Config) tls() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pool, err := readCA(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		cfg.RootCAs = pool
	}
	if c.CertFile != "" {
		if _, err := c.certificate(nil); err != nil {
			return nil, err
		}
		cfg.GetClientCertificate = c.certificate
	}
	return cfg, nil
}

// certificate reads the gateway's own certificate.
func (c Config) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("cert_file and key_file: %w", err)
	}
	return &cert, nil
}

func readCA(path string) (*x509.CertPool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxCA {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxCA)
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", path)
	}
	return pool, nil
}
