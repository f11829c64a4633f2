package gateway

import (
	"cmp"
	"fmt"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// pinMode returns the mode of an upstream.
func pinMode(c Config, u upstream.Config) string {
	return cmp.Or(u.Pinning.Mode, c.Pinning.Mode, pinning.Off)
}

// pins reports whether the lock file is needed.
func pins(c Config) bool {
	for _, u := range c.Upstreams {
		if enabled(u) && pinMode(c, u) != pinning.Off {
			return true
		}
	}
	return false
}

// readLock reads the lock file.
func readLock(c Config) (pin.Lock, error) {
	text, _, _, err := strictyaml.SeeFile(cmp.Or(c.Pinning.File, pinning.DefaultFile), pin.MaxBytes)
	if err != nil {
		return nil, err
	}
	return pin.Read(text)
}

// neededLock reads the lock file, if one is needed.
func neededLock(c Config) (pin.Lock, error) {
	if !pins(c) {
		return nil, nil
	}
	lock, err := readLock(c)
	if err != nil {
		return nil, fmt.Errorf("pinning.file: %s: %w; \"gatehouse lock\" writes it", c.Pinning.File, err)
	}
	return lock, nil
}

// CheckLock reads the lock file of a configuration, if it needs one.
func CheckLock(c Config) error {
	_, err := neededLock(c)
	return err
}

// guards returns how upstreams are wrapped for the catalog. collect, if not nil, takes all
// definitions, and nothing is guarded; else found takes what is not approved.
func guards(cfg Config, collect func(string, pin.Definition), found func(pinning.Finding)) (func(catalog.Upstream, upstream.Config) catalog.Upstream, error) {
	if collect != nil {
		return func(u catalog.Upstream, _ upstream.Config) catalog.Upstream {
			return pinning.Collector{Server: u, Collect: collect}
		}, nil
	}
	lock, err := neededLock(cfg)
	if err != nil {
		return nil, err
	}
	return func(u catalog.Upstream, c upstream.Config) catalog.Upstream {
		mode := pinMode(cfg, c)
		if mode == pinning.Off {
			return u
		}
		return pinning.New(u, mode, lock.Of(c.Name), found)
	}, nil
}
