//go:build interop

package interop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// debian returns the path of a program of a package of Debian.
func debian(t *testing.T, checkout rig.Checkout, program, pkg string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), installLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, checkout.Path("internal", "redistest", "debian.sh"), program, pkg)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestAlerts runs deploy/prometheus/alerts.test.yaml, which has a test of each alert.
func TestAlerts(t *testing.T) {
	checkout, err := rig.FindCheckout()
	if err != nil {
		t.Fatal(err)
	}
	promtool := debian(t, checkout, "promtool", "prometheus")
	dir := checkout.Path("deploy", "prometheus")
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts.test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	var rules struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	var tests struct {
		Tests []struct {
			Name    string
			Queries []struct {
				Samples []struct{ Labels string } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	parse(t, filepath.Join(dir, "alerts.yaml"), &rules)
	parse(t, filepath.Join(dir, "alerts.test.yaml"), &tests)
	var there, tested []string
	for _, r := range rules.Groups[0].Rules {
		there = append(there, r.Alert)
	}
	for _, c := range tests.Tests {
		tested = append(tested, c.Name)
		if q := c.Queries; len(q) != 2 || len(q[0].Samples) != 0 || len(q[1].Samples) != 1 ||
			q[1].Samples[0].Labels != `{alertname="`+c.Name+`"}` {
			t.Errorf("%s is not seen to be silent, and then to fire: %+v", c.Name, q)
		}
	}
	slices.Sort(there)
	slices.Sort(tested)
	if !slices.Equal(there, tested) {
		t.Errorf("there are the alerts %q, and tests of %q", there, tested)
	}
}

// parse reads a YAML file.
func parse(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}
