package rig

import (
	"cmp"
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
	Listen   string   // its loopback address; "" takes a free one
	Auth     string   // the section auth of its config, as a flow mapping; "" is mode none
	Sections string   // of the config: upstreams and any others but listen and auth
	Token    string   // what WaitTools shows it; needed where auth is
	Log      *os.File // takes its log; nil keeps the end of it for Log
	Env      []string // "name=value", beside this process's own
}

// Gateway is a running gatehouse.
type Gateway struct {
	*Process
	URL   string // of its MCP endpoint
	token string
}

// StartGateway runs a gateway. It returns as soon as the gateway takes connections;
// its upstreams may still be on their way.
func StartGateway(ctx context.Context, cfg GatewayConfig) (Gateway, error) {
	addr, section := cfg.Listen, cmp.Or(cfg.Auth, "{mode: none}")
	if addr == "" {
		var err error
		if addr, err = FreeAddress(); err != nil {
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
	return Gateway{Process: p, URL: EndpointAt(addr), token: cfg.Token}, nil
}

// EndpointAt is the URL of the MCP endpoint of a gateway that listens at an address.
func EndpointAt(addr string) string { return "http://" + addr + "/mcp" }
