package dial_test

import (
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

const password = "open-sesame"

// remote is a server that only a proxy reaches, as crm.example, over TLS or not.
func remote(t *testing.T, p *mcptest.ForwardProxy, stateful, secure bool) (*fake.Server, upstream.Config) {
	t.Helper()
	cfg := upstream.Config{URL: "http://crm.example/mcp", AllowPlaintext: true}
	if !secure {
		f := fake.New(t, stateful, nil)
		p.Lead("crm.example", f.Listener.Addr().String())
		return f, cfg
	}
	private, file := newAuthority(t), filepath.Join(t.TempDir(), "ca.pem")
	private.Write(t, file)
	f := fake.NewUnstarted(stateful, nil)
	private.Serve(t, f, "crm.example", time.Hour, 0)
	cfg.URL, cfg.TLS.CAFile = "https://crm.example/mcp", file
	p.Lead("crm.example:443", f.Listener.Addr().String())
	return f, cfg
}

func resolve(t *testing.T, addr string) {
	t.Helper()
	was := net.DefaultResolver
	net.DefaultResolver = mcptest.Resolver(func() netip.Addr { return netip.MustParseAddr(addr) })
	t.Cleanup(func() { net.DefaultResolver = was })
}

func start(t *testing.T, cfg upstream.Config) *fake.Upstream {
	t.Helper()
	return fake.StartOver(t, cfg, upstream.NewTransport(nil, cfg))
}

// withUser returns the URL of a proxy with credentials.
func withUser(p *mcptest.ForwardProxy) mcp.Secret {
	return mcp.Secret(strings.Replace(p.URL, "://", "://gatehouse:"+password+"@", 1))
}

// TestProxy: a server at https is reached by CONNECT with its name, one at http by whole URLs.
func TestProxy(t *testing.T) {
	resolve(t, "10.9.8.7")
	for _, tt := range []struct {
		name          string
		secure, proof bool
		want          string
	}{
		{"https", true, false, "CONNECT crm.example:443"},
		{"https with credentials", true, true, "CONNECT crm.example:443"},
		{"http", false, false, "POST http://crm.example/mcp"},
		{"http with credentials", false, true, "POST http://crm.example/mcp"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fake.Eras(t, func(t *testing.T, stateful bool) {
				p := mcptest.NewForwardProxy(t, false)
				f, cfg := remote(t, p, stateful, tt.secure)
				cfg.Proxy = mcp.Secret(p.URL)
				if tt.proof {
					p.Want("Basic " + base64.StdEncoding.EncodeToString([]byte("gatehouse:"+password)))
					cfg.Proxy = withUser(p)
				}
				fake.WantOK(t, start(t, cfg), fake.Tool("a"))
				if asked := p.Asked(); !slices.Contains(asked, tt.want) {
					t.Errorf("the proxy was asked for %q", asked)
				}
				for _, r := range f.Requests("") {
					if r.Header.Get("Proxy-Authorization") != "" {
						t.Error("the server got the credentials of the proxy")
					}
				}
			})
		})
	}
}

// TestProxyOverTLS: the proxy itself may have TLS, by a certificate of tls.ca_file.
func TestProxyOverTLS(t *testing.T) {
	p := mcptest.NewForwardProxy(t, true)
	_, cfg := remote(t, p, false, false)
	resolve(t, "10.9.8.7")
	cfg.Proxy, cfg.AllowPlaintext = mcp.Secret(p.URL), true
	_, err := fake.Do(t, start(t, cfg), fake.Tool("a"))
	e := fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
	if !strings.Contains(e.Cause, "the proxy at "+p.Listener.Addr().String()) || !strings.Contains(e.Cause,
		"tls.ca_file") ||
		len(p.Asked()) != 0 {
		t.Errorf("the cause is %q", e.Cause)
	}
	cfg.TLS.CAFile = mcptest.Certificates(t, p.Server)
	fake.WantOK(t, start(t, cfg), fake.Tool("a"))
}

// TestProxyRefuses: a proxy that refuses has kept the call from the server. The operator reads why, and
// no other party reads the credentials.
func TestProxyRefuses(t *testing.T) {
	for status, text := range map[int]string{
		407: "407 Proxy Authentication Required", 403: "403 Forbidden", 502: "502 Bad Gateway",
	} {
		t.Run(text, func(t *testing.T) {
			fake.Eras(t, func(t *testing.T, stateful bool) {
				p := mcptest.NewForwardProxy(t, false)
				f, cfg := remote(t, p, stateful, true)
				cfg.Proxy = withUser(p)
				p.Refuse(status)
				u := start(t, cfg)
				_, err := fake.Do(t, u, fake.Tool("a"))
				e := fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
				if !strings.Contains(e.Message, "the proxy before it refused ("+text+")") {
					t.Errorf("the message is %q", e.Message)
				}
				if !strings.Contains(e.Cause, "the proxy at "+p.Listener.Addr().String()+" refused: "+text) {
					t.Errorf("the cause is %q", e.Cause)
				}
				if strings.Contains(e.Message+e.Cause, password) || len(f.Requests("")) != 0 {
					t.Errorf("%s; %s; the server got %d requests", e.Message, e.Cause, len(f.Requests("")))
				}
				if s := u.Status(); s.State != upstream.StateDown || s.Last.Stage != upstream.StageConnect {
					t.Errorf("the upstream is %s, for %s", s.State, s.Last.Stage)
				}
				p.Refuse(0)
				fake.WantOK(t, u, fake.Tool("a"))
			})
		})
	}
	t.Run("over http", func(t *testing.T) {
		p := mcptest.NewForwardProxy(t, false)
		f, cfg := remote(t, p, false, false)
		resolve(t, "10.9.8.7")
		p.Want("Basic other")
		cfg.Proxy = withUser(p)
		_, err := fake.Do(t, start(t, cfg), fake.Tool("a"))
		e := fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
		if !strings.Contains(e.Cause, "refused: 407 Proxy Authentication Required") || len(f.Requests("")) != 0 {
			t.Errorf("the cause is %q", e.Cause)
		}
	})
}

// TestBadProxies: a proxy that hangs, speaks for the server, or does not speak HTTP costs a
// connection, and no longer than timeout.connect.
func TestBadProxies(t *testing.T) {
	for name, answer := range map[string]string{
		"hangs":                    "",
		"speaks before the server": "HTTP/1.1 200 OK\r\n\r\n\x16\x03\x03",
		"speaks no HTTP":           "SSH-2.0-proxy\r\n",
		"has no end":               "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100<<10),
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					_, _ = io.WriteString(conn, answer)
					_, _ = io.Copy(io.Discard, conn) // until the gateway gives up
					conn.Close()
				}
			}()
			t.Cleanup(func() { listener.Close(); <-done })
			cfg := upstream.Config{URL: "https://crm.example/mcp", Proxy: mcp.Secret("http://" + listener.Addr().String()),
				Timeout: upstream.Timeout{Connect: 200 * time.Millisecond}}
			_, err = fake.Do(t, start(t, cfg), fake.Tool("a"))
			e := fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
			if !strings.Contains(e.Message, "the proxy before it does not") &&
				!strings.Contains(e.Cause, "through the proxy at "+listener.Addr().String()+": timeout") {
				t.Errorf("the message is %q, the cause %q", e.Message, e.Cause)
			}
		})
	}
}

// TestProxyOfTheEnvironment: HTTPS_PROXY and NO_PROXY decide by default, and "none" overrules them.
// Servers on loopback addresses have a proxy only if one is named for them.
func TestProxyOfTheEnvironment(t *testing.T) {
	p := mcptest.NewForwardProxy(t, false)
	_, cfg := remote(t, p, false, true)
	here := fake.New(t, false, nil)
	resolve(t, "127.0.0.1")
	t.Setenv("HTTPS_PROXY", p.URL)
	t.Setenv("HTTP_PROXY", p.URL)
	t.Setenv("NO_PROXY", "")
	fake.WantOK(t, start(t, cfg), fake.Tool("a"))
	asked := len(p.Asked())
	if asked == 0 {
		t.Error("HTTPS_PROXY is not used")
	}
	fake.WantOK(t, here.Upstream(t, upstream.Config{}), fake.Tool("a"))
	for _, none := range []string{"NO_PROXY", "proxy: none"} {
		direct := cfg
		if none == "NO_PROXY" {
			t.Setenv("NO_PROXY", ".example")
		} else {
			t.Setenv("NO_PROXY", "")
			direct.Proxy = egress.None
		}
		u := direct.URL // at its own port, since nothing leads there
		at, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		at.Host = "crm.example:1"
		direct.URL = at.String()
		_, err = fake.Do(t, start(t, direct), fake.Tool("a"))
		fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
	}
	if len(p.Asked()) != asked {
		t.Errorf("the proxy was asked for %q", p.Asked())
	}
	fake.WantOK(t, here.Upstream(t, upstream.Config{Proxy: mcp.Secret(p.URL)}), fake.Tool("a"))
	if len(p.Asked()) == asked {
		t.Error("the proxy that is named for a server on loopback is not used")
	}
	t.Setenv("HTTPS_PROXY", "socks5://"+p.Listener.Addr().String())
	_, err := fake.Do(t, start(t, cfg), fake.Tool("a"))
	if e := fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo); !strings.Contains(e.Cause, "socks5://") {
		t.Errorf("the cause is %q", e.Cause)
	}
}

// TestMetadataNotByProxy: no name leads to a cloud's metadata by a proxy either. The proxy is not asked,
// and a name that is not known here is none that can be checked.
func TestMetadataNotByProxy(t *testing.T) {
	p := mcptest.NewForwardProxy(t, false)
	f, cfg := remote(t, p, false, false)
	cfg.Proxy = mcp.Secret(p.URL)
	for _, addr := range []string{"169.254.169.254", "fd00:ec2::254", "100.100.100.200"} {
		resolve(t, addr)
		_, err := fake.Do(t, start(t, cfg), fake.Tool("a"))
		e := fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
		if !strings.Contains(e.Message, "its name leads to an address that is refused") {
			t.Errorf("%s: the message is %q", addr, e.Message)
		}
	}
	cfg.Proxy = "http://proxy.example:3128" // which leads there, too
	_, err := fake.Do(t, start(t, cfg), fake.Tool("a"))
	fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
	if len(p.Asked()) != 0 || len(f.Requests("")) != 0 {
		t.Errorf("the proxy was asked for %q, and the server got %d requests", p.Asked(), len(f.Requests("")))
	}
}

// TestUsersByProxy: requests with the credentials of two users do not share a connection to the
// proxy either, and their targets are the server's.
func TestUsersByProxy(t *testing.T) {
	p := mcptest.NewForwardProxy(t, false)
	resolve(t, "10.9.8.7")
	_, cfg := remote(t, p, false, false)
	cfg.Proxy = mcp.Secret(p.URL)
	transport := upstream.NewTransport(nil, cfg)
	t.Cleanup(transport.CloseIdleConnections)
	for _, user := range []string{"alice", "bob", "alice"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cfg.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "crm.example"
		resp, err := transport.For(user).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	if asked := p.Asked(); !slices.Equal(asked, slices.Repeat([]string{"GET http://crm.example/mcp"}, 3)) {
		t.Errorf("the proxy was asked for %q", asked)
	}
	if n := p.Connections(); n != 2 {
		t.Errorf("%d connections to the proxy, want one for each user", n)
	}
}
