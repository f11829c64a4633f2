//go:build interop

package interop

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// acmeDomain is the domain of the certificates. Pebble's resolver knows each name as 127.0.0.1.
const acmeDomain = "mcp.example.test"

// authority is a Pebble: an authority that issues certificates by ACME.
type authority struct {
	*rig.Process
	start      func() // begins it again, with another root
	management string
	ca         string // the authority of its own certificate
	directory  string
	client     *http.Client
}

// startAuthority starts a Pebble that looks for proofs at these addresses. Its certificates have a life.
func startAuthority(t *testing.T, atHTTP, atTLS string, life time.Duration) *authority {
	t.Helper()
	free := func() string { return mcptest.LoopbackAddress(t) }
	own := mcptest.NewAuthority(t)
	cert, key := own.Issue(t, "pebble", 24*time.Hour)
	listen, names := free(), free()
	a := &authority{management: free(), ca: own.File(t), directory: "https://" + listen + "/dir",
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: own.Client(t, "")}}}
	t.Cleanup(a.client.CloseIdleConnections)
	startProcess(t, "", exec.Command("pebble-challtestsrv", "-dns01", names, "-http01", "", "-https01", "",
		"-tlsalpn01", "", "-management", free(), "-defaultIPv6", ""))
	file := filepath.Join(t.TempDir(), "pebble.json")
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": listen, "managementListenAddress": a.management, "certificate": cert, "privateKey": key,
		"httpPort": portOf(t, atHTTP), "tlsPort": portOf(t, atTLS), "certificateValidityPeriod": int(life.Seconds()),
	}})
	if err == nil {
		err = os.WriteFile(file, config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.start = func() {
		cmd := exec.Command("pebble", "-config", file, "-dnsserver", names, "-strict")
		cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1")
		a.Process = startProcess(t, listen, cmd)
	}
	a.start()
	return a
}

// root returns the root of the certificates that it issues.
func (a *authority) root(t *testing.T) *x509.CertPool {
	t.Helper()
	answer, err := a.client.Get("https://" + a.management + "/roots/0")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatalf("%q, error %v", text, err)
	}
	return roots
}

// orders counts the orders that it has got.
func (a *authority) orders() int { return strings.Count(a.Log(), "POST /order-plz") }

func portOf(t *testing.T, address string) int {
	t.Helper()
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return at.Port
}

// startProcess runs a program until the test ends, and waits until it listens; "" for no wait.
func startProcess(t *testing.T, listens string, cmd *exec.Cmd) *rig.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	p, err := rig.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	ownProcess(t, cmd.Path, p)
	if listens != "" {
		if err := p.WaitListening(ctx, listens); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// ownProcess stops a process when the test ends, and shows its log if the test failed.
func ownProcess(t *testing.T, name string, p *rig.Process) {
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, p.Log())
		}
	})
}

// gatewayWith builds a gateway, and starts it with a demo as its only upstream.
func gatewayWith(t *testing.T, cfg rig.GatewayConfig) rig.Gateway {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), installLimit)
	defer cancel()
	checkout, err := rig.FindCheckout()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Binary, err = checkout.Build(ctx, "./cmd/gatehouse"); err != nil {
		t.Fatal(err)
	}
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg.Sections += fmt.Sprintf("\nupstreams: [{name: demo, command: [%s, demo-handbook]}]\n", cfg.Binary)
	g, err := rig.StartGateway(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ownProcess(t, "the gateway", g.Process)
	return g
}

// shown returns the certificate that a listener shows to a client that asks for a name; one that it trusts.
func shown(ctx context.Context, address, name string, roots *x509.CertPool) (*x509.Certificate, error) {
	dialer := tls.Dialer{Config: &tls.Config{ServerName: name, RootCAs: roots}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// waitShown waits for a certificate other than one; nil for any.
func waitShown(t *testing.T, g rig.Gateway, address string, roots *x509.CertPool,
	other *x509.Certificate) (c *x509.Certificate) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	err := g.WaitFor(ctx, func(ctx context.Context) (err error) {
		if c, err = shown(ctx, address, acmeDomain, roots); err == nil && other != nil && c.Equal(other) {
			err = errors.New("the certificate is still the one before")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestACME: the gateway orders its certificate by both proofs, keeps it over a restart, renews it, serves on with
// what it has while the directory is down, and orders nothing for other domains.
func TestACME(t *testing.T) {
	for _, proof := range []string{"tls-alpn-01", "http-01"} {
		t.Run(proof, func(t *testing.T) {
			listen, plain := mcptest.LoopbackAddress(t), mcptest.LoopbackAddress(t)
			a := startAuthority(t, plain, listen, 24*time.Hour)
			cfg := rig.GatewayConfig{Dir: t.TempDir(), Listen: listen, Scheme: "https",
				Sections: acmeSections(t, a, plain, proof)}
			g := gatewayWith(t, cfg)
			roots := a.root(t)
			first := waitShown(t, g, listen, roots, nil)
			if first.DNSNames[0] != acmeDomain {
				t.Errorf("it is for %v", first.DNSNames)
			}
			if _, err := shown(t.Context(), listen, "other.example.test", roots); err == nil {
				t.Error("another domain has a certificate")
			}
			if proof == "http-01" {
				answer, err := http.Get("http://" + plain + "/mcp")
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
				if answer.StatusCode != http.StatusNotFound {
					t.Errorf("plain HTTP: %s", answer.Status)
				}
			}
			if err := g.Stop(); err != nil {
				t.Fatal(err)
			}
			g = gatewayWith(t, cfg)
			if again := waitShown(t, g, listen, roots, nil); !again.Equal(first) || a.orders() != 1 {
				t.Errorf("after a restart: another certificate %t, %d orders", !again.Equal(first), a.orders())
			}
		})
	}
}

// acmeSections returns sections for a gateway with certificates of an authority.
func acmeSections(t *testing.T, a *authority, plain, proof string) string {
	acme := fmt.Sprintf("domains: [%s], accept_terms: true, email: ops@example.com, directory: %q, ca_file: %s",
		acmeDomain, a.directory, a.ca)
	if proof == "http-01" {
		acme += ", http_listen: " + plain
	}
	return fmt.Sprintf("tls: {acme: {%s}}\nstate: {directory: %s}\npublic_url: https://%s/mcp\n",
		acme, t.TempDir(), acmeDomain)
}

// TestACMERenewal: a certificate is replaced before it ends, while connections go on. While the directory is down,
// the gateway serves with what it has, and says so.
func TestACMERenewal(t *testing.T) {
	listen, operators := mcptest.LoopbackAddress(t), mcptest.LoopbackAddress(t)
	a := startAuthority(t, mcptest.LoopbackAddress(t), listen, 15*time.Second)
	g := gatewayWith(t, rig.GatewayConfig{Listen: listen, Scheme: "https",
		Sections: acmeSections(t, a, "", "tls-alpn-01") + "admin: {listen: " + operators + "}\n"})
	roots := a.root(t)
	first := waitShown(t, g, listen, roots, nil)
	second := waitShown(t, g, listen, roots, first)
	if !second.NotAfter.After(first.NotAfter) || time.Now().After(first.NotAfter) {
		t.Errorf("one until %s follows one until %s", second.NotAfter, first.NotAfter)
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	err := g.WaitFor(ctx, func(context.Context) error {
		if !strings.Contains(g.Log(), "GH-CERTIFICATE-NOT-ISSUED") {
			return errors.New("the log says nothing")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := shown(ctx, listen, acmeDomain, roots); err != nil || !got.Equal(second) {
		t.Errorf("while the directory is down: another certificate, error %v", err)
	}
	answer, err := http.Get("http://" + operators + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	for _, want := range []string{`gatehouse_tls_last_renewal_successful{section="tls"} 0`,
		`gatehouse_tls_renewals_total{result="ok",section="tls"} 2`,
		fmt.Sprintf(`gatehouse_tls_certificate_end_timestamp_seconds{key="tls.acme"} %g`, float64(second.NotAfter.Unix()))} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("the metrics lack %s, error %v", want, err)
		}
	}
}

// TestACMEReplicas: replicas share one order and one certificate, which Redis has sealed.
func TestACMEReplicas(t *testing.T) {
	redis, proofs := mcptest.LoopbackAddress(t), mcptest.LoopbackAddress(t)
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	p, err := rig.StartRedis(ctx, redis)
	if err != nil {
		t.Fatal(err)
	}
	ownProcess(t, "Redis", p)
	one, other := mcptest.LoopbackAddress(t), mcptest.LoopbackAddress(t)
	a := startAuthority(t, proofs, other, 24*time.Hour)
	roots := a.root(t)
	first, _, _ := strings.Cut(acmeSections(t, a, "", "tls-alpn-01"), "state:")
	var got []*x509.Certificate
	for _, listen := range []string{other, one} {
		g := gatewayWith(t, rig.GatewayConfig{Listen: listen, Scheme: "https", Sections: first + fmt.Sprintf(
			"public_url: https://%s/mcp\nsessions: {store: redis, redis: {url: redis://%s}, key: %q}\nreplicas: {listen: %s}\n",
			acmeDomain, redis, "a secret of the replicas 0123456789", mcptest.LoopbackAddress(t))})
		got = append(got, waitShown(t, g, listen, roots, nil))
	}
	if !got[0].Equal(got[1]) || a.orders() != 1 {
		t.Errorf("one certificate: %t, %d orders", got[0].Equal(got[1]), a.orders())
	}
	keys, err := exec.CommandContext(ctx, "redis-cli", "-u", "redis://"+redis, "--raw", "KEYS", "*acme*").Output()
	if err != nil || len(keys) == 0 {
		t.Fatalf("keys %q, error %v", keys, err)
	}
	for _, key := range strings.Fields(string(keys)) {
		value, err := exec.CommandContext(ctx, "redis-cli", "-u", "redis://"+redis, "--raw", "GET", key).Output()
		if err != nil || len(value) == 0 || strings.Contains(string(value), "PRIVATE KEY") {
			t.Errorf("%s is not sealed, or error %v", key, err)
		}
	}
}
