package gateway

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
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

// guards returns how the upstreams of a graph are wrapped for the catalog.
func guards(cfg Config, with services) (func(catalog.Upstream, upstream.Config) catalog.Upstream, error) {
	if with.collect != nil {
		return func(u catalog.Upstream, _ upstream.Config) catalog.Upstream {
			return pinning.Collector{Server: u, Collect: with.collect}
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
		return pinning.New(u, mode, lock.Of(c.Name), with.notApproved)
	}, nil
}

// notApproved logs and records what is not approved.
func (l services) notApproved(f pinning.Finding) {
	what := "changed"
	if f.New {
		what = "new"
	}
	attrs := []slog.Attr{
		failure.NotApproved.Attr(), slog.String("upstream", f.Upstream), slog.String("what", string(f.Kind)),
		slog.String("name", f.Name), slog.String("change", what), slog.Bool("hidden", f.Blocked),
	}
	if len(f.Differ) > 0 {
		attrs = append(attrs, slog.String("differs", strings.Join(f.Differ, ",")))
	}
	if len(f.Hidden) > 0 {
		attrs = append(attrs, slog.String("deceives", strings.Join(f.Hidden, "; ")))
	}
	l.log.LogAttrs(context.Background(), slog.LevelWarn, "an upstream offers something that is not approved", attrs...)
	l.events.notApproved(f)
}

// notApproved records what is not approved.
func (e *events) notApproved(f pinning.Finding) {
	if !e.journal.Enabled() {
		return
	}
	r := &record.Record{
		Kind: record.KindPin, Event: "warned", Upstream: f.Upstream, List: string(f.Kind), Original: f.Name,
		Changed: f.Differ, Reason: strings.Join(f.Hidden, "; "),
	}
	if f.New {
		r.Added = []string{f.Name}
	}
	if f.Blocked {
		r.Event = "hidden"
	}
	e.journal.Put(r)
}
