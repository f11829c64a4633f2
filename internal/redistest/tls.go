package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TLS is a TLS port of a server that requires a client certificate.
type TLS struct {
	// Addr is host:port.
	Addr string
	// CAFile holds the signing authority, CertFile and KeyFile a client's certificate and
	// key, all in PEM.
	CAFile, CertFile, KeyFile string
}

// ServeTLS opens a TLS port in addition to the plain one.
func (s *Server) ServeTLS(t testing.TB) TLS {
	t.Helper()
	dir := t.TempDir()
	tls := TLS{CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "client.pem"),
		KeyFile: filepath.Join(dir, "client.key")}
	authority, key := certificate(t, nil, nil, tls.CAFile, filepath.Join(dir, "ca.key"))
	certificate(t, authority, key, tls.CertFile, tls.KeyFile)
	certFile, keyFile := filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")
	certificate(t, authority, key, certFile, keyFile)
	do(t, s, "CONFIG", "SET", "tls-ca-cert-file", tls.CAFile, "tls-cert-file", certFile, "tls-key-file", keyFile)
	client := s.Client()
	defer client.Close()
	var err error
	for range 5 { // another process may take the port first
		tls.Addr = mcptest.LoopbackAddress(t)
		_, port, _ := net.SplitHostPort(tls.Addr)
		if err = client.ConfigSet(t.Context(), "tls-port", port).Err(); err == nil {
			return tls
		}
	}
	t.Fatalf("redistest: no port for TLS: %v", err)
	return TLS{}
}

// certificate writes a certificate for the loopback address and its key. An authority signs
// it; without one it signs itself.
func certificate(t testing.TB, authority *x509.Certificate, signer *ecdsa.PrivateKey, certFile,
	keyFile string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: filepath.Base(certFile)},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}
	if authority == nil {
		cert.IsCA, cert.KeyUsage = true, cert.KeyUsage|x509.KeyUsageCertSign
		authority, signer = cert, key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, authority, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der},
		keyFile: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
