package upstream_test

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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// authority signs certificates of servers.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
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
	return &authority{cert, key}, err
}

// trusted is the authority that this process trusts, as an operator would configure it:
// through the system's list, which a process reads once.
var trusted = sync.OnceValues(func() (*authority, error) {
	a, err := newAuthority()
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

// serve gives a fake a certificate.
func (a *authority) serve(t *testing.T, f *fake, name string, until time.Duration, max uint16) {
	t.Helper()
	f.Server = httptest.NewUnstartedServer(f)
	f.TLS = &tls.Config{Certificates: []tls.Certificate{a.certificate(t, name, until)}, MinVersion: tls.VersionTLS10,
		MaxVersion: max}
	f.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.StartTLS()
	t.Cleanup(f.Close)
}

// newHTTP2 serves over TLS and HTTP/2, with a certificate of the trusted authority.
func newHTTP2(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	known, err := trusted()
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
	server.TLS = &tls.Config{Certificates: []tls.Certificate{known.certificate(t, "127.0.0.1", time.Hour)}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func (a *authority) certificate(t *testing.T, name string, until time.Duration) tls.Certificate {
	t.Helper()
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(until),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
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

// TestCertificatesOfServers: an invalid certificate is never ignored, the server
// receives nothing, and the client learns what is wrong.
func TestCertificatesOfServers(t *testing.T) {
	known, err := trusted()
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		issuer *authority
		host   string
		until  time.Duration
		max    uint16 // version of TLS
		want   string // in the error, "" for none
	}{
		{"good", known, "127.0.0.1", time.Hour, 0, ""},
		{"expired", known, "127.0.0.1", -time.Hour, 0, "its certificate is not valid"},
		{"of another name", known, "other.example.com", time.Hour, 0, "its certificate is not valid"},
		{"of an unknown authority", unknown, "127.0.0.1", time.Hour, 0, "its certificate is not valid"},
		{"TLS 1.1", known, "127.0.0.1", time.Hour, tls.VersionTLS11, "the TLS handshake with it failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, stateful := range []bool{false, true} {
				f := makeFake(stateful, nil)
				tt.issuer.serve(t, f, tt.host, tt.until, tt.max)
				u := f.start(t, upstream.Config{})
				_, err := do(t, u, tool("a"))
				if tt.want == "" {
					if err != nil {
						t.Errorf("error %v", err)
					}
					continue
				}
				e := wantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
				if !strings.Contains(e.Message, tt.want) || !strings.Contains(e.Message, "upstream fake") &&
					!strings.Contains(e.Message, "Upstream fake") {
					t.Errorf("the message is %q", e.Message)
				}
				if n := len(f.requests("")); n != 0 {
					t.Errorf("the server got %d requests", n)
				}
				if status := u.Status(); status.State != upstream.StateDown || status.Last.Stage != upstream.StageTLS {
					t.Errorf("the upstream is %s, for %s", status.State, status.Last.Stage)
				}
			}
		})
	}
}
