//go:build interop

package interop

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// clientAddress is that of the clients, so that it is not the balancer's.
const clientAddress = "127.0.0.2"

// balancer is a balancer in front of a gateway.
type balancer struct {
	config  string // from a page or a file, with addresses of this test
	command func(file string) *exec.Cmd
	ca      string // the authority of its certificate; its file may come later
	http2   bool   // it speaks HTTP/2 with clients
}

// block returns the block of docs/operations.md in a language that has a text.
func block(t *testing.T, language, has string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Behind a balancer")
	for _, found := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(section, -1) {
		if strings.Contains(found[1], has) {
			return found[1]
		}
	}
	t.Fatalf("docs/operations.md has no block in %s with %q", language, has)
	return ""
}

// with replaces parts of a configuration. Each has to be there.
func with(t *testing.T, config string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(config, pairs[i]) {
			t.Fatalf("%q is not in\n%s", pairs[i], config)
		}
		config = strings.ReplaceAll(config, pairs[i], pairs[i+1])
	}
	return config
}

// TestBalancers: clients of each era work through nginx, HAProxy and Caddy, as the pages have them be configured,
// also where these speak TLS with the gateway, or only pass on connections. Streams pass at once, and records have
// the address of the client.
func TestBalancers(t *testing.T) {
	a := mcptest.NewAuthority(t)
	cert, key := a.Issue(t, "balancer", time.Hour)
	both, dir := filepath.Join(t.TempDir(), "both.pem"), t.TempDir()
	var pem []byte
	for _, file := range []string{cert, key} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pem = append(pem, text...)
	}
	if err := os.WriteFile(both, pem, 0o600); err != nil {
		t.Fatal(err)
	}
	nginx := func(_, listen, to, _ string) balancer {
		config := with(t, block(t, "nginx", "proxy_pass"), "10.0.0.11:8080", to, "10.0.0.12:8080", to, "listen 443 ssl",
			"listen "+listen+" ssl", "/etc/nginx/mcp.example.com.pem", cert, "/etc/nginx/mcp.example.com.key", key)
		return balancer{fmt.Sprintf("daemon off; pid %[1]s/nginx.pid; error_log stderr; events {}\nhttp {\naccess_log off;"+
			" client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d;"+
			" scgi_temp_path %[1]s/e;\n%[2]s}\n", dir, config),
			func(file string) *exec.Cmd { return exec.Command("nginx", "-e", "stderr", "-c", file) }, a.File(t), false}
	}
	haproxy := func(has string) func(string, string, string, string) balancer {
		return func(_, listen, to, operators string) balancer {
			config := with(t, block(t, "haproxy", has), "bind :443", "bind "+listen, "/etc/haproxy/mcp.example.com.pem", both,
				"10.0.0.11:8080", to, "10.0.0.12:8080", to, "port 9090", "port "+strconv.Itoa(portOf(t, operators)))
			if has == "mode tcp" { // the page has the defaults above it
				config = "defaults\n    timeout connect 5s\n" + config
			}
			return balancer{config, func(file string) *exec.Cmd { return exec.Command("haproxy", "-db", "-f", file) }, a.File(t),
				has != "mode tcp"}
		}
	}
	caddy := func(dir, listen, to, operators string) balancer {
		text, err := os.ReadFile("../../deploy/compose/Caddyfile")
		if err != nil {
			t.Fatal(err)
		}
		config := with(t, string(text), "gatehouse-1:8080 gatehouse-2:8080 gatehouse-3:8080", to, "health_port 9090",
			"health_port "+strconv.Itoa(portOf(t, operators)))
		return balancer{"{\n\tskip_install_trust\n\tadmin off\n\tauto_https disable_redirects\n}\n" + config,
			func(file string) *exec.Cmd {
				cmd := exec.Command("caddy", "run", "--adapter", "caddyfile", "--config", file)
				cmd.Env = append(os.Environ(), "SITE=localhost:"+strconv.Itoa(portOf(t, listen)), "XDG_DATA_HOME="+dir,
					"XDG_CONFIG_HOME="+dir)
				return cmd
			}, filepath.Join(dir, "caddy/pki/authorities/local/root.crt"), true}
	}
	verified := func(of func(string, string, string, string) balancer, pairs ...string) func(string, string, string,
		string) balancer {
		return func(dir, listen, to, operators string) balancer {
			b := of(dir, listen, to, operators)
			b.config = with(t, b.config, pairs...)
			return b
		}
	}
	for name, tt := range map[string]struct {
		of             func(dir, listen, to, operators string) balancer
		tls, announced bool
	}{
		"nginx":                    {of: nginx},
		"HAProxy":                  {of: haproxy("option forwardfor")},
		"Caddy":                    {of: caddy},
		"HAProxy, PROXY version 2": {of: haproxy("mode tcp"), announced: true},
		"HAProxy, PROXY version 1": {of: verified(haproxy("mode tcp"), "send-proxy-v2", "send-proxy"), announced: true},
		"nginx, TLS to the gateway": {of: verified(nginx, "proxy_pass http://gatehouse;",
			"proxy_pass https://gatehouse; proxy_ssl_verify on; proxy_ssl_name localhost; proxy_ssl_trusted_certificate "+
				a.File(t)+";"), tls: true},
		"HAProxy, TLS to the gateway": {of: verified(haproxy("option forwardfor"), "default-server check",
			"default-server no-check-ssl ssl verify required verifyhost localhost ca-file "+a.File(t)+" check"), tls: true},
	} {
		t.Run(name, func(t *testing.T) {
			listen, to, operators := mcptest.LoopbackAddress(t), mcptest.LoopbackAddress(t), mcptest.LoopbackAddress(t)
			dir := t.TempDir()
			records := filepath.Join(dir, "records")
			cfg := rig.GatewayConfig{Listen: to, Sections: fmt.Sprintf("http: {keep_alive: 1s, allowed_hosts: [localhost]}\n"+
				"connections: {proxies: [127.0.0.1], proxy_protocol: %t}\nadmin: {listen: %s}\naudit: {sinks: [{type: file, path: %q}]}\n",
				tt.announced, operators, records)}
			if tt.tls {
				cfg.Scheme = "https"
				cfg.Sections += fmt.Sprintf("tls: {cert_file: %s, key_file: %s}\n", cert, key)
			}
			g := gatewayWith(t, cfg)
			b := tt.of(dir, listen, to, operators)
			file := filepath.Join(dir, "config")
			if err := os.WriteFile(file, []byte(b.config), 0o600); err != nil {
				t.Fatal(err)
			}
			p := startProcess(t, listen, b.command(file))
			client := clientOf(t, b)
			url := "https://localhost:" + strconv.Itoa(portOf(t, listen)) + "/mcp"
			for _, revision := range []string{stateful, stateless} {
				b.call(t, p, client, url, revision)
			}
			if err := g.Stop(); err != nil { // all records are written then
				t.Fatal(err)
			}
			text, err := os.ReadFile(records)
			if err != nil {
				t.Fatal(err)
			}
			from := map[string]int{}
			for line := range strings.Lines(string(text)) {
				var one struct {
					Method        string
					ClientAddress string `json:"client_address"`
				}
				if err := json.Unmarshal([]byte(line), &one); err != nil {
					t.Fatal(err)
				}
				if one.Method == "tools/call" {
					from[one.ClientAddress]++
				}
			}
			if len(from) != 1 || from[clientAddress] != 2 {
				t.Errorf("calls by addresses of clients: %v", from)
			}
		})
	}
}

// clientOf returns a client that trusts a balancer, and comes from an address of its own.
func clientOf(t *testing.T, b balancer) *http.Client {
	t.Helper()
	text, err := os.ReadFile(b.ca)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatalf("the authority: %v", err)
	}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(clientAddress)}}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// call connects with a revision and calls a tool. With a session, it also waits for what its stream sends meanwhile.
func (b balancer) call(t *testing.T, p *rig.Process, client *http.Client, url, revision string) {
	t.Helper()
	var session *mcp.ClientSession
	err := p.WaitFor(t.Context(), func(context.Context) (err error) { // HAProxy has to have checked the gateway
		session, err = mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(t.Context(),
			&mcp.StreamableClientTransport{Endpoint: url, HTTPClient: client, DisableStandaloneSSE: true},
			&mcp.ClientSessionOptions{ProtocolVersion: revision})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if got := session.InitializeResult().ProtocolVersion; got != revision {
		t.Errorf("revision %s, want %s", got, revision)
	}
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "demo__search",
		Arguments: map[string]any{"query": "policy"}})
	if err != nil || result.IsError {
		t.Errorf("%+v, error %v", result, err)
	}
	if revision != stateful {
		return
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Session-Id", session.ID())
	r.Header.Set("Mcp-Protocol-Version", revision)
	begun := time.Now()
	stream, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if (stream.ProtoMajor == 2) != b.http2 {
		t.Errorf("%s", stream.Proto)
	}
	// The gateway sends something each second, far less than any buffer holds.
	lines := bufio.NewScanner(stream.Body)
	for n := 0; n < 3 && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), ":") {
			n++
		}
	}
	if took := time.Since(begun); lines.Err() != nil || took > 20*time.Second {
		t.Errorf("the stream: after %s, error %v", took, lines.Err())
	}
}

// TestOpenSSL: the gateway takes TLS 1.2 and 1.3 as OpenSSL speaks them, and nothing older.
func TestOpenSSL(t *testing.T) {
	a := mcptest.NewAuthority(t)
	cert, key := a.Issue(t, "server", time.Hour)
	listen := mcptest.LoopbackAddress(t)
	gatewayWith(t, rig.GatewayConfig{Listen: listen, Scheme: "https",
		Sections: fmt.Sprintf("tls: {cert_file: %s, key_file: %s}\n", cert, key)})
	for version, want := range map[string]string{"-tls1_2": "Verification: OK", "-tls1_3": "Verification: OK",
		"-tls1_1": "protocol version"} {
		cmd := exec.CommandContext(t.Context(), "openssl", "s_client", "-connect", listen, "-servername", "localhost",
			"-CAfile", a.File(t), "-brief", "-alpn", "h2", version, "-cipher", "DEFAULT@SECLEVEL=0")
		text, _ := cmd.CombinedOutput() // it fails with an old version
		if !strings.Contains(string(text), want) {
			t.Errorf("%s: %s", version, text)
		}
	}
}
