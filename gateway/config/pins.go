package config

import (
	"cmp"
	"fmt"

	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// PinMode returns the mode of an upstream.
func PinMode(c Config, u upstream.Config) string {
	return cmp.Or(u.Pinning.Mode, c.Pinning.Mode, pinning.Off)
}

// Pins reports whether the lock file is needed.
func Pins(c Config) bool {
	for _, u := range c.Upstreams {
		if Enabled(u) && PinMode(c, u) != pinning.Off {
			return true
		}
	}
	return false
}

// LockFile returns the path of the lock file.
func LockFile(c Config) string { return cmp.Or(c.Pinning.File, pinning.DefaultFile) }

// ReadLock reads the lock file.
func ReadLock(c Config) (pin.Lock, error) {
	text, _, _, err := strictyaml.SeeFile(LockFile(c), pin.MaxBytes)
	if err != nil {
		return nil, err
	}
	return pin.Read(text)
}

// NeededLock reads the lock file, if one is needed.
func NeededLock(c Config) (pin.Lock, error) {
	if !Pins(c) {
		return nil, nil
	}
	lock, err := ReadLock(c)
	if err != nil {
		return nil, fmt.Errorf("pinning.file: %s: %w; \"gatehouse lock\" writes it", c.Pinning.File, err)
	}
	return lock, nil
}

// CheckLock reads the lock file of a configuration, if it needs one.
func CheckLock(c Config) error {
	_, err := NeededLock(c)
	return err
}
