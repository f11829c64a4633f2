package safelink

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
)

func TestCheck(t *testing.T) {
	tests := []struct {
		name string
		want string // part of the error; "" for none
		urls []string
	}{
		{"pages of the web", "", []string{
			"https://a.example", "https://a.example/", "https://a.example:8443/x?y=z&w=%20+1#part", "https://a.example?x",
			"https://a.example#x",
			"HTTPS://A.Example/X", "hTTps://a.example", "https://a.example.", "https://wiki/page", "https://x_y.a.example/",
			"https://a.example/a/../b//c",
			"https://login.example/authorize?redirect_uri=https%3A%2F%2Fapp.example%2Fcb%3Fa%3Db&scope=a%20b%7Cc&state=%7B1%7D;x=(y)*!",
			"https://a.example/@user", "https://a.example/?mail=me@a.example", "https://a.example/?to=http://169.254.169.254/",
		}},
		{"other scripts, encoded", "", []string{"https://xn--bcher-kva.example/", "https://a.example/%E6%97%A5",
			"https://a.example/%F0%9F%91%A9%E2%80%8D%F0%9F%92%BB", "https://a.example/%FF"}},
		{"addresses", "", []string{"https://8.8.8.8/", "https://10.1.2.3/", "https://192.168.0.1:8443/",
			"https://[2606:4700:4700::1111]/", "https://[fd12::1]:8443/x"}},
		{"other schemes", "https://", []string{
			"javascript:alert(1)", "JavaScript:alert(1)", "javascript://a.example/%0aalert(1)", "data:text/html,x",
			"data:text/html;base64,eA==",
			"file:///etc/passwd", "file://a.example/x", "vbscript:x", "ssh://a.example", "ftp://a.example/",
			"mailto:a@a.example", "tel:1", "blob:https://a.example/1",
			"view-source:https://a.example", "ms-settings:x", "vscode://x/y", "intent://x", "about:blank", "ws://a.example",
			"wss://a.example", "chrome://settings", "httpss://a.example",
		}},
		{"http", "https://", []string{"http://a.example/", "HTTP://a.example", "http://10.0.0.1/",
			"http://example.com.:80/"}},
		{"not absolute", "absolute", []string{"", "/x", "x", "//a.example/x", "a.example", "https:", "https:a.example",
			"https:/a.example", "?x", "#x", ".", "://a.example"}},
		{"no host", "names a host", []string{"https://", "https:///a.example", "https:////a.example", "https://?x",
			"https://#x", "https://.", "https://.a.example", "https://a..example", "https://:443"}},
		{"user info", "user name", []string{"https://me@a.example", "https://me:secret@a.example/",
			"https://a.example@b.example", "https://@a.example", "https://a.example:443@b.example/", "https://%61@b.example"}},
		{"white space", "spaces", []string{" https://a.example", "https://a.example ", "https://a.example/a b",
			"\thttps://a.example", "ht\ntps://a.example", "https://a.exam\tple", "https://a.example/\r\nx",
			"\u00a0https://a.example", "java\nscript:alert(1)"}},
		{"control characters", "control", []string{"\x00https://a.example", "\x01javascript:alert(1)",
			"https://a.example/\x1b[2J", "https://a.example/\x7f", "https://a.example/\u0085"}},
		{"characters that turn or hide text", "ASCII",
			[]string{"https://a.example/\u202egnp.exe", "https://\u2066a.example", "https://a\u200b.example",
				"https://a.example/\ufeff", "https://a.example/\u00ad", "https://a.example/\u2028"}},
		{"backslashes", `\`, []string{`https:\\a.example`, `https://a.example\@b.example`, `https://a.example\.b.example`,
			`\\a.example\x`, `https:/\a.example`}},
		{"what ends an attribute or a tag", "quotes",
			[]string{`https://a.example/"onclick=x`, `https://a.example/<script>`, `https://a.example/>`}},
		{"what a shell reads in quotes", "percent-encoded",
			[]string{"https://a.example/$IFS", "https://a.example/';id;'", "https://a.example/?x=`id`",
				"https://a.example/{a,b}", "https://a.example/|id", "https://a.example/^"}},
		{"names not in ASCII", "xn--", []string{"https://b\u00fccher.example/", "https://\u0430pple.example/",
			"https://a\u3002example", "https://\uff11\uff16\uff19.254.169.254", "https://\u2469.0.0.1/",
			"https://a.example/\u65e5"}},
		{"an encoded host", "names a host", []string{"https://%61.example", "https://a%2eexample",
			"https://a.example%2f.b.example", "https://%31%36%39.254.169.254/", "https://a.example%00.b.example"}},
		{"encoded control characters", "encoded", []string{"https://a.example/%0aGatehouse",
			"https://a.example/?x=%0D%0ASet-Cookie", "https://a.example/%00", "https://a.example/#%1b%5B2J",
			"https://a.example/%7f", "https://a.example/%C2%85"}},
		{"encoded characters that turn or hide text", "encoded",
			[]string{"https://a.example/%E2%80%AEgnp.exe", "https://a.example/?%e2%81%a6", "https://a.example/%E2%80%8B",
				"https://a.example/#%EF%BB%BF", "https://a.example/%F3%A0%81%81", "https://a.example/%E2%80%A8",
				"https://a.example/%E3%85%A4"}},
		{"encodings that are none", "hexadecimal", []string{"https://a.example/%", "https://a.example/%z1",
			"https://a.example/?%4"}},
		{"addresses of links, clouds and nobody", "address", []string{
			"https://169.254.169.254/", "https://169.254.169.254.:443/", "https://[::ffff:169.254.169.254]/",
			"https://[::ffff:a9fe:a9fe]/", "https://[64:ff9b::a9fe:a9fe]/", "https://[fe80::1]/",
			"https://100.100.100.200/", "https://168.63.129.16/", "https://192.0.0.192/", "https://[fd00:ec2::254]/",
			"https://[fd20:ce::254]",
			"https://0.0.0.0/", "https://0.1.2.3", "https://[::]/", "https://224.0.0.1/", "https://255.255.255.255",
			"https://[ff02::1]/", "https://[::7f00:1]/", "https://[2002:a9fe:a9fe::1]/",
		}},
		{"addresses in other writings", "usual form", []string{
			"https://2852039166/", "https://0xa9fea9fe/", "https://0xA9FEA9FE", "https://169.254.43518/",
			"https://0251.0376.0251.0376/", "https://0xa9.254.169.254", "https://169.254.169.0xfe",
			"https://127.1/", "https://017700000001", "https://1.2.3", "https://1.2.3.4.5", "https://256.1.1.1", "https://0",
			"https://a.1", "https://a.0x", "https://1.2.3.04",
		}},
		{"brackets", "usual form", []string{"https://[::1", "https://::1]", "https://[::1]x", "https://[fe80::1%25eth0]/",
			"https://[1.2.3.4]/", "https://[]", "https://[a.example]", "https://2606:4700::1/", "https://[[::1]]"}},
		{"ports", "port", []string{"https://a.example:", "https://a.example:0", "https://a.example:65536",
			"https://a.example:x", "https://a.example:-1", "https://a.example:+443", "https://a.example:0443",
			"https://[::1]:"}},
		{"the user's own computer", "own computer", []string{
			"http://localhost:8080/", "https://localhost/", "https://LOCALHOST.", "https://x.localhost", "http://127.0.0.1:1/",
			"https://127.8.9.10", "https://[::1]:8443/", "https://[::ffff:127.0.0.1]/",
		}},
		{"too long", "at most", []string{"https://a.example/" + strings.Repeat("x", maxLength)}},
		{"names too long", "names a host", []string{"https://" + strings.Repeat("x", 64) + ".example",
			"https://" + strings.Repeat("x.", 130) + "example"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, raw := range tt.urls {
				err := Check(raw, false)
				if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%q: got %v, want %q", raw, err, tt.want)
				}
			}
		})
	}
}

// The operator's setting lets pages on the user's own computer pass, and nothing else.
func TestCheckLoopback(t *testing.T) {
	for raw, good := range map[string]bool{
		"http://localhost:8080/x": true, "HTTP://LocalHost.:80": true, "http://x.localhost": true, "http://127.0.0.1/": true,
		"http://127.255.0.1:1": true,
		"http://[::1]:3000/":   true, "https://localhost": true, "https://127.0.0.1": true,
		"http://[::ffff:127.0.0.1]/": true,
		"http://me@localhost/":       false, "http://localhost.a.example/": false, "http://127.0.0.1.a.example/": false,
		"http://127.1/": false, "http://0x7f.0.0.1/": false,
		"http://0.0.0.0/": false, "http://a.example/": false, "http://169.254.169.254/": false, "http://10.0.0.1/": false,
		"https://169.254.169.254/":     false,
		"http://localhost\\@a.example": false, "ftp://localhost/": false, "http://localhost/%0a": false,
		"http:localhost": false,
	} {
		if err := Check(raw, true); (err == nil) != good {
			t.Errorf("%q: got %v", raw, err)
		}
	}
}

func TestHidden(t *testing.T) {
	for text, want := range map[string]bool{
		"\x00\n\t\r\x1b\x7f\u0085\u009b": true, "\u2028\u2029": true,
		"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069":           true,
		"\u00ad\u180e\u200b\u2060\ufeff\U000e0041\U000e007f\u3164\u115f\ufff9":               true,
		"aZ09 ~\u00a0\u00fc\u05d0\u0627\u65e5\u200c\u200d\u0600\u06dd\ufe0f\U0001f469\ufffd": false,
	} {
		for _, r := range text {
			if Hidden(r) != want {
				t.Errorf("%U: want %t", r, want)
			}
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"https://a.example/x", "HTTPS://a.example:1#y", "javascript:x", `https://a\@b`,
		"http://[::1]:80/", "https://%31.1.1.1", "https://0x7f.1", "https://a.example/%0a", "https://a@b",
		"https://[64:ff9b::a9fe:a9fe]"} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, raw string, loopback bool) {
		if Check(raw, loopback) != nil {
			return
		}
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" || u.User != nil || u.Opaque != "" ||
			strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Fatalf("%q passes: %v, %v", raw, u, err)
		}
		name := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
		addr, err := netip.ParseAddr(name)
		local := name == "localhost" || strings.HasSuffix(name, ".localhost") || err == nil && addr.Unmap().IsLoopback()
		if local && !loopback || u.Scheme != "https" && (u.Scheme != "http" || !local) {
			t.Errorf("%q passes", raw)
		}
		if err == nil && (safehttp.HostService(addr) || addr.IsUnspecified() || addr.IsMulticast()) {
			t.Errorf("%q leads to %s", raw, addr)
		}
		if decoded, err := url.PathUnescape(u.EscapedPath() + "?" + u.RawQuery + "#" + u.EscapedFragment()); err != nil ||
			strings.ContainsFunc(decoded, Hidden) {
			t.Errorf("%q hides something", raw)
		}
	})
}
