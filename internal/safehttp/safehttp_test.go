package safehttp

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// patience bounds exchanges that should succeed, however slow the machine is.
const patience = time.Minute

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	return s
}

// trust has a Client trust the certificates of servers.
func trust(t *testing.T, servers ...*httptest.Server) egress.Config {
	t.Helper()
	return egress.Config{TLS: egress.TLS{CAFile: mcptest.Certificates(t, servers...)}}
}

func newClient(t *testing.T, opts Options) *Client {
	t.Helper()
	if opts.Timeout == 0 {
		opts.Timeout = patience
	}
	c, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func get(t *testing.T, c *Client, url string) (*Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Do(req)
}

func TestDo(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", r.Method+" "+r.Header.Get("User-Agent")+" "+string(body))
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "hello")
	})
	c := newClient(t, Options{Trust: []string{s.URL + "/some/path"}, Route: trust(t, s)})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/other", strings.NewReader("a=b"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Status != http.StatusTeapot || string(resp.Body) != "hello" ||
		resp.Header.Get("X-Seen") != "POST gatehouse/dev a=b" {
		t.Errorf("got %d %q %q", resp.Status, resp.Body, resp.Header)
	}
	if len(req.Header) != 0 {
		t.Errorf("the caller's request was changed: %v", req.Header)
	}
}

// A URL that the operator did not configure is fetched over https at public
// addresses only.
func TestProvenance(t *testing.T) {
	var hits atomic.Int32
	hit := func(http.ResponseWriter, *http.Request) { hits.Add(1) }
	s := serve(t, hit)
	plain := httptest.NewServer(http.HandlerFunc(hit))
	t.Cleanup(plain.Close)
	port := func(raw string) string {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		return u.Port()
	}
	trusting := newClient(t, Options{Trust: []string{s.URL, plain.URL}, Route: trust(t, s)})
	tests := []struct {
		name   string
		client *Client
		url    string
		ok     bool
	}{
		{"trusted https at loopback", trusting, s.URL + "/jwks", true},
		{"trusted https, host in capitals", trusting, strings.Replace(s.URL, "https", "HTTPS", 1) + "/", true},
		{"trusted http at loopback", trusting, plain.URL + "/jwks", true},
		{"another host of the same address", trusting, "https://localhost:" + port(s.URL) + "/", false},
		{"another scheme of the same port", trusting, "http://127.0.0.1:" + port(s.URL) + "/", false},
		{"another port", trusting, "https://127.0.0.1:" + port(plain.URL) + "/", false},
		{"nothing is trusted: https at loopback", newClient(t, Options{Route: trust(t, s)}), s.URL, false},
		{"nothing is trusted: http at loopback", newClient(t, Options{}), plain.URL, false},
		{"a name that resolves to loopback", newClient(t, Options{Route: trust(t, s)}),
			"https://localhost:" + port(s.URL), false},
		{"IPv4 written as IPv6", newClient(t, Options{Route: trust(t, s)}),
			"https://[::ffff:127.0.0.1]:" + port(s.URL), false},
		{"metadata of a cloud", trusting, "https://169.254.169.254/latest", false},
		{"metadata of a cloud over http", trusting, "http://169.254.169.254/latest", false},
		{"a file", trusting, "file:///etc/passwd", false},
		{"credentials in the URL", trusting, strings.Replace(s.URL, "127", "me:secret@127", 1), false},
		{"no host", trusting, "https:///x", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := hits.Load()
			_, err := get(t, tt.client, tt.url)
			if tt.ok != (err == nil) {
				t.Fatalf("got error %v, want ok %t", err, tt.ok)
			}
			if !tt.ok && !errors.Is(err, ErrForbidden) {
				t.Errorf("got %v, want ErrForbidden", err)
			}
			if !tt.ok && hits.Load() != before {
				t.Error("the server was reached")
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows credentials: %v", err)
			}
		})
	}
}

func TestNewRefusesPlaintext(t *testing.T) {
	for _, bad := range []string{"http://issuer.example/", "http://10.0.0.1/", "http://127.0.0.1.example/",
		"ftp://127.0.0.1/", "issuer.example", ""} {
		if _, err := New(Options{Trust: []string{bad}}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	for _, good := range []string{"https://issuer.example/a", "http://127.0.0.1:1/", "http://localhost/",
		"http://[::1]:2/"} {
		if _, err := New(Options{Trust: []string{good}}); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

// A name that changes its address does not get past the check, which covers
// the address that is dialled, however often the name was good before.
func TestRebinding(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	good := netip.MustParseAddr("127.0.0.1") // stands for a public one
	answer := good
	c := newClient(t, Options{Route: trust(t, s)})
	dialer := newDialer(patience, func(a netip.Addr) bool { return a == good || Public(a) })
	dialer.Resolver = mcptest.Resolver(func() netip.Addr { return answer })
	c.public.dialer = dialer
	url := "https://example.com:" + s.URL[strings.LastIndexByte(s.URL, ':')+1:] // the certificate is for this name
	if _, err := get(t, c, url); err != nil {
		t.Fatalf("the first address is refused: %v", err)
	}
	for _, addr := range []string{"127.0.0.2", "169.254.169.254", "10.0.0.1", "::1", "fe80::1", "fd00:ec2::254",
		"64:ff9b::a9fe:a9fe"} {
		answer = netip.MustParseAddr(addr)
		c.Close() // else the open connection would be used
		if _, err := get(t, c, url); !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: got %v, want ErrForbidden", addr, err)
		}
	}
	answer = good
	if _, err := get(t, c, url); err != nil {
		t.Errorf("the first address again: %v", err)
	}
}

// Each pool of connections has its own rule, so the name "localhost" is not trusted either.
func TestPools(t *testing.T) {
	c := newClient(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing should be reached: only the refusals matter
	for _, tt := range []struct {
		name, addr string
		pool       *pool
		forbidden  bool
	}{
		{"plaintext to loopback", "127.0.0.1:9", c.plaintext, false},
		{"plaintext to another host", "10.0.0.1:9", c.plaintext, true},
		{"plaintext to the Internet", "1.1.1.1:9", c.plaintext, true},
		{"operator to a private host", "10.0.0.1:9", c.operator, false},
		{"public to a private host", "10.0.0.1:9", c.public, true},
	} {
		dialer := tt.pool.dialer.DialContext
		if tt.forbidden {
			_, err := dialer(t.Context(), "tcp", tt.addr)
			if !errors.Is(err, ErrForbidden) {
				t.Errorf("%s: got %v, want ErrForbidden", tt.name, err)
			}
			continue
		}
		if _, err := dialer(ctx, "tcp", tt.addr); errors.Is(err, ErrForbidden) {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}

// Redirects are not followed, wherever they lead.
func TestRedirects(t *testing.T) {
	var landed atomic.Bool
	target := serve(t, func(http.ResponseWriter, *http.Request) { landed.Store(true) })
	for _, status := range []int{300, 301, 302, 303, 304, 307, 308} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/landed" {
				landed.Store(true)
			}
			w.Header().Set("Location", target.URL)
			if status == 303 {
				w.Header().Set("Location", "/landed")
			}
			w.WriteHeader(status)
		})
		c := newClient(t, Options{Trust: []string{s.URL, target.URL}, Route: trust(t, s, target)})
		if _, err := get(t, c, s.URL); !errors.Is(err, ErrRedirect) {
			t.Errorf("%d: got %v, want ErrRedirect", status, err)
		}
	}
	if landed.Load() {
		t.Error("a redirect was followed")
	}
}

// Answers are limited in size, also after decompression, and so are headers.
func TestSizes(t *testing.T) {
	const limit = 1000
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	for range 2 {
		_, _ = zip.Write(make([]byte, 1<<20))
	}
	zip.Close()
	var answer func(http.ResponseWriter)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { answer(w) })
	c := newClient(t, Options{Trust: []string{s.URL}, Route: trust(t, s), MaxBytes: limit})
	body := func(n int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, n)) }
	}
	tests := []struct {
		name   string
		answer func(http.ResponseWriter)
		want   error // nil: succeeds
		text   string
	}{
		{"at the limit", body(limit), nil, ""},
		{"one more", body(limit + 1), ErrTooLarge, ""},
		{"endless", func(w http.ResponseWriter) {
			for range 1 << 10 {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}, ErrTooLarge, ""},
		{"gzip bomb", func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		}, ErrTooLarge, ""},
		{"an encoding that was not asked for", func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = w.Write([]byte("x"))
		}, nil, "content encoding"},
		{"headers", func(w http.ResponseWriter) {
			for i := range 200 {
				w.Header().Set("X-"+strings.Repeat("a", i+1), strings.Repeat("b", 1000))
			}
		}, nil, "header"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answer = tt.answer
			resp, err := get(t, c, s.URL)
			switch {
			case tt.want != nil && !errors.Is(err, tt.want):
				t.Errorf("got %v, want %v", err, tt.want)
			case tt.text != "" && (err == nil || !strings.Contains(strings.ToLower(err.Error()), tt.text)):
				t.Errorf("got %v, want an error with %q", err, tt.text)
			case tt.want == nil && tt.text == "" && (err != nil || len(resp.Body) != limit):
				t.Errorf("got %v", err)
			}
		})
	}
}

// The deadline covers the whole exchange, not only the time until the header.
func TestDeadline(t *testing.T) {
	done := make(chan struct{})
	silent := func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-done:
		case <-r.Context().Done():
		}
	}
	for name, answer := range map[string]http.HandlerFunc{
		"no header": silent,
		"half a body": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("x"))
			w.(http.Flusher).Flush()
			silent(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, answer)
			c := newClient(t, Options{Trust: []string{s.URL}, Route: trust(t, s), Timeout: 300 * time.Millisecond})
			if _, err := get(t, c, s.URL); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the deadline", err)
			}
		})
	}
	close(done)
	t.Run("the caller's context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		})
		c := newClient(t, Options{Trust: []string{s.URL}, Route: trust(t, s)})
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Do(req); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want canceled", err)
		}
	})
}

// The client keeps no cookies, and it checks certificates.
func TestNothingFromOutside(t *testing.T) {
	var cookie string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		cookie += r.Header.Get("Cookie")
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "x"})
	})
	c := newClient(t, Options{Trust: []string{s.URL}, Route: trust(t, s)})
	for range 2 {
		if _, err := get(t, c, s.URL); err != nil {
			t.Fatal(err)
		}
	}
	if cookie != "" {
		t.Errorf("a cookie was sent: %q", cookie)
	}
	strange := newClient(t, Options{Trust: []string{s.URL}})
	var unknown x509.UnknownAuthorityError
	if _, err := get(t, strange, s.URL); !errors.As(err, &unknown) {
		t.Errorf("got %v, want an unknown authority", err)
	}
}
