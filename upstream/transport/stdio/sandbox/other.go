//go:build !linux || (!amd64 && !arm64)

package sandbox

import (
	"errors"
	"os/exec"
)

// Box is the box of one process; there are none on this system.
type Box struct{}

// Enclose refuses.
func Enclose(*exec.Cmd, Config) (*Box, error) {
	return nil, errors.New("there is no sandbox on this system")
}

// Started does nothing.
func (*Box) Started() error { return nil }

// Close does nothing.
func (*Box) Close() {}

// Main returns: no process of this system is a launcher.
func Main() {}
