package redisdb_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

func open(t *testing.T, cfg redisdb.Config) *redisdb.DB {
	t.Helper()
	db, err := redisdb.Open(cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func ping(t *testing.T, db *redisdb.DB) error {
	t.Helper()
	_, err := db.Run(t.Context(), redisdb.NewScript("return redis.call('SET', KEYS[1], '1')"), []string{db.Key("k")})
	return err
}

// H/189: the one user that the documentation tells to make is enough, and another is not.
func TestACLUser(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	if err := client.Do(t.Context(), "ACL", "SETUSER", "gate", "on", ">s3cret", "~gatehouse:*", "&gatehouse:*", "-@all", "+set", "+eval", "+evalsha").Err(); err != nil {
		t.Fatal(err)
	}
	cfg := redisdb.Config{URL: mcp.Secret(server.URL()), Username: "gate", Password: "s3cret"}
	if err := ping(t, open(t, cfg)); err != nil {
		t.Errorf("as the user: %v", err)
	}
	cfg.Prefix = "other:"
	if err := ping(t, open(t, cfg)); !errors.Is(err, redisdb.ErrDown) {
		t.Errorf("with keys that are not the user's: %v", err)
	}
	cfg.Prefix, cfg.Password = "", "wrong"
	if err := ping(t, open(t, cfg)); !errors.Is(err, redisdb.ErrDown) {
		t.Errorf("with a wrong password: %v", err)
	}
}

func TestTLS(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	key := filepath.Join(t.TempDir(), "key.pem")
	writeCertificate(t, ca, key)
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	for _, set := range [][2]string{{"tls-cert-file", ca}, {"tls-key-file", key}, {"tls-auth-clients", "no"}} {
		if err := client.ConfigSet(t.Context(), set[0], set[1]).Err(); err != nil {
			t.Fatalf("%s: %v", set[0], err)
		}
	}
	var port string
	for range 5 { // another process may take the port first
		_, port, _ = net.SplitHostPort(freeAddr(t))
		if client.ConfigSet(t.Context(), "tls-port", port).Err() == nil {
			break
		}
	}
	url := mcp.Secret("rediss://127.0.0.1:" + port)
	if err := ping(t, open(t, redisdb.Config{URL: url, CAFile: ca})); err != nil {
		t.Errorf("with its certificate known: %v", err)
	}
	if err := ping(t, open(t, redisdb.Config{URL: url})); !errors.Is(err, redisdb.ErrDown) {
		t.Errorf("with a certificate that nobody vouches for: %v", err)
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func writeCertificate(t *testing.T, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
