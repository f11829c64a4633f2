package rig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// GatewayConfig says how to start a gateway.
type GatewayConfig struct {
	Binary   string   // path of gatehouse
	Dir      string   // an existing folder for its config file
	Listen   string   // loopback address; "" for a free one
	Auth     string   // section auth of its config, as a flow mapping; "" for mode none
	Sections string   // further sections of its config: upstreams and any others but listen and auth
	Token    string   // token for WaitTools; needed with auth
	Log      *os.File // receives its log; nil keeps the end of the log for Log
	Env      []string // "name=value", in addition to this process's own
	Scheme   string   // of its URL, https if Sections have TLS; "" for http
}

// Gateway is a running gatehouse.
type Gateway struct {
	*Process
	URL   string // of its MCP endpoint
	token string
}

// StartGateway runs a gateway and returns as soon as it accepts connections. Its upstreams
// may not be ready yet.
func StartGateway(ctx context.Context, cfg GatewayConfig) (Gateway, error) {
	addr, section := cfg.Listen, cmp.Or(cfg.Auth, "{mode: none}")
	if addr == "" {
		var err error
		if addr, err = mcptest.FreeAddress("127.0.0.1"); err != nil {
			return Gateway{}, err
		}
	}
	config := fmt.Sprintf("listen: %s\nauth: %s\n%s", addr, section, cfg.Sections)
	file := filepath.Join(cfg.Dir, "gatehouse.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return Gateway{}, err
	}
	cmd := exec.Command(cfg.Binary, "serve", "--config", file)
	cmd.Env = append(os.Environ(), cfg.Env...)
	if cfg.Log != nil {
		cmd.Stdout, cmd.Stderr = cfg.Log, cfg.Log
	}
	p, err := Start(cmd)
	if err != nil {
		return Gateway{}, err
	}
	if err := p.WaitListening(ctx, addr); err != nil {
		return Gateway{}, errors.Join(fmt.Errorf("gateway: %w", err), p.Stop())
	}
	return Gateway{Process: p, URL: cmp.Or(cfg.Scheme, "http") + strings.TrimPrefix(EndpointAt(addr), "http"),
		token: cfg.Token}, nil
}

// EndpointAt returns the URL of the MCP endpoint of a gateway at an address.
func EndpointAt(addr string) string { return "http://" + addr + "/mcp" }
