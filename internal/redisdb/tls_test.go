package redisdb_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// TestTLS: gateway and server each verify the certificate of the other.
func TestTLS(t *testing.T) {
	ours, others := redistest.Start(t).ServeTLS(t), redistest.Start(t).ServeTLS(t)
	url := mcp.Secret("rediss://" + ours.Addr)
	for _, tt := range []struct {
		name string
		cfg  redisdb.Config
		want error
	}{
		{"both known", redisdb.Config{URL: url, CAFile: ours.CAFile, CertFile: ours.CertFile, KeyFile: ours.KeyFile}, nil},
		{"nobody vouches for the server", redisdb.Config{URL: url, CertFile: ours.CertFile, KeyFile: ours.KeyFile},
			redisdb.ErrDown},
		{"another vouches for the server", redisdb.Config{URL: url, CAFile: others.CAFile, CertFile: ours.CertFile,
			KeyFile: ours.KeyFile}, redisdb.ErrDown},
		{"no certificate for the server", redisdb.Config{URL: url, CAFile: ours.CAFile}, redisdb.ErrDown},
		{"one that another signed", redisdb.Config{URL: url, CAFile: ours.CAFile, CertFile: others.CertFile,
			KeyFile: others.KeyFile}, redisdb.ErrDown},
		{"another name than the certificate's", redisdb.Config{URL: mcp.Secret(strings.Replace(string(url), "127.0.0.1",
			"localhost", 1)),
			CAFile: ours.CAFile, CertFile: ours.CertFile, KeyFile: ours.KeyFile}, redisdb.ErrDown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := ping(t, open(t, tt.cfg)); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// TestRenewedCertificate: a running gateway uses a certificate that was replaced.
func TestRenewedCertificate(t *testing.T) {
	good, old := redistest.Start(t).ServeTLS(t), redistest.Start(t).ServeTLS(t)
	place := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	db := open(t, redisdb.Config{URL: mcp.Secret("rediss://" + good.Addr), CAFile: good.CAFile, CertFile: old.CertFile,
		KeyFile: old.KeyFile})
	if err := ping(t, db); !errors.Is(err, redisdb.ErrDown) {
		t.Fatalf("with the old one: %v", err)
	}
	place(good.CertFile, old.CertFile)
	place(good.KeyFile, old.KeyFile)
	tick := time.NewTicker(20 * time.Millisecond) // a failure starts a pause
	defer tick.Stop()
	for deadline := time.After(time.Minute); ping(t, db) != nil; {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the new one is not used")
		}
	}
}

// TestCertificateFiles: a file that cannot be read is an error at start that names its
// configuration key.
func TestCertificateFiles(t *testing.T) {
	tls := redistest.Start(t).ServeTLS(t)
	url := mcp.Secret("rediss://" + tls.Addr)
	for _, tt := range []struct {
		cfg  redisdb.Config
		want string // a part of the error
	}{
		{redisdb.Config{URL: url, CAFile: tls.CAFile + "x"}, "ca_file: "},
		{redisdb.Config{URL: url, CAFile: tls.KeyFile}, "ca_file: "},
		{redisdb.Config{URL: url, CertFile: tls.CertFile}, "one needs the other"},
		{redisdb.Config{URL: url, KeyFile: tls.KeyFile}, "one needs the other"},
		{redisdb.Config{URL: url, CertFile: tls.CertFile + "x", KeyFile: tls.KeyFile}, "cert_file and key_file: "},
		{redisdb.Config{URL: url, CertFile: tls.CAFile, KeyFile: tls.KeyFile}, "cert_file and key_file: "},
		{redisdb.Config{URL: "redis://localhost", CAFile: tls.CAFile}, "they are for rediss"},
		{redisdb.Config{URL: "unix:///run/redis.sock", CertFile: tls.CertFile, KeyFile: tls.KeyFile}, "they are for rediss"},
	} {
		db, err := redisdb.Open(tt.cfg, nil, nil)
		if err == nil {
			db.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
}
