package fake

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Authority signs certificates of servers.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority that no system trusts.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err = x509.ParseCertificate(der)
	return &Authority{cert, key}, err
}

// Trusted is the authority that this process trusts, as an operator would configure it:
// through the system's list, which a process reads once.
var Trusted = sync.OnceValues(func() (*Authority, error) {
	a, err := NewAuthority()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "trusted")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}),
		0o600); err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"SSL_CERT_FILE": file, "SSL_CERT_DIR": dir} {
		was, set := os.LookupEnv(name)
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
		if set {
			defer os.Setenv(name, was)
		} else {
			defer os.Unsetenv(name)
		}
	}
	_, err = x509.SystemCertPool() // reads the list
	return a, err
})

// Serve gives a fake a certificate.
func (a *Authority) Serve(t *testing.T, f *Server, name string, until time.Duration, max uint16) {
	t.Helper()
	f.Server = httptest.NewUnstartedServer(f)
	f.TLS = &tls.Config{Certificates: []tls.Certificate{a.Certificate(t, name, until)}, MinVersion: tls.VersionTLS10,
		MaxVersion: max}
	f.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.StartTLS()
	t.Cleanup(f.Close)
}

// Write writes the authority's certificate to a file, in place of what is there.
func (a *Authority) Write(t *testing.T, path string) {
	t.Helper()
	writePEM(t, path, "CERTIFICATE", a.cert.Raw)
}

// Pool is for a server that asks for certificates of the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// WriteCertificate signs a certificate for a name, and writes it and its key to files.
func (a *Authority) WriteCertificate(t *testing.T, name, certFile, keyFile string) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, certFile, "CERTIFICATE", a.Certificate(t, name, time.Hour).Certificate[0])
	writePEM(t, keyFile, "PRIVATE KEY", key)
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// NewHTTP2 serves over TLS and HTTP/2, with a certificate of the trusted authority.
func NewHTTP2(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	known, err := Trusted()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("a request over %s", r.Proto)
		}
		handler.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{Certificates: []tls.Certificate{known.Certificate(t, "127.0.0.1", time.Hour)}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// Certificate signs a certificate for a host.
func (a *Authority) Certificate(t *testing.T, name string, until time.Duration) tls.Certificate {
	t.Helper()
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(until),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth},
	}
	cert.Subject.CommonName = name
	if ip := net.ParseIP(name); ip != nil {
		cert.IPAddresses = []net.IP{ip}
	} else {
		cert.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
}
