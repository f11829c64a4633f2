//go:build interop

package interop

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestForwardProxies: an upstream and an issuer at https are reached through tinyproxy and Squid; a proxy that
// refuses is named.
func TestForwardProxies(t *testing.T) {
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{TLS: true})
	defer issuer.Close()
	server := mcp.NewServer(&mcp.Implementation{Name: "far", Version: "1"}, nil)
	hello := func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{}, nil, nil
	}
	mcp.AddTool(server, &mcp.Tool{Name: "hello"}, hello)
	far := httptest.NewTLSServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	defer far.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem") // both servers have the certificate of net/http/httptest
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: far.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	port := func(url string) string { return url[strings.LastIndex(url, ":")+1:] }
	ports := []string{port(far.URL), port(issuer.URL)}
	checkout, err := rig.FindCheckout()
	if err != nil {
		t.Fatal(err)
	}
	gatehouse, err := checkout.Build(t.Context(), "./cmd/gatehouse")
	if err != nil {
		t.Fatal(err)
	}
	tinyproxy := func(allowed []string) func(dir, listen string) (string, *exec.Cmd) {
		return func(dir, listen string) (string, *exec.Cmd) {
			config := fmt.Sprintf("Port %d\nListen 127.0.0.1\nMaxClients 50\nTimeout 60\nAllow 127.0.0.1\n", portOf(t, listen))
			for _, one := range allowed {
				config += "ConnectPort " + one + "\n"
			}
			return config, exec.Command("tinyproxy", "-d", "-c", filepath.Join(dir, "config"))
		}
	}
	squid := func(dir, listen string) (string, *exec.Cmd) {
		return fmt.Sprintf("http_port %[1]s\nacl SSL_ports port %[2]s\nacl CONNECT method CONNECT\n"+
				"http_access deny CONNECT !SSL_ports\nhttp_access allow localhost\nhttp_access deny all\npid_filename none\n"+
				"cache deny all\naccess_log none\ncache_log /dev/null\nlogfile_rotate 0\npinger_enable off\n"+
				"shutdown_lifetime 1 seconds\nvisible_hostname localhost\n", listen, strings.Join(ports, " ")),
			exec.Command("squid", "-N", "-n", fmt.Sprintf("test%d", portOf(t, listen)), "-f", filepath.Join(dir, "config"))
	}
	for name, tt := range map[string]struct {
		proxy func(dir, listen string) (string, *exec.Cmd)
		want  []string
	}{
		"tinyproxy": {tinyproxy(ports), []string{"far: up", "issuer " + issuer.URL + ": 1 keys"}},
		"Squid":     {squid, []string{"far: up", "issuer " + issuer.URL + ": 1 keys"}},
		"a port that is refused": {tinyproxy([]string{"1"}), []string{"far: down", "refused: 403",
			"issuer " + issuer.URL + ": cannot be used"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, listen := t.TempDir(), mcptest.LoopbackAddress(t)
			config, cmd := tt.proxy(dir, listen)
			if err := os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			startProcess(t, listen, cmd)
			file := filepath.Join(dir, "gatehouse.yaml")
			own := fmt.Sprintf("proxy: \"http://%s\", tls: {ca_file: %s}", listen, ca) // also for a loopback address
			text := fmt.Sprintf("public_url: https://gateway.example/mcp\nauth: {mode: oauth, issuers: [{url: %q, %s}]}\n"+
				"policy: {default: allow}\nupstreams: [{name: far, url: %q, %s}]\n", issuer.URL, own, far.URL, own)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), gatehouse, "check", "--connect", "--config", file).CombinedOutput()
			bad := strings.HasPrefix(tt.want[0], "far: down")
			if (err != nil) != bad || !bad && strings.Count(string(out), "  certificate of ") != 2 {
				t.Errorf("error %v, %s", err, out)
			}
			for _, want := range append(tt.want, "127.0.0.1:"+fmt.Sprint(portOf(t, listen))) {
				if !strings.Contains(string(out), want) {
					t.Errorf("%q is not in %s", want, out)
				}
			}
		})
	}
}
