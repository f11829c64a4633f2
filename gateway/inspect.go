package gateway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/trial"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
)

// Inspector returns a function that connects to the upstreams of a configuration and serves no
// clients. Warnings, such as the last output of a program that ended, go to log.
func Inspector(version string, log *slog.Logger) trial.Inspect {
	return func(ctx context.Context, cfg config.Config, collect func(string, pin.Definition),
		look func(trial.Seen) error) error {
		with, err := inMemory(version, log)
		if err != nil {
			return err
		}
		with.collect, with.listed = collect, slog.New(slog.DiscardHandler) // reports say it
		g, err := newGraph(cfg.WithDefaults(), with, nil)
		if err != nil {
			return err
		}
		g.watch(nil)
		g.catalog.WaitFirst(ctx) // an upstream that has not answered by then is reported as such
		err = look(g.seen())

		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return errors.Join(err, g.stop(closing), closeAll(closing, g.members))
	}
}

// Buildable returns why no gateway can be made of a valid configuration, whatever it connects to.
func Buildable(cfg config.Config) error {
	log := slog.New(slog.DiscardHandler)
	with := newShared("", log, newMeters("", false))
	if err := with.complete(cfg.Vault, vault.Deps{Log: log}); err != nil {
		return err
	}
	defer with.vault.Close()
	g, err := newGraph(cfg.WithDefaults(), with, nil)
	if err != nil {
		return err
	}
	g.guardrails.Close()
	g.drop(nil)
	return nil
}

func (g *graph) seen() trial.Seen {
	s := trial.Seen{Config: g.cfg, Surface: g.surface(), Targets: g.catalog.Targets(), Kept: g.catalog.Kept,
		Described: g.described, Lists: g.pipe.Lists}
	for i, view := range g.catalog.Status() { // in the order of the members
		m := g.members[i]
		seen := trial.Server{Config: m.cfg, Status: m.Status(), Listed: view}
		if m.transport != nil {
			seen.Certificate, seen.Proxy = m.transport.Peer()
		}
		s.Servers = append(s.Servers, seen)
	}
	return s
}
