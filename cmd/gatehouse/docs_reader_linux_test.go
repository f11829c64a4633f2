package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"gopkg.in/yaml.v3"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// stopped is a section of which the commands need a gateway that was stopped.
const stopped = "docs/reference/commands.md#gatehouse state"

// setups are configurations of pages and of sections, PAGE#HEADING, that need another one than testdata/docs has, or a
// gateway of their own (""). Without an address, no gateway runs beside the commands.
var setups = map[string]string{
	stopped: "",
	"docs/reference/commands.md#gatehouse init": "",
	"docs/operations.md#Backup and restore":     "",
	"docs/replay.md":                            "policy: {default: allow}", // replaced by that of testdata/replay.txt
	"docs/pinning.md": `
listen: 127.0.0.1:8080
pinning: {mode: block}
upstreams: [{name: crm, url: "https://crm.example.com/mcp"}]`,
	"docs/operations.md#Health": `
listen: 127.0.0.1:8080
public_url: https://mcp.example.com/mcp
auth: {mode: oauth, issuers: [{url: "https://login.example.com"}]}
policy: {default: allow}
admin: {listen: 127.0.0.1:9090}
sessions: {store: redis, redis: {url: "rediss://redis.example.com:6379/0"}, key: "${env:SECRET}"}
replicas: {listen: 127.0.0.1:8082}
upstreams: [{name: crm, url: "http://127.0.0.1:1/mcp"}]`,
	"docs/operations.md#TLS": `
listen: 0.0.0.0:443
tls: {cert_file: /etc/gatehouse/mcp.pem, key_file: /etc/gatehouse/mcp.key, client_ca_file: ca.pem}
upstreams: [{name: crm, url: "https://crm.example.com/mcp"}]`,
	"docs/operations.md#Sockets": `
listen: unix:/run/gatehouse/mcp.sock
admin: {listen: "unix:/run/gatehouse/admin.sock", api: {loopback: viewer}}
upstreams: [{name: crm, url: "https://crm.example.com/mcp"}]`,
	"docs/operations.md#Under systemd": `
listen: systemd:mcp
admin: {listen: "systemd:admin"}
upstreams: [{name: crm, url: "https://crm.example.com/mcp"}]`,
}

// secret is a key for everything.
const secret = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

// reader is a reader of a page, with a directory, a home and an environment of their own. The hosts of the page are
// behind a proxy, which leads to one server for all of them.
type reader struct {
	t       *testing.T
	dir     string
	env     []string
	places  *strings.Replacer          // from addresses of pages to those of this test
	gateway http.Handler               // mcp.example.com, nil if that is another server
	issuers map[string]*mcptest.Issuer // by host
	servers *mcptest.Server            // all MCP servers with a URL
}

// newReader makes a reader with addresses of its own.
func newReader(t *testing.T, g *guide) *reader {
	t.Helper()
	r := &reader{t: t, dir: t.TempDir(), issuers: map[string]*mcptest.Issuer{}}
	r.servers = mcptest.NewServer(wire.NewestStateful())
	t.Cleanup(r.servers.Close)
	r.servers.Tools("search", "export", "drop_table", "pay", "update", "get_customer", "issue_read", "issue_write",
		"merge_pull_request")
	r.servers.On("tools/call", func(c *mcptest.Call) { c.Text("done") })
	r.settle(g)
	r.write(g)
	return r
}

// settle gives the addresses and hosts of a page places on this machine.
func (r *reader) settle(g *guide) {
	free := func() (address, port string) {
		address = mcptest.LoopbackAddress(r.t)
		return address, address[strings.LastIndex(address, ":"):]
	}
	gateway, port := free()
	_, admin := free()
	_, link := free()
	if g.config != "" {
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: gateway})
		proxy.ErrorLog = log.New(io.Discard, "", 0)
		r.gateway = proxy
	}
	hosts := map[string]bool{"mcp.example.com": true, "login.example.com": true, "crm.example.com": true}
	for _, m := range regexp.MustCompile(`https://([\w.-]+)`).FindAllStringSubmatch(g.text(), -1) {
		hosts[m[1]] = true
	}
	authority := mcptest.NewAuthority(r.t)
	names := slices.Sorted(maps.Keys(hosts))
	certFile, keyFile := authority.Issue(r.t, "gateway", time.Hour, names...)
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		r.t.Fatal(err)
	}
	world := httptest.NewUnstartedServer(r)
	world.Config.ErrorLog = log.New(io.Discard, "", 0)
	world.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	world.StartTLS()
	r.t.Cleanup(world.Close)
	tunnels := mcptest.NewForwardProxy(r.t, false)
	for host := range hosts {
		tunnels.Lead(host+":443", world.Listener.Addr().String())
		tunnels.Lead(host+":9443", world.Listener.Addr().String())
	}
	redis := ""
	if strings.Contains(g.config, "redis.example.com") {
		s := redistest.Start(r.t)
		redistest.AddUser(r.t, "../../docs/configuration.md", s)
		redis = s.URL() + "/0"
	}
	wiki := mcptest.NewAccounts(r.servers)
	r.t.Cleanup(wiki.Close)
	near := strings.Replace(world.Listener.Addr().String(), "127.0.0.1", "localhost", 1)
	r.places = strings.NewReplacer(
		"0.0.0.0:443", gateway, "localhost:443", "localhost"+port, "https://localhost/", "https://localhost"+port+"/",
		":8080", port, ":8443", port, ":9090", admin, ":8082", link, "0.0.0.0", "127.0.0.1", "10.0.0.11", "127.0.0.1",
		"rediss://redis.example.com:6379/0", redis, "https://wiki.example.com/mcp", wiki.URL,
		"proxy.example.com:3128", tunnels.Listener.Addr().String(), // the next two are reached without it
		"login.corp.example.com", near, "notes.corp.example.com", near,
		`certificate of "crm.internal"`, fmt.Sprintf("certificate of %q", names[0]),
		"CN=Example Corp CA", pair.Leaf.Issuer.String(), "bin/gatehouse", "gatehouse")
	const endpoint = "https://mcp.example.com/mcp"
	r.issuer("https://login.example.com").LetSignIn(map[string]any{"groups": []string{"sales"}, "aud": endpoint})
	r.env = []string{
		"HOME=" + r.path("home"), "OUT=" + r.path("out"), "PATH=" + r.path("bin") + ":" + os.Getenv("PATH"),
		"HTTPS_PROXY=" + tunnels.URL, "https_proxy=" + tunnels.URL,
		"SSL_CERT_FILE=" + r.path("ca.pem"), "CURL_CA_BUNDLE=" + r.path("ca.pem"),
		"PORT=" + port[1:], "ADMIN_PORT=" + admin[1:], "ALICE=" + r.token("alice", "sales", endpoint),
		"TOKEN=" + r.token("boss", "managers", endpoint),
		"CLIPBOARD=" + r.token("alice", "sales", "https://other.example.com"),
		"SECRET=" + secret, "PROXY_PASSWORD=secret", "REDIS_PASSWORD=" + redistest.Password,
		"GORACE=atexit_sleep_ms=0", // else each command takes a second to end, with the race detector
	}
	for from, names := range map[string][]string{
		authority.File(r.t): {"ca.pem", "etc/gatehouse/company-ca.pem"},
		certFile:            {"client.pem", "etc/gatehouse/mcp.pem"},
		keyFile:             {"client.key", "etc/gatehouse/mcp.key"},
	} {
		for _, name := range names {
			r.copy(from, name)
		}
	}
}

// write writes the files that pages name.
func (r *reader) write(g *guide) {
	const installed = "mcp-server-filesystem"
	for _, name := range []string{"bin/npx", "bin/" + installed, "opt/mcp/node_modules/.bin/" + installed} {
		r.copy("testdata/docs/server.sh", name)
	}
	r.copy("../../deploy/env.example", "deploy/env.example")
	const servers = `{"mcpServers":{"crm":{"url":"https://crm.example.com/mcp"},` +
		`"files":{"command":"npx","args":["-y","@modelcontextprotocol/server-filesystem","."]}}}`
	config := r.here(g.config)
	for name, text := range map[string]string{
		"home/.cursor/mcp.json": servers, "team.mcp.json": servers, "audit.key": secret,
		"token.txt": r.token("alice", "sales", "https://mcp.example.com/mcp"), "new.yaml": config, "gatehouse.yaml": config,
		"gatehouse.lock": `{"version":1,"upstreams":{}}`,
		"srv/docs/a":     "", "srv/handbook/a": "", "run/gatehouse/a": "", "var/log/gatehouse/a": "", "tmp/a": "",
	} {
		none := name == "gatehouse.yaml" && config == "" || name == "gatehouse.lock" && g.runs("gatehouse lock")
		if !none {
			r.file(name, text)
		}
	}
	var parsed struct {
		Auth struct{ Issuers []struct{ URL string } }
	}
	err := yaml.Unmarshal([]byte(config), &parsed)
	if err == nil {
		err = os.Symlink(r.path("var/log/gatehouse/audit.jsonl"), r.path("audit.jsonl"))
	}
	if err != nil {
		r.t.Fatal(err)
	}
	for _, issuer := range parsed.Auth.Issuers {
		r.issuer(issuer.URL)
	}
	if g.page == "docs/replay.md" {
		archive, err := txtar.ParseFile("testdata/replay.txt")
		if err != nil {
			r.t.Fatal(err)
		}
		hour := time.Now().UTC().Add(-time.Hour).Format("2006-01-02T15:")
		for _, f := range archive.Files {
			name := strings.Replace(f.Name, "old.yaml", "gatehouse.yaml", 1)
			r.file(name, strings.ReplaceAll(string(f.Data), "2026-11-20T08:", hour))
		}
	}
}

func (r *reader) path(name string) string { return filepath.Join(r.dir, name) }

func (r *reader) file(name, text string) {
	r.t.Helper()
	err := os.MkdirAll(filepath.Dir(r.path(name)), 0o700)
	if err == nil {
		err = os.WriteFile(r.path(name), []byte(text), 0o700)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *reader) copy(from, to string) {
	r.t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		r.t.Fatal(err)
	}
	r.file(to, string(text))
}

// issuer returns the issuer at a URL.
func (r *reader) issuer(at string) *mcptest.Issuer {
	u, err := url.Parse(at)
	if err != nil {
		r.t.Fatal(err)
	}
	if r.issuers[u.Host] == nil {
		i := mcptest.NewIssuer(mcptest.IssuerOptions{URL: at})
		i.SetMetadata("authorization_endpoint", at+"/authorize")
		i.SetMetadata("token_endpoint", at+"/token")
		r.issuers[u.Host] = i
	}
	return r.issuers[u.Host]
}

func (r *reader) token(user, group, audience string) string {
	return r.issuer("https://login.example.com").Token(map[string]any{"sub": user, "groups": []string{group},
		"aud": audience, "scope": "mcp"})
}

// ServeHTTP is all hosts of the page.
func (r *reader) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	issuer := r.issuers[q.Host]
	switch {
	case q.Host == "mcp.example.com" && r.gateway != nil:
		r.gateway.ServeHTTP(w, q)
	case issuer != nil && q.URL.Path != "/mcp":
		issuer.ServeHTTP(w, q)
	case q.Host == "raw.githubusercontent.com":
		http.ServeFile(w, q, "../.."+strings.TrimPrefix(q.URL.Path, "/gatehouse-mcp/gatehouse/main"))
	case strings.HasSuffix(q.URL.Path, "/token") && q.PostFormValue("grant_type") == "client_credentials":
		_, _ = fmt.Fprintf(w, `{"access_token":%q}`, r.token("script", "scripts", q.PostFormValue("audience")))
	default:
		r.servers.ServeHTTP(w, q)
	}
}

var absolute = regexp.MustCompile(`(^|[\s"'=:\[,{(])(/(?:etc|opt|srv|var|run|tmp)\b)`)

// here returns a text of a page with the places of this test.
func (r *reader) here(text string) string {
	return r.places.Replace(absolute.ReplaceAllString(text, "${1}"+r.dir+"${2}"))
}
