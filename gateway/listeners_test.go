package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/diagnose"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// startTLS starts a gateway that looks at its files all the time.
func startTLS(t *testing.T, files tlsfiles.Server, log *slog.Logger, upstreams ...upstream.Config) *Gateway {
	t.Helper()
	cfg := Config{Listen: "127.0.0.1:0", TLS: files, Upstreams: upstreams}
	cfg.Admin.Listen, cfg.Admin.TLS, cfg.Admin.API.Loopback = "127.0.0.1:0", files, "viewer"
	g, err := New(Options{Config: cfg, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	g.lookEvery = time.Millisecond
	g.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	return g
}

// nowhere is an upstream that is down.
var nowhere = upstream.Config{Name: "none", URL: "http://127.0.0.1:1/mcp"}

// askTLS makes a request on a new connection, and returns the status, the protocol and the serial number of
// the certificate.
func askTLS(t *testing.T, url string, client *tls.Config) (text string, err error) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: transport, Timeout: patience}).Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.Proto + " " + answer.TLS.PeerCertificates[0].SerialNumber.String() + " " + string(body), err
}

// TestTLSRefuses: who does not fulfil the conditions of a listener gets no answer, at either listener.
func TestTLSRefuses(t *testing.T) {
	a, other := mcptest.NewAuthority(t), mcptest.NewAuthority(t)
	cert, key := a.Issue(t, "server", time.Hour)
	a.Issue(t, "client", time.Hour)
	a.Issue(t, "old", -time.Hour)
	other.Issue(t, "client", time.Hour)
	foreign := other.Client(t, "client")
	foreign.RootCAs = a.Client(t, "").RootCAs
	old := a.Client(t, "client")
	old.MinVersion, old.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
	g := startTLS(t, tlsfiles.Server{CertFile: cert, KeyFile: key, ClientCAFile: a.File(t)},
		slog.New(slog.DiscardHandler), nowhere)
	for at, url := range map[string]string{"endpoint": g.URL(), "operators": "https://" + g.AdminAddr().String() + "/healthz"} {
		for name, tt := range map[string]struct {
			client *tls.Config
			want   string // "" for an answer
		}{
			"a good certificate":      {a.Client(t, "client"), ""},
			"no certificate":          {a.Client(t, ""), "certificate required"},
			"of another authority":    {foreign, "unknown certificate authority"},
			"an expired certificate":  {a.Client(t, "old"), "expired certificate"},
			"a downgrade to TLS 1.1":  {old, "protocol version not supported"},
			"of an unknown authority": {other.Client(t, "client"), "unknown authority"}, // the client refuses
		} {
			t.Run(at+", "+name, func(t *testing.T) {
				if tt.want == "" {
					if text, err := askTLS(t, url, tt.client); err != nil || !strings.HasPrefix(text, "HTTP/2.0") {
						t.Errorf("%q, error %v", text, err)
					}
					return
				}
				conn, err := tls.Dial("tcp", strings.Split(url, "/")[2], tt.client)
				if err == nil { // with TLS 1.3, the server refuses after the client's last message
					defer conn.Close()
					_, err = conn.Read(make([]byte, 1))
				}
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want %q", err, tt.want)
				}
			})
		}
	}
}

// TestMinVersion: with min_version 1.3, TLS 1.2 is refused.
func TestMinVersion(t *testing.T) {
	a := mcptest.NewAuthority(t)
	cert, key := a.Issue(t, "server", time.Hour)
	client := a.Client(t, "")
	client.MaxVersion = tls.VersionTLS12
	for version, good := range map[string]bool{"": true, "1.2": true, "1.3": false} {
		g := startTLS(t, tlsfiles.Server{CertFile: cert, KeyFile: key, MinVersion: version}, slog.New(slog.DiscardHandler), nowhere)
		if _, err := askTLS(t, g.URL(), client); (err == nil) != good {
			t.Errorf("min_version %q: %v", version, err)
		}
	}
}

// await returns when it sees that a condition holds.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !holds() {
		if ctx.Err() != nil {
			t.Fatal("it does not come")
		}
	}
}

// TestRenewedCertificate: a renewed certificate takes effect while a call runs on a connection with the one
// before, over HTTP/2.
func TestRenewedCertificate(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	p := startPeer(t, false, func(context.Context) string { close(began); <-goOn; return "done" })
	a := mcptest.NewAuthority(t)
	cert, key := a.Issue(t, "server", time.Hour)
	g := startTLS(t, tlsfiles.Server{CertFile: cert, KeyFile: key}, slog.New(slog.DiscardHandler),
		upstream.Config{Name: "peer", URL: p.url})
	waitReady(t, g)
	transport := &http.Transport{TLSClientConfig: a.Client(t, ""), ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: g.URL(), HTTPClient: &http.Client{Transport: transport}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	result := make(chan string, 1)
	go func() {
		text, err := callTool(t.Context(), session, "peer__work")
		if err != nil {
			text = err.Error()
		}
		result <- text
	}()
	<-began
	before, err := askTLS(t, g.URL(), a.Client(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	a.Issue(t, "server", 2*time.Hour)
	await(t, func() bool {
		now, err := askTLS(t, g.URL(), a.Client(t, ""))
		if err != nil {
			t.Fatal(err) // new and old are good at any time
		}
		return now != before
	})
	close(goOn)
	if got := <-result; got != "done" {
		t.Errorf("the call that ran: %s", got)
	}
}

// TestBrokenRenewal: a renewed certificate that is broken is not used. The log says so once, and findings and
// metrics say so until it is corrected.
func TestBrokenRenewal(t *testing.T) {
	a := mcptest.NewAuthority(t)
	cert, key := a.Issue(t, "server", time.Hour)
	lines := &mcptest.Log{}
	g := startTLS(t, tlsfiles.Server{CertFile: cert, KeyFile: key}, slog.New(slog.NewTextHandler(lines, nil)), nowhere)
	before, err := askTLS(t, g.URL(), a.Client(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	broken := cert + ".new"
	if err := errors.Join(os.WriteFile(broken, []byte("no certificate"), 0o600), os.Rename(broken, cert)); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool {
		return g.certificates.endpoint.Status().Refused == 1 && g.certificates.operators.Status().Refused == 1
	})
	if now, err := askTLS(t, g.URL(), a.Client(t, "")); now != before || err != nil {
		t.Errorf("%q, error %v, want %q", now, err, before)
	}
	metrics, err := askTLS(t, "https://"+g.AdminAddr().String()+"/metrics", a.Client(t, ""))
	if err != nil || !strings.Contains(metrics, `gatehouse_tls_last_renewal_successful{section="tls"} 0`) {
		t.Errorf("metrics: %.200s, error %v", metrics, err)
	}
	findings := diagnose.Of(factsOf(t.Context(), g))
	if !slices.ContainsFunc(findings, func(f admin.Finding) bool {
		return f.Kind == "certificate" && strings.Contains(f.What, "new certificate of tls.cert_file is not used")
	}) {
		t.Errorf("%+v", findings)
	}
	if n := strings.Count(lines.String(), "GH-CERTIFICATE-REFUSED"); n != 2 { // one for each listener
		t.Errorf("%d lines", n)
	}
	a.Issue(t, "server", time.Hour)
	await(t, func() bool {
		return g.certificates.endpoint.Status().Renewed == 1 && g.certificates.operators.Status().Renewed == 1
	})
}

// TestReplacedClientAuthority: once an authority is replaced, its clients are refused, also one that has had
// a connection.
func TestReplacedClientAuthority(t *testing.T) {
	a, next := mcptest.NewAuthority(t), mcptest.NewAuthority(t)
	cert, key := a.Issue(t, "server", time.Hour)
	a.Issue(t, "client", time.Hour)
	next.Issue(t, "client", time.Hour)
	g := startTLS(t, tlsfiles.Server{CertFile: cert, KeyFile: key, ClientCAFile: a.File(t)},
		slog.New(slog.DiscardHandler), nowhere)
	former := a.Client(t, "client")
	former.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	later := next.Client(t, "client")
	later.RootCAs = former.RootCAs
	if _, err := askTLS(t, g.URL(), former); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(next.File(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.File(t), text, 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { _, err := askTLS(t, g.URL(), later); return err == nil })
	if _, err := askTLS(t, g.URL(), former); err == nil {
		t.Error("a client of the authority before gets an answer")
	}
}
