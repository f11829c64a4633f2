package clientele

import (
	"net/url"
	"strings"
	"testing"
)

// TestRedirectVariants: nothing that looks like a registered URI, or that a browser or a parser takes
// for it, is one.
func TestRedirectVariants(t *testing.T) {
	client := Client{Redirects: []string{
		"https://app.example.com/cb", "https://app.example.com:8443/cb?tenant=1", "http://127.0.0.1/callback",
		"http://localhost:8787/callback",
		"http://[::1]/callback", "http://127.0.0.1:33418", "cursor://anysphere.cursor-mcp/oauth/callback",
		"com.example.app:/oauth",
	}}
	for _, good := range []string{
		"https://app.example.com/cb", "https://app.example.com:8443/cb?tenant=1",
		"http://127.0.0.1/callback", "http://127.0.0.1:1/callback", "http://127.0.0.1:65535/callback",
		"http://127.0.0.1:80/callback",
		"http://localhost/callback", "http://localhost:50123/callback", "http://[::1]:50123/callback",
		"http://127.0.0.1:50123", "http://127.0.0.1:50123/", "http://127.0.0.1",
		"cursor://anysphere.cursor-mcp/oauth/callback", "com.example.app:/oauth",
	} {
		if !client.Allows(good) {
			t.Errorf("%s is refused", good)
		}
	}
	for name, bad := range map[string]string{
		"nothing":                       "",
		"another path":                  "https://app.example.com/cb2",
		"below the path":                "https://app.example.com/cb/more",
		"a slash more":                  "https://app.example.com/cb/",
		"a slash less":                  "http://127.0.0.1:1callback",
		"two slashes":                   "https://app.example.com//cb",
		"no path":                       "https://app.example.com",
		"a way up":                      "https://app.example.com/x/../cb",
		"a way up for some servers":     "https://app.example.com/x/..;/cb",
		"a dot":                         "https://app.example.com/./cb",
		"an escaped way up":             "https://app.example.com/x/%2e%2e/cb",
		"an escaped letter":             "https://app.example.com/%63b",
		"an escaped slash":              "https://app.example.com%2fcb",
		"an escaped escape":             "https://app.example.com/%2563b",
		"a query more":                  "https://app.example.com/cb?next=https://evil.example",
		"an empty query":                "https://app.example.com/cb?",
		"a query less":                  "https://app.example.com:8443/cb",
		"another query":                 "https://app.example.com:8443/cb?tenant=2",
		"a longer query":                "https://app.example.com:8443/cb?tenant=1&tenant=2",
		"a query on loopback":           "http://127.0.0.1:1/callback?x=1",
		"a fragment":                    "https://app.example.com/cb#x",
		"an empty fragment":             "https://app.example.com/cb#",
		"a port":                        "https://app.example.com:444/cb",
		"the usual port":                "https://app.example.com:443/cb",
		"an empty port":                 "https://app.example.com:/cb",
		"another port off loopback":     "https://app.example.com:8444/cb?tenant=1",
		"a port with a zero":            "http://127.0.0.1:08080/callback",
		"port 0":                        "http://127.0.0.1:0/callback",
		"a port that is too large":      "http://127.0.0.1:65536/callback",
		"a port that wraps":             "http://127.0.0.1:73618/callback",
		"a port that is a text":         "http://127.0.0.1:http/callback",
		"a port with a sign":            "http://127.0.0.1:+80/callback",
		"a wildcard":                    "http://127.0.0.1:*/callback",
		"a user":                        "https://user@app.example.com/cb",
		"a user that looks like a host": "https://app.example.com@evil.example/cb",
		"a user and a password":         "https://app.example.com:8443@evil.example/cb",
		"a user on loopback":            "http://127.0.0.1@evil.example/callback",
		"a port and a user":             "http://127.0.0.1:80@evil.example/callback",
		"an empty user":                 "https://@app.example.com/cb",
		"a backslash":                   `https://app.example.com\@evil.example/cb`,
		"a backslash for slashes":       `https:\\app.example.com\cb`,
		"a backslash in the path":       `https://app.example.com/\cb`,
		"no slashes":                    "https:app.example.com/cb",
		"one slash":                     "https:/app.example.com/cb",
		"three slashes":                 "https:///app.example.com/cb",
		"no scheme":                     "//app.example.com/cb",
		"only a path":                   "/cb",
		"capitals in the host":          "https://App.example.com/cb",
		"capitals in the scheme":        "HTTPS://app.example.com/cb",
		"a host above":                  "https://example.com/cb",
		"a host below":                  "https://x.app.example.com/cb",
		"the host in front":             "https://app.example.com.evil.example/cb",
		"the host at the end":           "https://evilapp.example.com/cb",
		"a dot at the end":              "https://app.example.com./cb",
		"two dots":                      "https://app..example.com/cb",
		"another script":                "https://\u0430pp.example.com/cb",
		"another script, encoded":       "https://xn--pp-7ed.example.com/cb",
		"a wide dot":                    "https://app\uff0eexample.com/cb",
		"an ideographic full stop":      "https://app\u3002example.com/cb",
		"a soft hyphen":                 "https://a\u00adpp.example.com/cb",
		"an invisible character":        "https://app.example.com/c\u200bb",
		"a line break":                  "https://app.example.com/c\nb",
		"a tab":                         "https://app.exa\tmple.com/cb",
		"a space in front":              " https://app.example.com/cb",
		"a space behind":                "https://app.example.com/cb ",
		"a zero byte":                   "https://app.example.com/cb\x00",
		"a quote":                       `https://app.example.com/cb"onload=`,
		"http":                          "http://app.example.com/cb",
		"https on loopback":             "https://127.0.0.1/callback",
		"another name for loopback":     "http://localhost:1/callback2",
		"a name below localhost":        "http://x.localhost/callback",
		"localhost with a dot":          "http://localhost./callback",
		"localhost in front":            "http://localhost.evil.example/callback",
		"localhost in capitals":         "http://LOCALHOST/callback",
		"a short address":               "http://127.1/callback",
		"a number":                      "http://2130706433/callback",
		"a hexadecimal address":         "http://0x7f000001/callback",
		"an octal address":              "http://0177.0.0.1/callback",
		"a neighbour":                   "http://127.0.0.2/callback",
		"any address":                   "http://0.0.0.0/callback",
		"IPv4 written as IPv6":          "http://[::ffff:127.0.0.1]/callback",
		"a long IPv6":                   "http://[0:0:0:0:0:0:0:1]/callback",
		"IPv6 with a zone":              "http://[::1%25eth0]/callback",
		"IPv6 without brackets":         "http://::1/callback",
		"IPv6 and more":                 "http://[::1].evil.example/callback",
		"a script":                      "javascript:alert(1)//https://app.example.com/cb",
		"a script with slashes":         "javascript://app.example.com/cb",
		"data":                          "data:text/html,<script>",
		"data with slashes":             "data:/x",
		"a file":                        "file:///etc/passwd",
		"a blob":                        "blob:https://app.example.com/cb",
		"a page's source":               "view-source:https://app.example.com/cb",
		"a handler of Windows":          "ms-msdt:/id",
		"another scheme":                "cursor2://anysphere.cursor-mcp/oauth/callback",
		"a scheme in capitals":          "Cursor://anysphere.cursor-mcp/oauth/callback",
		"another path of the scheme":    "cursor://anysphere.cursor-mcp/oauth/callback2",
		"a query of the scheme":         "cursor://anysphere.cursor-mcp/oauth/callback?x",
		"a port of the scheme":          "cursor://anysphere.cursor-mcp:1/oauth/callback",
		"another host of the scheme":    "cursor://evil.cursor-mcp/oauth/callback",
		"a scheme without a host":       "cursor:///oauth/callback",
		"a scheme without a path":       "com.example.app:oauth",
		"very long":                     "https://app.example.com/" + strings.Repeat("x", maxRedirect),
	} {
		if client.Allows(bad) {
			t.Errorf("%s: %q is accepted", name, bad)
		}
	}
}

// TestRedirectLocalhostIsNotLoopbackAddress: names and addresses of the user's machine are different
// clients' places.
func TestRedirectLocalhostIsNotLoopbackAddress(t *testing.T) {
	client := Client{Redirects: []string{"http://127.0.0.1/cb"}}
	for _, other := range []string{"http://localhost/cb", "http://[::1]/cb"} {
		if client.Allows(other) {
			t.Errorf("%s is accepted", other)
		}
	}
}

func TestPlace(t *testing.T) {
	for uri, want := range map[string]struct {
		name  string
		local bool
	}{
		"https://app.example.com/cb":      {"app.example.com", false},
		"https://app.example.com:8443/cb": {"app.example.com:8443", false},
		"http://127.0.0.1:5/cb":           {"127.0.0.1", true},
		"http://[::1]/cb":                 {"[::1]", true},
		"cursor://x/cb":                   {"cursor:", true},
		"javascript:/x":                   {"", false},
	} {
		if name, local := Place(uri); name != want.name || local != want.local {
			t.Errorf("%s: %q, %t", uri, name, local)
		}
	}
}

// FuzzRedirect: what is accepted has one spelling, which net/url reads as we do, and nothing but the
// port of a loopback address may differ.
func FuzzRedirect(f *testing.F) {
	for _, seed := range []string{
		"https://app.example.com/cb", "http://127.0.0.1:33418/", "http://[::1]/callback?x=%20",
		"cursor://anysphere.cursor-mcp/oauth/callback",
		"com.example.app:/oauth", "https://a@b/c", "http://localhost:8787", "https://xn--pp-7ed.example.com/", "x:/%2f",
		"http://127.0.0.1/a;b/..;/c",
	} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, raw, other string) {
		r, err := parseRedirect(raw)
		if err != nil {
			return
		}
		u, err := url.Parse(raw)
		if err != nil || u.User != nil || u.Fragment != "" || u.Opaque != "" || u.Scheme != r.scheme {
			t.Fatalf("%q: %+v, %v", raw, u, err)
		}
		if path, _, _ := strings.Cut(r.rest, "?"); u.Path != path {
			t.Fatalf("%q: path %q, want %q", raw, u.Path, path)
		}
		if host := strings.Trim(r.host, "[]"); u.Hostname() != host || u.Port() != r.port {
			t.Fatalf("%q: host %q and port %q, want %q and %q", raw, u.Hostname(), u.Port(), host, r.port)
		}
		if again := u.String(); again != raw && again != strings.TrimSuffix(raw, "?") {
			t.Fatalf("%q is written %q", raw, again)
		}
		if strings.ToLower(r.host) != r.host || strings.Contains(r.rest, "//") && !strings.Contains(r.rest, "?") {
			t.Fatalf("%q: %+v", raw, r)
		}
		if !(Client{Redirects: []string{raw}}).Allows(raw) {
			t.Fatalf("%q is not itself", raw)
		}
		o, err := parseRedirect(other)
		if err != nil || raw == other {
			return
		}
		if r.same(o) != o.same(r) {
			t.Fatalf("%q and %q are the same in one direction", raw, other)
		}
		if r.same(o) && (r.scheme != "http" || r.host != o.host || r.request() != o.request()) {
			t.Fatalf("%q is taken for %q", other, raw)
		}
	})
}
