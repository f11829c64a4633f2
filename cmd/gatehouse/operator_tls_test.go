package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestCommandsOverTLS: commands ask an admin listener with TLS that wants client certificates.
// They trust the certificate in the configuration, or --ca-file.
func TestCommandsOverTLS(t *testing.T) {
	a, other := mcptest.NewAuthority(t), mcptest.NewAuthority(t)
	cert, key := a.Issue(t, "server", time.Hour)
	clientCert, clientKey := a.Issue(t, "client", time.Hour)
	adminAddress := mcptest.LoopbackAddress(t)
	file := filepath.Join(filepath.Dir(cert), "gatehouse.yaml") // the paths start there
	text := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: %q, api: {loopback: viewer}, tls: {cert_file: server.pem, key_file: %q, client_ca_file: %q}}\n"+
		"upstreams: [{name: up, url: 'http://127.0.0.1:1/mcp'}]\n", adminAddress, key, a.File(t))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	startFrom(t, file)
	at := "https://" + adminAddress
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"by the configuration": {[]string{"--config", file, "--cert-file", clientCert, "--key-file", clientKey},
			"up is down"},
		"without a certificate": {[]string{"--config", file}, "certificate required"},
		"by its URL": {[]string{"--admin", at, "--ca-file", a.File(t), "--cert-file", clientCert,
			"--key-file", clientKey}, "up is down"},
		"of an unknown authority":  {[]string{"--admin", at}, "unknown authority"},
		"of another authority":     {[]string{"--config", file, "--ca-file", other.File(t)}, "unknown authority"},
		"a certificate, no key":    {[]string{"--config", file, "--cert-file", clientCert}, "one needs the other"},
		"an authority that is not": {[]string{"--config", file, "--ca-file", "/nonexistent.pem"}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, problems bytes.Buffer
			run(append([]string{"status"}, tt.args...), strings.NewReader(""), &out, &problems)
			if got := out.String() + problems.String(); !strings.Contains(got, tt.want) {
				t.Errorf("%s, want %q", got, tt.want)
			}
		})
	}
}
