package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// dearer is the largest allowed ratio of the CPU of today's gateway to that of another commit.
const dearer = 1.10

// sinceScenarios are those for which commits are compared.
var sinceScenarios = []string{"call-100B stateful c=32", "call-100B stateless c=32", "json-64KiB stateful c=4",
	"json-64KiB stateless c=4"}

// measureSince compares the gateway with that of another commit. It fails if the gateway is too much dearer
// twice. Without the commit in the checkout there is nothing to compare.
func measureSince(ctx context.Context, o options) (err error) {
	checkout, err := rig.FindCheckout()
	if err != nil {
		return err
	}
	o.against, err = checkout.BuildAt(ctx, o.since, "./cmd/gatehouse")
	if errors.Is(err, rig.ErrNoCommit) {
		fmt.Fprintf(os.Stderr, "bench: nothing was compared: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	r, err := setUp(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.tearDown()) }()
	r.beside = "against"
	r.targets = slices.DeleteFunc(r.targets, func(t target) bool { return !t.gateway })
	r.targets[0].most = dearer
	picked := slices.DeleteFunc(scenarios(), func(s scenario) bool { return !slices.Contains(sinceScenarios, s.name) })
	for range 2 {
		var results []result
		if results, err = r.runRounds(ctx, o, picked); err != nil {
			return err
		}
		if err = report(ctx, os.Stdout, o, r, results); err == nil {
			return nil
		}
		picked = nil
		for _, one := range results {
			if one.numbers(r.targets[0].name, r.beside).ratio > dearer {
				picked = append(picked, one.scenario)
			}
		}
	}
	return err
}
