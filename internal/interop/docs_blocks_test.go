//go:build interop

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// block returns the block of a page of docs/ in which a text stands.
func (c *chart) block(t *testing.T, page, within string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "../../../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```\\w*\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(m[1], within) {
			return m[1]
		}
	}
	t.Fatalf("%s has no block with %q", page, within)
	return ""
}

// TestDocsBlocks tries what pages have for other programs, with these. TestDocsYAML and TestDocsCommands of
// cmd/gatehouse have the rest.
func TestDocsBlocks(t *testing.T) {
	c := newChart(t)
	write := func(t *testing.T, name, text string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	t.Run("helm", func(t *testing.T) {
		values := write(t, "my-values.yaml", c.block(t, "kubernetes.md", "# my-values.yaml"))
		line := strings.TrimSpace(c.block(t, "kubernetes.md", "helm upgrade --install"))
		args := strings.Fields(strings.Replace(line, "helm upgrade --install", "template --kube-version "+releases[0], 1))
		for i, arg := range args {
			switch arg {
			case "my-values.yaml":
				args[i] = values
			case "oci://ghcr.io/gatehouse-mcp/charts/gatehouse": // make release-check pulls the chart of a release
				args[i] = c.dir
			}
		}
		b, err := parseObjects(c.run(t, c.helm, args...))
		if err != nil {
			t.Fatal(err)
		}
		b.fits(t, c.python)
		if out, err := c.check(t, b); err != nil {
			t.Errorf("gatehouse check: %v\n%s", err, out)
		}
	})
	for _, within := range []string{"configMapGenerator:", "components/openshift"} {
		t.Run("kustomize "+within, func(t *testing.T) {
			dir := switchOn(t, c.kustomization, nil)
			file := filepath.Join(dir, "kustomization.yaml")
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// It stands in place of the section of its name.
			own := c.block(t, "kubernetes.md", within)
			section := regexp.MustCompile(`(?m)^` + own[:strings.Index(own, ":")] + `:\n(([ #].*)?\n)*`)
			if err := os.WriteFile(file, append(section.ReplaceAll(text, nil), own...), 0o600); err != nil {
				t.Fatal(err)
			}
			b, err := build(t.Context(), c.kustomize, dir)
			if err != nil {
				t.Fatal(err)
			}
			b.fits(t, c.python)
			if name := b.configuration(); within == "configMapGenerator:" && name != "gatehouse" {
				t.Errorf("the pods mount %v", name)
			}
			if route := b.objects["Route gatehouse"]; within != "configMapGenerator:" && route == nil {
				t.Error("there is no route")
			}
		})
	}
	t.Run("service", func(t *testing.T) {
		b, err := parseObjects([]byte(c.block(t, "discovery.md", "kind: Service")))
		if err != nil {
			t.Fatal(err)
		}
		b.fits(t, c.python)
	})
	t.Run("prometheus", func(t *testing.T) {
		checkout, err := rig.FindCheckout()
		if err != nil {
			t.Fatal(err)
		}
		promtool := debian(t, checkout, "promtool", "prometheus")
		rule := "groups: [{name: page, rules: [{record: page, expr: %q}]}]\n"
		for _, args := range [][]string{
			{"check", "config", write(t, "prometheus.yaml", c.block(t, "metrics.md", "scrape_configs:"))},
			{"check", "rules", write(t, "rules.yaml", fmt.Sprintf(rule, c.block(t, "metrics.md", "histogram_quantile(")))},
		} {
			if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
				t.Errorf("promtool %v: %v\n%s", args, err, out)
			}
		}
	})
}
