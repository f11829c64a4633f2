package dial_test

import (
	"crypto/tls"
	"io"
	"log"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

func newAuthority(t *testing.T) *fake.Authority {
	t.Helper()
	a, err := fake.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestPrivateAuthority: the authorities of tls.ca_file are trusted in addition to those of the
// system. What is missing is named to the operator.
func TestPrivateAuthority(t *testing.T) {
	known, err := fake.Trusted()
	if err != nil {
		t.Fatal(err)
	}
	private, file := newAuthority(t), filepath.Join(t.TempDir(), "ca.pem")
	private.Write(t, file)
	fake.Eras(t, func(t *testing.T, stateful bool) {
		for _, issuer := range []*fake.Authority{private, known} {
			f := fake.NewUnstarted(stateful, nil)
			issuer.Serve(t, f, "127.0.0.1", time.Hour, 0)
			fake.WantOK(t, f.Upstream(t, upstream.Config{TLS: egress.TLS{CAFile: file}}), fake.Tool("a"))
		}
		f := fake.NewUnstarted(stateful, nil)
		private.Serve(t, f, "127.0.0.1", time.Hour, 0)
		_, err := fake.Do(t, f.Upstream(t, upstream.Config{}), fake.Tool("a"))
		e := fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
		for _, part := range []string{`of 127.0.0.1 (until `, `issued by "CN=test authority"`, "tls.ca_file"} {
			if !strings.Contains(e.Cause, part) {
				t.Errorf("the cause %q has no %q", e.Cause, part)
			}
		}
	})
}

// demanding is a server that lets in only clients with a certificate of an authority, and keeps
// their names.
type demanding struct {
	*fake.Server
	authority *fake.Authority

	mu      sync.Mutex // guards the fields below
	serves  *fake.Authority
	clients []string
}

func newDemanding(t *testing.T) *demanding {
	t.Helper()
	d := &demanding{Server: fake.NewUnstarted(false, nil), authority: newAuthority(t)}
	d.serves = d.authority
	d.Server.Server = httptest.NewUnstartedServer(d.Server)
	d.Config.ErrorLog = log.New(io.Discard, "", 0)
	d.Server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return &tls.Config{
			Certificates: []tls.Certificate{d.serves.Certificate(t, "127.0.0.1", time.Hour)},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    d.authority.Pool(),
			NextProtos:   []string{"h2", "http/1.1"},
			VerifyConnection: func(s tls.ConnectionState) error {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.clients = append(d.clients, s.PeerCertificates[0].Subject.CommonName)
				return nil
			},
		}, nil
	}}
	d.StartTLS()
	t.Cleanup(d.Close)
	return d
}

func (d *demanding) last() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clients[len(d.clients)-1]
}

// TestRenewedCertificates: a server that demands a certificate gets the one in tls.cert_file. Renewed
// files, of the gateway and of the authority, are used by the next connection.
func TestRenewedCertificates(t *testing.T) {
	d, dir := newDemanding(t), t.TempDir()
	files := egress.TLS{CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"),
		KeyFile: filepath.Join(dir, "key.pem")}
	d.authority.Write(t, files.CAFile)
	d.authority.WriteCertificate(t, "first", files.CertFile, files.KeyFile)

	_, err := fake.Do(t, d.Upstream(t, upstream.Config{TLS: egress.TLS{CAFile: files.CAFile}}), fake.Tool("a"))
	if err == nil {
		t.Error("a client without a certificate is let in")
	}

	cfg := upstream.Config{URL: d.URL, TLS: files, Revision: "2026-07-28"}
	transport := upstream.NewTransport(nil, cfg)
	u := fake.StartOver(t, cfg, transport)
	fake.WantOK(t, u, fake.Tool("a"))
	if name := d.last(); name != "first" {
		t.Errorf("the client is %s", name)
	}
	d.authority.WriteCertificate(t, "second", files.CertFile, files.KeyFile)
	transport.CloseIdleConnections()
	fake.WantOK(t, u, fake.Tool("a"))
	if name := d.last(); name != "second" {
		t.Errorf("after the renewal, the client is %s", name)
	}

	renewed := newAuthority(t)
	d.mu.Lock()
	d.serves = renewed
	d.mu.Unlock()
	transport.CloseIdleConnections()
	_, err = fake.Do(t, u, fake.Tool("a"))
	fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
	renewed.Write(t, files.CAFile)
	fake.WantOK(t, u, fake.Tool("a"))
}

// TestServerName: with tls.server_name, the certificate has to have that name and no other.
func TestServerName(t *testing.T) {
	private, file := newAuthority(t), filepath.Join(t.TempDir(), "ca.pem")
	private.Write(t, file)
	f := fake.NewUnstarted(false, nil)
	private.Serve(t, f, "crm.example", time.Hour, 0)
	fake.WantOK(t, f.Upstream(t, upstream.Config{TLS: egress.TLS{CAFile: file, ServerName: "crm.example"}}),
		fake.Tool("a"))
	asked := len(f.Requests(""))
	for _, name := range []string{"", "other.example"} {
		u := f.Upstream(t, upstream.Config{TLS: egress.TLS{CAFile: file, ServerName: name}})
		_, err := fake.Do(t, u, fake.Tool("a"))
		e := fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
		if !strings.Contains(e.Cause, `of "crm.example"`) || !strings.Contains(e.Cause, "tls.server_name") {
			t.Errorf("server_name %q: the cause is %q", name, e.Cause)
		}
	}
	if len(f.Requests("")) != asked {
		t.Error("a server of another name got a request")
	}
}

// TestUnreadableCertificates: a file that cannot be read is named to the operator, and nothing is
// sent without it.
func TestUnreadableCertificates(t *testing.T) {
	known, err := fake.Trusted()
	if err != nil {
		t.Fatal(err)
	}
	f := fake.NewUnstarted(false, nil)
	known.Serve(t, f, "127.0.0.1", time.Hour, 0)
	missing := filepath.Join(t.TempDir(), "gone.pem")
	_, err = fake.Do(t, f.Upstream(t, upstream.Config{TLS: egress.TLS{CAFile: missing}}), fake.Tool("a"))
	e := fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
	if !strings.Contains(e.Cause, missing) || len(f.Requests("")) != 0 {
		t.Errorf("the cause is %q, and the server got %d requests", e.Cause, len(f.Requests("")))
	}
}
