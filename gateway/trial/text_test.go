package trial

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestHints: what is probably not meant is told of servers that answer.
func TestHints(t *testing.T) {
	for _, tt := range []struct {
		state        catalog.State
		transport    string
		capabilities string
		want         string
	}{
		{catalog.StateUp, "streamable http", `{"resources":{}}`, noTools},
		{catalog.StateUp, "streamable http", `{"tools":null}`, noTools},
		{catalog.StateUp, "streamable http", `{"tools":{}}`, ""},
		{catalog.StateUp, "streamable http", ``, ""},
		{catalog.StateDown, "streamable http", `{}`, ""},
		{catalog.StateUp, upstream.TransportSkills, `{}`, noSkills},
	} {
		status := upstream.Status{Transport: tt.transport}
		if tt.capabilities != "" {
			status.Capabilities = mcp.Raw(tt.capabilities)
		}
		seen := Seen{Servers: []Server{{Status: status, Listed: catalog.UpstreamView{Name: "crm", State: tt.state}}}}
		if got := seen.reports()[0].Hint; got != tt.want {
			t.Errorf("%+v: got %q", tt, got)
		}
	}
}

// TestBlindlyReachesNoHostServices: who may not configure servers cannot have the gateway ask the
// services of its own host or cloud, unless that server is configured.
func TestBlindlyReachesNoHostServices(t *testing.T) {
	unseen := func(context.Context, config.Config, func(string, pin.Definition), func(Seen) error) error { return nil }
	none := func(string) (string, bool) { return "169.254.169.254", true }
	try := func(fields string, configured []upstream.Config) error {
		_, _, err := blindly(t.Context(), unseen, []byte("upstreams: [{name: a, allow_plaintext: true, "+fields+"}]\n"), "",
			configured, none)
		return err
	}
	for _, fields := range []string{
		"url: http://169.254.169.254/latest/meta-data", "url: 'https://[fd00:ec2::254]/'",
		"url: 'http://[::ffff:169.254.169.254]:8080/mcp'",
		"url: 'http://[fe80::1%25eth0]/'", "url: 'http://[64:ff9b::a9fe:a9fe]/'", "url: 'http://${env:HOST}/'",
		"url: https://crm.example.com/mcp, auth: {type: client_credentials, token_url: https://169.254.169.254/token, client_id: a, client_secret: '${env:S}'}",
	} {
		if bad, ok := errors.AsType[*config.Error](try(fields, nil)); !ok || len(bad.Problems) != 1 ||
			!strings.Contains(bad.Problems[0].Message, "services of the host") {
			t.Errorf("%s: %v", fields, bad)
		}
	}
	for fields, want := range map[string]string{
		"url: https://crm.example.com/mcp, proxy: http://169.254.169.254": "services of the host",
		"url: https://crm.example.com/mcp, tls: {ca_file: /etc/passwd}":   "to read a file needs admin.console.save",
	} {
		if bad, ok := errors.AsType[*config.Error](try(fields, nil)); !ok || !strings.Contains(bad.Error(), want) {
			t.Errorf("%s: %v", fields, bad)
		}
	}
	const known = "http://169.254.169.254/mcp"
	if err := try("url: "+known, []upstream.Config{{Name: "sidecar", URL: known}}); err != nil {
		t.Errorf("a server of the configuration: %v", err)
	}
	if err := try("url: "+known+"/other", []upstream.Config{{Name: "sidecar", URL: known}}); err == nil {
		t.Error("another URL at the address of a server of the configuration is tried")
	}
	if err := try("url: http://127.0.0.1:1/mcp", nil); err != nil {
		t.Errorf("any other address: %v", err)
	}
}
