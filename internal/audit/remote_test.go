package audit

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// short is the pause between two tries in tests with real connections.
const short = time.Millisecond

func remoteConfig(onFull string, queue int, s Sink) Config {
	return Config{Sinks: []Sink{s}, OnFull: onFull, Queue: queue}
}

// certificates makes a certificate for 127.0.0.1 that is its own authority, as files in PEM.
func certificates(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der},
		keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// serverTLS is the configuration of a server that asks clients for the same certificate.
func serverTLS(t *testing.T, certFile, keyFile string) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(pair.Leaf)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
}

// until waits for an event that the test cannot be told of. It gives up after a minute.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(short)
	defer tick.Stop()
	for limit := time.After(time.Minute); !is(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// TestHangingSinks: a receiver that takes connections and never reads or answers holds calls
// only where they have to wait, nothing grows, and a stop does not wait for it.
func TestHangingSinks(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"tcp", "tls", "http"} {
		for _, onFull := range []string{OnFullDrop, OnFullBlock} {
			t.Run(scheme+" "+onFull, func(t *testing.T) {
				t.Parallel()
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				go func() {
					for {
						conn, err := l.Accept()
						if err != nil {
							return
						}
						defer conn.Close()
						_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10) // systems may have much room
					}
				}()
				s := Sink{Type: TypeSyslog, URL: scheme + "://" + l.Addr().String(), Timeout: time.Minute}
				if scheme == "http" {
					s.Type = TypeWebhook
				}
				metrics := NewMetrics(prometheus.NewRegistry())
				j := started(t, remoteConfig(onFull, 10, s), Deps{Metrics: metrics, retry: short})
				// The first is more than the buffers of a connection have room for.
				j.Put(&record.Record{Kind: record.KindCall, Arguments: []byte(`"` + strings.Repeat("x", 16<<20) + `"`)})
				for range 3 * beyond {
					j.Put(call("x"))
				}
				if n := value(t, metrics.queued); n > beyond+11 {
					t.Errorf("%v wait", n)
				}
				brief, cancel := context.WithTimeout(t.Context(), 20*short)
				defer cancel()
				err = j.Admit(brief)
				if held := errors.Is(err, context.DeadlineExceeded); held != (onFull == OnFullBlock) {
					t.Errorf("a call: %v", err)
				}
				over, cancel := context.WithCancel(t.Context())
				cancel()
				if err := j.Close(over); err == nil || !strings.Contains(err.Error(), "records did not reach the sink") {
					t.Errorf("the stop: %v", err)
				}
			})
		}
	}
}

// TestReceiverIsChanged: after a reload that changes how a receiver is reached, the chain goes
// on; at another place a new one begins.
func TestReceiverIsChanged(t *testing.T) {
	t.Parallel()
	a, b := listen(t, nil), listen(t, nil)
	s := Sink{Type: TypeSyslog, URL: "tcp://" + a.Addr().String()}
	j := started(t, remoteConfig(OnFullBlock, 0, s), Deps{retry: short})
	plan := func(s Sink) {
		t.Helper()
		apply, err := j.Plan(remoteConfig(OnFullBlock, 0, s))
		if err != nil {
			t.Fatal(err)
		}
		apply()
	}
	j.Put(call("1"))
	s.AppName = "other"
	plan(s)
	j.Put(call("2"))
	s.URL = "tcp://" + b.Addr().String()
	plan(s)
	j.Put(call("3"))
	closed(t, j)
	until(t, "the last messages", func() bool { return strings.Count(a.text()+b.text(), `"event":"stop"`) == 3 })
	text := a.text()
	wantRows(t, rows(t, text), "anchor start", "1", "anchor stop", "anchor start", "2", "anchor stop")
	if !strings.Contains(text, `"chain":"alpha.syslog"`) {
		t.Errorf("got %s", text)
	}
	text = b.text()
	wantRows(t, rows(t, text), "anchor start", "3", "anchor stop")
	if !strings.Contains(text, `"chain":"alpha.syslog.3"`) {
		t.Errorf("got %s", text)
	}
}

// TestSinkProblems: what is wrong with a receiver is said by the name of its key, and shows no
// secret.
func TestSinkProblems(t *testing.T) {
	cert, key := certificates(t)
	for _, tt := range []struct {
		sink Sink
		want []string
	}{
		{Sink{Type: "kafka"}, []string{`type: "kafka": want one of file, stdout, syslog, webhook, otlp`}},
		{Sink{Type: TypeStdout, Path: "x", URL: "https://a.example", Sign: "x"}, []string{
			"path: is for the type file", "url: is for the type syslog, webhook, otlp", "sign: is for the type webhook"}},
		{Sink{Type: TypeWebhook, URL: "https://a.example", Sign: "s3cret"},
			[]string{"sign: want whsec_ and 24 to 64 random bytes in base64, such as whsec_$(openssl rand -base64 32)"}},
		{Sink{Type: TypeFile, Path: "x", Facility: "auth"}, []string{"facility: is for the type syslog"}},
		{Sink{Type: TypeSyslog}, []string{"url: want tls://, tcp://, udp://, unix:// and the receiver"}},
		{Sink{Type: TypeWebhook, URL: "ftp://s3cret@a.example"}, []string{"url: want https://, http:// and the receiver"}},
		{Sink{Type: TypeWebhook, URL: "https://s3cret@a.example"},
			[]string{"url: a user does not belong in it; put credentials into headers"}},
		{Sink{Type: TypeWebhook, URL: "http://a.example"},
			[]string{"url: http is only for loopback addresses; use https, or set allow_plaintext: true"}},
		{Sink{Type: TypeWebhook, URL: "http://a.example", AllowPlaintext: true}, nil},
		{Sink{Type: TypeWebhook, URL: "http://[::1]:80/x?y=z"}, nil},
		{Sink{Type: TypeOTLP, URL: "https://a.example", CAFile: cert, CertFile: cert, KeyFile: key}, nil},
		{Sink{Type: TypeOTLP, URL: "http://localhost:4318", CAFile: cert},
			[]string{"ca_file, cert_file and key_file: they are for https, with which the URL does not begin"}},
		{Sink{Type: TypeOTLP, URL: "https://a.example", CertFile: cert},
			[]string{"cert_file and key_file: one needs the other"}},
		{Sink{Type: TypeSyslog, URL: "tcp://a.example:601"},
			[]string{"url: tcp is only for loopback addresses; use tls, or set allow_plaintext: true"}},
		{Sink{Type: TypeSyslog, URL: "tls://a.example"}, []string{"url: it names no port, such as :6514"}},
		{Sink{Type: TypeSyslog, URL: "tls://a.example:6514/x"}, []string{"url: a path does not belong in it"}},
		{Sink{Type: TypeSyslog, URL: "tls://:6514"}, []string{"url: it names no host"}},
		{Sink{Type: TypeSyslog, URL: "unix://dev/log"},
			[]string{"url: want unix:// and an absolute path, such as unix:///dev/log"}},
		{Sink{Type: TypeSyslog, URL: "unix:///dev/log", Facility: "mail", AppName: "a b", Timeout: -1}, []string{
			"timeout: -1ns: want at most 5m", `facility: "mail": want user, daemon, auth, authpriv, audit, or local0 to local7`,
			"app_name: want at most 48 printable ASCII characters without spaces"}},
		{Sink{Type: TypeWebhook, URL: "https://a.example", Headers: map[string]mcp.Secret{"Content-Type": "x"}},
			[]string{"headers[Content-Type]: the gateway sets it"}},
		{Sink{Type: TypeWebhook, URL: "https://a.example", Headers: map[string]mcp.Secret{"a b": "x"}},
			[]string{`headers: "a b" is not the name of a header`}},
		{Sink{Type: TypeWebhook, URL: "https://a.example", Headers: map[string]mcp.Secret{"X-A": "s3cret\n"}},
			[]string{"headers[X-A]: has control characters"}},
	} {
		var got []string
		for _, err := range tt.sink.problems() {
			got = append(got, err.Error())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s %s:\n got %q\nwant %q", tt.sink.Type, tt.sink.URL, got, tt.want)
		}
		if strings.Contains(fmt.Sprint(got), "s3cret") {
			t.Errorf("a secret is shown: %q", got)
		}
	}
	_, err := New(remoteConfig("", 0, Sink{Type: TypeOTLP, URL: "https://a.example", CAFile: cert + "x"}), Deps{})
	if err == nil || !strings.HasPrefix(err.Error(), "audit: sinks[0]: ca_file: ") {
		t.Error(err)
	}
}
