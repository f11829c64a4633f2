package dial

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// resolve has every name lead to the address that answer returns, until the test ends.
func resolve(t *testing.T, answer func() netip.Addr) {
	t.Helper()
	was := net.DefaultResolver
	net.DefaultResolver = mcptest.Resolver(answer)
	t.Cleanup(func() { net.DefaultResolver = was })
}

// TestRebinding: a name that was good, and then leads to the metadata of a cloud,
// is not followed there, by either client; and is good again afterwards.
func TestRebinding(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	url := "http://crm.example:" + server.URL[strings.LastIndexByte(server.URL, ':')+1:] + "/mcp"
	for client, standard := range map[string]bool{"own": false, "standard": true} {
		t.Run(client, func(t *testing.T) {
			here := netip.MustParseAddr("127.0.0.1")
			answer := here
			resolve(t, func() netip.Addr { return answer })
			transport := New(Config{URL: url, Standard: standard}, NewMetrics(nil))
			defer transport.CloseIdleConnections()
			ask := func() error {
				transport.CloseIdleConnections() // or the connection that is there would be used
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := transport.RoundTrip(req)
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				return err
			}
			if err := ask(); err != nil {
				t.Fatalf("at its first address: %v", err)
			}
			for _, addr := range []string{"169.254.169.254", "fd00:ec2::254", "fe80::1", "64:ff9b::a9fe:a9fe"} {
				answer = netip.MustParseAddr(addr)
				if err := ask(); !errors.Is(err, ErrHostService) {
					t.Errorf("at %s: %v", addr, err)
				}
			}
			answer = here
			if err := ask(); err != nil {
				t.Errorf("at its first address again: %v", err)
			}
		})
	}
}

// TestWrittenAddress: an address that the operator wrote is dialled, whatever it is.
func TestWrittenAddress(t *testing.T) {
	dialled := errors.New("dialled")
	d := net.Dialer{Control: func(string, string, syscall.RawConn) error { return dialled }} // reaches nobody
	for _, address := range []string{"169.254.169.254:80", "[fd00:ec2::254]:80", "[fe80::1%lo]:80"} {
		if _, err := guarded(d, address)(t.Context(), "tcp", "elsewhere.example:80"); !errors.Is(err, dialled) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// Connections over plain HTTP are given up before servers with the usual five seconds close
// them.
func TestIdleConnectionsAreGivenUpEarly(t *testing.T) {
	for url, want := range map[string]time.Duration{"http://127.0.0.1/mcp": 3 * time.Second,
		"https://crm.example/mcp": 90 * time.Second} {
		if got := New(Config{URL: url}, NewMetrics(nil)).general.IdleConnTimeout; got != want {
			t.Errorf("%s: idle connections are kept for %s, want %s", url, got, want)
		}
	}
}
