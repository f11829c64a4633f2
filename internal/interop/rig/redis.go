package rig

import (
	"context"
	"errors"
	"net"
	"os/exec"
)

// StartRedis runs a Redis or Valkey that saves nothing to disk, and returns when it accepts
// connections.
func StartRedis(ctx context.Context, address string) (*Process, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		program, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		p, err := Start(exec.Command(program, "--port", port, "--bind", host, "--save", "", "--appendonly", "no"))
		if err != nil {
			return nil, err
		}
		if err := p.WaitListening(ctx, address); err != nil {
			return nil, errors.Join(err, p.Stop())
		}
		return p, nil
	}
	return nil, errors.New("neither redis-server nor valkey-server is in PATH: run \"make redis\"")
}
