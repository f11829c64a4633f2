package gateway

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/diagnosis"
	"github.com/gatehouse-mcp/gatehouse/internal/series"
)

// TestFindingsComeAndGo: a refused file is found at its line, without the secrets in it; and
// when it is corrected, nothing is found.
func TestFindingsComeAndGo(t *testing.T) {
	site := newSite(t, true, one("work", saying("x")))
	good := operatorsConfig + fmt.Sprintf("upstreams: [{name: up, url: %q}]\n", site.url)
	c := startUnwatched(t, good)
	found := func() (text string) {
		for _, one := range diagnosis.Of(factsOf(t.Context(), c.Gateway)) {
			text += fmt.Sprintf("%s\n%s\n%s\n%s\n", one.Kind, one.Cause, one.Next, one.Excerpt)
		}
		return text
	}
	if text := found(); text != "" {
		t.Fatal(text)
	}
	c.write(t, good+"pasword: hunter2\n")
	if err := c.Reload(); err == nil {
		t.Fatal("the file is good")
	}
	text := found()
	for _, want := range []string{"reload\nLine 10, column 1: ", "Correct line 10 of " + c.file, "\npasword: …\n^\n"} {
		if !strings.Contains(text, want) || strings.Contains(text, "hunter2") {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	c.write(t, good)
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	if text := found(); text != "" {
		t.Error(text)
	}
}

// TestFindingsWhileRedisHangs: one looks for all, each waits no longer than they want to, and the
// next one looks when the first one has left.
func TestFindingsWhileRedisHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last, looks := newLastFindings(), 0
		store := make(chan struct{}) // answers when it is closed
		ask := func(ctx context.Context) <-chan string {
			said := make(chan string, 1)
			go func() {
				all, err := last.of(ctx, func(ctx context.Context) diagnosis.Facts {
					looks++
					select {
					case <-store:
						return diagnosis.Facts{Series: series.New(time.Now()), Stopping: true}
					case <-ctx.Done():
						return diagnosis.Facts{Series: series.New(time.Now()), Store: "it does not answer"}
					}
				})
				switch {
				case err != nil:
					said <- err.Error()
				default:
					said <- all[0].Kind
				}
			}()
			synctest.Wait()
			return said
		}
		expect := func(what string, said <-chan string, want string, wantLooks int) {
			t.Helper()
			synctest.Wait()
			select {
			case got := <-said:
				if got != want || looks != wantLooks {
					t.Errorf("%s gets %q after %d looks, want %q after %d", what, got, looks, want, wantLooks)
				}
			default:
				t.Errorf("%s still waits", what)
			}
		}
		leaves := func() (context.Context, func()) { return context.WithCancel(t.Context()) }
		one, oneLeaves := leaves()
		two, twoLeaves := leaves()
		first, second, third := ask(one), ask(two), ask(t.Context())
		twoLeaves()
		expect("who waits and leaves", second, "context canceled", 1)
		oneLeaves()
		expect("who looks and leaves", first, "context canceled", 2)
		fourth := ask(t.Context())
		time.Sleep(findingsTime)
		expect("who stays", third, "redis", 2)
		expect("who waits for others", fourth, "redis", 2)
		expect("who comes later", ask(t.Context()), "redis", 2)
		time.Sleep(findingsHold)
		close(store)
		expect("who comes when it answers", ask(t.Context()), "stopping", 3)
	})
}

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
	var cfg Config
	cfg.Sessions.Redis.CertFile, cfg.Sessions.Redis.CAFile = soon, later
	cfg.Tracing.CAFile = none
	got := make(map[string]string)
	for _, one := range certificatesOf(cfg) {
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
