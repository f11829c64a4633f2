package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/configtext"
)

// TestProxyForAll: upstreams and issuers without a proxy of their own have the gateway's, except on
// loopback addresses.
func TestProxyForAll(t *testing.T) {
	const text = `
proxy: http://u:pass-word@proxy.example:3128
policy: {default: allow}
public_url: https://mcp.example.com/mcp
auth:
  mode: oauth
  issuers: [{url: "https://login.example.com"}, {url: "https://in.example.com", proxy: none}, {url: "http://127.0.0.1:8/"}]
upstreams:
  - {name: a, url: "https://a.example.com/mcp"}
  - {name: b, url: "https://b.example.com/mcp", proxy: environment}
  - {name: c, url: "http://localhost:1/mcp"}
  - {name: d, url: "http://localhost:1/mcp", proxy: "http://other.example:1"}
  - {name: e, command: [program]}
`
	cfg, _, err := Parse("gatehouse.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	given := cfg.Upstreams[0].Proxy
	for range 2 { // defaults are filled in again by others
		cfg = cfg.WithDefaults()
	}
	var got []string
	for _, u := range cfg.Upstreams {
		got = append(got, string(u.Proxy))
	}
	for _, iss := range cfg.Auth.Issuers {
		got = append(got, string(iss.Proxy))
	}
	all := "http://u:pass-word@proxy.example:3128"
	if want := []string{all, "environment", "none", "http://other.example:1", "", all, "none", ""}; !reflect.DeepEqual(got, want) {
		t.Errorf("proxies %q", got)
	}
	if given != "" {
		t.Error("the configuration itself was changed")
	}
	masked, err := configtext.Masked([]byte(text), reflect.TypeFor[Config]())
	if err != nil || strings.Contains(masked, "pass-word") || !strings.Contains(masked, "proxy: environment") {
		t.Errorf("shown as %s, error %v", masked, err)
	}
}

// TestMistakesOutward: each mistake in tls and proxy has its place, and no credentials.
func TestMistakesOutward(t *testing.T) {
	_, _, err := Parse("gatehouse.yaml", []byte(`
proxy: socks5://u:pass-word@proxy.example
policy: {default: allow}
public_url: https://mcp.example.com/mcp
auth:
  mode: oauth
  issuers: [{url: "http://127.0.0.1:8/", tls: {ca_file: a}}, {url: "https://b.example.com", tls: {cert_file: a}, proxy: yes}]
upstreams:
  - {name: a, url: "http://127.0.0.1:1/mcp", tls: {ca_file: a}}
  - {name: b, url: "https://b.example.com/mcp", tls: {server_name: "b:1"}, proxy: "http://u:pass-word@p/x"}
  - {name: c, command: [program], proxy: none}
  - {name: d, skills: skills, tls: {ca_file: a}}
`))
	if err == nil {
		t.Fatal("it is accepted")
	}
	for _, want := range []string{
		"proxy: the URL of a proxy begins with http:// or https://",
		"auth: issuers[0]: tls and proxy: are for https",
		"auth: issuers[1].tls: cert_file and key_file: one needs the other",
		"auth: issuers[1].proxy: want the URL of a proxy",
		"upstreams[0] (a): tls: is for https",
		"upstreams[1] (b): tls.server_name",
		"upstreams[1] (b): proxy: the URL of a proxy has only",
		"upstreams[2] (c): tls, proxy: are for a url",
		"upstreams[3] (d): tls: is for a server, not for a directory of skills",
	} {
		if !strings.Contains(strings.ReplaceAll(err.Error(), ".issuers", ": issuers"), want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(err.Error(), "pass-word") {
		t.Error("it tells the credentials")
	}
	if t.Failed() {
		t.Log(err)
	}
}

// TestFilesOutward: files of tls begin at the directory of the configuration, have to be there for a
// start, and their ends are reported.
func TestFilesOutward(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "gatehouse.yaml")
	if err := os.WriteFile(file, []byte(`
policy: {default: allow}
public_url: https://mcp.example.com/mcp
auth: {mode: oauth, issuers: [{url: "https://login.example.com", tls: {ca_file: login.pem}}]}
upstreams: [{name: a, url: "https://a.example.com/mcp", tls: {ca_file: a.pem}}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	f := File{Path: file}
	_, err := f.Load(nil)
	for _, want := range []string{"auth.issuers[0].tls.ca_file", "upstreams[0] (a): tls.ca_file", filepath.Join(dir, "a.pem")} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error %v has no %q", err, want)
		}
	}
	cfg, _, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	ends := make(map[string]string)
	for _, c := range CertificatesOf(cfg) {
		for _, e := range c.Ends() {
			ends[c.Section] = e.File
		}
	}
	want := map[string]string{"auth.issuers[0].tls": filepath.Join(dir, "login.pem"),
		"upstreams[0].tls": filepath.Join(dir, "a.pem")}
	if !reflect.DeepEqual(ends, want) {
		t.Errorf("ends of %v", ends)
	}
}
