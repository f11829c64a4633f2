package mcptest

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// ForwardProxy is a forward proxy. It connects to hosts (CONNECT) and passes on requests over plain
// HTTP, and keeps what it was asked for.
type ForwardProxy struct {
	*httptest.Server

	mu     sync.Mutex // guards the fields below
	asked  []string
	proof  string
	status int
	to     map[string]string
	opened int

	requests sync.WaitGroup // one each, and tunnels are requests
}

// NewForwardProxy starts a proxy, over TLS if secure.
func NewForwardProxy(t *testing.T, secure bool) *ForwardProxy {
	t.Helper()
	p := &ForwardProxy{to: make(map[string]string)}
	p.Server = httptest.NewUnstartedServer(p)
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			p.set(func() { p.opened++ })
		}
	}
	if secure {
		p.StartTLS()
	} else {
		p.Start()
	}
	t.Cleanup(func() {
		p.Close()
		p.requests.Wait()
	})
	return p
}

// Want has the proxy ask for a value of Proxy-Authorization; "" for none.
func (p *ForwardProxy) Want(proof string) { p.set(func() { p.proof = proof }) }

// Refuse has the proxy answer with an HTTP status; 0 for none.
func (p *ForwardProxy) Refuse(status int) { p.set(func() { p.status = status }) }

// Lead has a host, host:port, be at another address.
func (p *ForwardProxy) Lead(host, to string) { p.set(func() { p.to[host] = to }) }

func (p *ForwardProxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// Asked returns what the proxy was asked for, such as "CONNECT crm.example:443" and
// "POST http://crm.example/mcp", in order.
func (p *ForwardProxy) Asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.asked...)
}

// Connections returns how many connections to the proxy have been opened.
func (p *ForwardProxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened
}

// ServeHTTP serves a request.
func (p *ForwardProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.requests.Add(1) // before the connection is hijacked, for which Close waits
	defer p.requests.Done()
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.RequestURI)
	proof, status, to := p.proof, p.status, p.to[r.Host]
	p.mu.Unlock()
	if to == "" {
		to = r.Host
	}
	switch {
	case proof != "" && r.Header.Get("Proxy-Authorization") != proof:
		w.Header().Set("Proxy-Authenticate", `Basic realm="proxy"`)
		w.WriteHeader(http.StatusProxyAuthRequired)
	case status != 0:
		w.WriteHeader(status)
	case r.Method == http.MethodConnect:
		p.tunnel(w, to)
	default:
		p.pass(w, r, to)
	}
}

func (p *ForwardProxy) tunnel(w http.ResponseWriter, to string) {
	server, err := net.Dial("tcp", to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		server.Close()
		return
	}
	_, _ = io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
	var both sync.WaitGroup
	defer both.Wait()
	for _, ends := range [][2]net.Conn{{server, client}, {client, server}} {
		both.Go(func() {
			_, _ = io.Copy(ends[0], ends[1])
			ends[0].Close()
			ends[1].Close()
		})
	}
}

func (p *ForwardProxy) pass(w http.ResponseWriter, r *http.Request, to string) {
	out := r.Clone(r.Context())
	out.RequestURI, out.URL.Host = "", to
	out.Header.Del("Proxy-Authorization")
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(out)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// Certificates writes the certificates of servers to a file, and returns its path.
func Certificates(t *testing.T, servers ...*httptest.Server) string {
	t.Helper()
	var all []byte
	for _, s := range servers {
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})...)
	}
	path := filepath.Join(t.TempDir(), "certificates.pem")
	if err := os.WriteFile(path, all, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// KeyPair writes the certificate and key of a server to files.
func KeyPair(t *testing.T, s *httptest.Server) (certFile, keyFile string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	keyFile = filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return Certificates(t, s), keyFile
}
