package egress

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestValuesOfProxy: what may be a proxy, and what is shown of it. A mistake does not repeat the value.
func TestValuesOfProxy(t *testing.T) {
	for value, want := range map[mcp.Secret]string{
		"":                                       "",
		"none":                                   "none",
		"environment":                            "environment",
		"http://proxy.example.com:3128":          "proxy.example.com:3128",
		"https://u:pass-word@proxy.example.com/": "proxy.example.com:443",
		"http://u:pass-word@[fd00::1]":           "[fd00::1]:80",
	} {
		if err := CheckProxy(value); err != nil || Named(value) != want {
			t.Errorf("%s: %v, shown as %q", string(value), err, Named(value))
		}
	}
	for _, bad := range []mcp.Secret{"proxy.example.com:3128", "socks5://pass-word@proxy.example.com", "http://", "direct",
		"http://proxy.example.com/pass-word", "http://proxy.example.com?pass-word",
		"http://u:pass-word@proxy.example.com:port"} {
		if err := CheckProxy(bad); err == nil || strings.Contains(err.Error(), "pass-word") || Named(bad) != "" {
			t.Errorf("%s: %v", string(bad), err)
		}
	}
}

// TestNamedProxy: a proxy that is named is for all URLs, none for no URL, and the one of the
// environment for those that it names.
func TestNamedProxy(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://env.example:1")
	t.Setenv("HTTP_PROXY", "")
	t.Setenv("NO_PROXY", "inside.example,10.0.0.0/8")
	for _, tt := range []struct{ proxy, to, want string }{
		{"http://named.example:3128", "https://127.0.0.1:8443/", "named.example:3128"},
		{"http://named.example:3128", "https://crm.inside.example/", "named.example:3128"},
		{None, "https://crm.example/", ""},
		{"", "https://crm.example/", "env.example:1"},
		{Environment, "https://crm.inside.example/", ""},
		{Environment, "https://10.1.2.3/", ""},
		{Environment, "https://localhost/", ""},
		{Environment, "https://[::1]:8443/", ""},
		{Environment, "http://crm.example/", ""},
	} {
		to, err := url.Parse(tt.to)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		proxy, err := New(Config{Proxy: mcp.Secret(tt.proxy)}).Proxy(to)
		if proxy != nil {
			got = proxy.Address()
		}
		if got != tt.want || err != nil {
			t.Errorf("%q for %s: %q, error %v; want %q", tt.proxy, tt.to, got, err, tt.want)
		}
	}
}

// TestMissingAuthority: the authority that is missing is the one above what the server has sent.
func TestMissingAuthority(t *testing.T) {
	of := func(name, issuer string) *x509.Certificate {
		c := &x509.Certificate{Subject: pkix.Name{CommonName: name}, Issuer: pkix.Name{CommonName: issuer},
			NotAfter: time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)}
		return c
	}
	leaf, between, root := of("crm", "between"), of("between", "root"), of("root", "root")
	loop := of("between", "crm")
	for _, tt := range []struct {
		chain []*x509.Certificate
		want  string
	}{
		{[]*x509.Certificate{leaf}, `"CN=between"`},
		{[]*x509.Certificate{leaf, between}, `"CN=root"`},
		{[]*x509.Certificate{leaf, root, between}, `"CN=root"`},
		{[]*x509.Certificate{leaf, loop}, `"CN=`},
	} {
		if got := missing(tt.chain); !strings.HasPrefix(got, tt.want) {
			t.Errorf("missing %s, want %s", got, tt.want)
		}
	}
	if text := Describe(leaf); text != `of "CN=crm" (until 2027-01-02, issued by "CN=between")` {
		t.Error(text)
	}
	if text := Describe(of("evil\n"+strings.Repeat("x", 1000), "a")); len(text) > 300 || strings.Contains(text, "\n") {
		t.Error(text)
	}
}

// TestSectionTLS: mistakes that can be seen without the files.
func TestSectionTLS(t *testing.T) {
	for _, bad := range []TLS{{CertFile: "a"}, {KeyFile: "a"}, {ServerName: "https://crm"}, {ServerName: "crm:443"}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	for _, good := range []TLS{{}, {CAFile: "a"}, {CertFile: "a", KeyFile: "b", ServerName: "crm.example"}} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	if text := fmt.Sprintf("%+v", Config{Proxy: "http://u:pass-word@p"}); strings.Contains(text, "pass-word") {
		t.Error(text)
	}
}
