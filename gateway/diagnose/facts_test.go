package diagnose

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
)

// TestCertificatesOf: the files of certificates that are configured are read; each that ends, or
// is no certificate, is known.
func TestCertificatesOf(t *testing.T) {
	dir := t.TempDir()
	ends := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	soon, later, none := filepath.Join(dir, "soon.pem"), filepath.Join(dir, "later.pem"), filepath.Join(dir, "none.pem")
	writeCertificates(t, soon, ends, ends.Add(time.Hour))
	writeCertificates(t, later, ends, ends.Add(time.Hour))
	if err := os.WriteFile(none, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	var cfg config.Config
	cfg.Sessions.Redis.CertFile, cfg.Sessions.Redis.CAFile = soon, later
	cfg.Tracing.CAFile = none
	got := make(map[string]string)
	for _, one := range CertificatesOf(cfg) {
		got[one.Section+"."+one.Key] = one.At.UTC().String() + one.Problem
	}
	for key, want := range map[string]string{
		"sessions.redis.cert_file": ends.String(), "sessions.redis.ca_file": ends.Add(time.Hour).String(),
		"tracing.ca_file": time.Time{}.String() + none + " holds no certificate in PEM",
	} {
		if got[key] != want {
			t.Errorf("%s: %q, want %q", key, got[key], want)
		}
	}
}

// writeCertificates writes certificates that end at these times.
func writeCertificates(t *testing.T, file string, ends ...time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for _, end := range ends {
		one := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end}
		der, err := x509.CreateCertificate(rand.Reader, one, one, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
