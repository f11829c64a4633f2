package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// GatewayConfig says how a gateway is started.
type GatewayConfig struct {
	Binary   string   // of gatehouse
	Dir      string   // an existing folder that its config file is written to
	Sections string   // of the config: upstreams and any others but listen and auth
	Log      *os.File // takes its log; nil keeps the end of it for Log
}

// Gateway is a running gatehouse.
type Gateway struct {
	*Process
	URL string // of its MCP endpoint
}

// StartGateway runs a gateway on a free loopback address. It returns as soon as the
// gateway takes connections; its upstreams may still be on their way.
func StartGateway(ctx context.Context, cfg GatewayConfig) (Gateway, error) {
	addr, err := FreeAddress()
	if err != nil {
		return Gateway{}, err
	}
	config := fmt.Sprintf("listen: %s\nauth: {mode: none}\n%s", addr, cfg.Sections)
	file := filepath.Join(cfg.Dir, "gatehouse.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return Gateway{}, err
	}
	cmd := exec.Command(cfg.Binary, "serve", "--config", file)
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
	return Gateway{Process: p, URL: "http://" + addr + "/mcp"}, nil
}
