//go:build interop

package interop

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// chart is deploy/helm/gatehouse, and what tries it.
type chart struct {
	dir                                  string
	helm, unittest, kustomize, gatehouse string // programs
	python                               string // with kubernetes_validate
	kustomization                        string // deploy/kubernetes
}

// equal are the sets of values that say what components of deploy/kubernetes say.
var equal = map[string][]string{
	"minimal":       {},
	"ingress-nginx": {"ingress-nginx", "affinity-nginx", "monitoring"},
	"gateway-api":   {"gateway-api", "affinity-istio", "autoscaling", "autoscaling-streams", "monitoring"},
	"openshift":     {"openshift", "route", "discovery", "monitoring"},
}

// TestHelm renders the chart with each set of values in its folder ci, and tries the outcome.
func TestHelm(t *testing.T) {
	c := newChart(t)
	files, err := filepath.Glob(filepath.Join(c.dir, "ci", "*-values.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("sets of values are %q, %v", files, err)
	}
	var sets []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		sets = append(sets, name)
		t.Run(name, func(t *testing.T) {
			c.run(t, c.helm, "lint", "--strict", "--kube-version", releases[0], "-f", file, c.dir)
			b := c.template(t, c.dir, file)
			b.fits(t, c.python)
			b.restricted(t)
			if out, err := c.check(t, b); err != nil {
				t.Errorf("gatehouse check: %v\n%s", err, out)
			}
			if components, there := equal[name]; there {
				c.compare(t, b, components)
			}
		})
	}
	for name := range equal {
		if !slices.Contains(sets, name) {
			t.Errorf("there are no values %q", name)
		}
	}
	minimal := filepath.Join(c.dir, "ci", "minimal-values.yaml")
	t.Run("unittest", func(t *testing.T) { c.run(t, c.unittest, "--strict", c.dir) })
	t.Run("package", func(t *testing.T) {
		dir := t.TempDir()
		c.run(t, c.helm, "package", c.dir, "--destination", dir)
		packed, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
		if err != nil || len(packed) != 1 {
			t.Fatalf("packed are %q, %v", packed, err)
		}
		file := filepath.Join(c.dir, "ci", "monitoring-values.yaml")
		if diff := cmp.Diff(c.template(t, c.dir, file).objects, c.template(t, packed[0], file).objects); diff != "" {
			t.Errorf("the package renders other objects:\n%s", diff)
		}
	})
	t.Run("a changed configuration is a rollout", func(t *testing.T) {
		before := c.template(t, c.dir, minimal).configuration()
		if after := c.template(t, c.dir, minimal, "--set", "config.shutdown_delay=5s").configuration(); before == after {
			t.Errorf("both mount %v", after)
		}
		if same := c.template(t, c.dir, minimal, "--set", "replicaCount=5").configuration(); before != same {
			t.Errorf("with more replicas %v is mounted, and not %v", same, before)
		}
	})
	t.Run("mistakes", func(t *testing.T) {
		for set, want := range map[string]string{
			"config.sessions.stor=redis":              "additional properties 'stor' not allowed",
			"replicaCount=many":                       "got string, want integer",
			"config.public_url=":                      "config.public_url is missing",
			"config.sessions.store=memory":            "several replicas need config.sessions.store: redis",
			"config.admin.listen=unix:/run/gatehouse": "names no port",
			"httpRoute.enabled=true":                  "httpRoute.parentRefs is missing",
		} {
			cmd := exec.CommandContext(t.Context(), c.helm, "template", "gatehouse", c.dir,
				"--kube-version", releases[0], "-f", minimal, "--set", set)
			if out, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte(want)) {
				t.Errorf("%s: %v\n%s", set, err, tail(out))
			}
		}
		wrong := c.template(t, c.dir, minimal, "--set", "config.policy.default=perhaps")
		if out, err := c.check(t, wrong); err == nil {
			t.Errorf("the hook lets a mistake through: %s", out)
		}
	})
}

func newChart(t *testing.T) *chart {
	t.Helper()
	checkout, err := rig.FindCheckout()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installLimit)
	defer cancel()
	c := &chart{dir: checkout.Path("deploy", "helm", "gatehouse"), kustomization: checkout.Path("deploy", "kubernetes")}
	module := checkout.Path("internal", "interop", "helm")
	for program, build := range map[*string]func() (string, error){
		&c.helm: func() (string, error) { return checkout.BuildOther(ctx, module, "helm.sh/helm/v3/cmd/helm") },
		&c.unittest: func() (string, error) {
			return checkout.BuildOther(ctx, module, "github.com/helm-unittest/helm-unittest/cmd/helm-unittest")
		},
		&c.kustomize: func() (string, error) {
			return checkout.BuildOther(ctx, checkout.Path("internal", "interop", "kustomize"), "tool")
		},
		&c.gatehouse: func() (string, error) { return checkout.Build(ctx, "./cmd/gatehouse") },
		&c.python: func() (string, error) {
			return checkout.InstallPython(ctx, "kubernetes",
				checkout.Path("internal", "interop", "python", "requirements-kubernetes.txt"))
		},
	} {
		if *program, err = build(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// run expects a program to succeed, and returns what it prints.
func (c *chart) run(t *testing.T, program string, args ...string) []byte {
	t.Helper()
	var complaint bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", filepath.Base(program), args, err, tail(out), &complaint)
	}
	return out
}

func tail(out []byte) []byte { return out[max(0, len(out)-4<<10):] }

// template renders a chart as the release gatehouse in the namespace gatehouse.
func (c *chart) template(t *testing.T, dir, values string, args ...string) built {
	t.Helper()
	b, err := parseObjects(c.run(t, c.helm, append([]string{"template", "gatehouse", dir, "--namespace", "gatehouse",
		"--kube-version", releases[0], "-f", values}, args...)...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// config returns the configuration that the pods mount.
func (b built) config(t *testing.T) string {
	t.Helper()
	for name, m := range b.objects {
		if text, ok := m.at("data", "gatehouse.yaml").(string); ok && m.at("metadata", "annotations", "helm.sh/hook") == nil {
			if app := b.pods()[0]; app.at("volumes", 0, "configMap", "name") != m.at("metadata", "name") {
				t.Errorf("the pods do not mount %s", name)
			}
			return text
		}
	}
	t.Fatal("no ConfigMap has the configuration")
	return ""
}

// pods returns the specifications of all pods, first that of the gateway.
func (b built) pods() (all []manifest) {
	for _, name := range slices.Sorted(maps.Keys(b.objects)) {
		if spec, ok := b.objects[name].at("spec", "template", "spec").(map[string]any); ok {
			all = append(all, manifest(spec))
		}
	}
	return all
}

// check runs what the hook runs: the same arguments, on the configuration that the pods mount.
func (c *chart) check(t *testing.T, b built) ([]byte, error) {
	t.Helper()
	args := []string{"check", "--offline-secrets", "--config", "/etc/gatehouse/gatehouse.yaml"}
	for _, pod := range b.pods()[1:] {
		if hook := pod.at("containers", 0, "args"); fmt.Sprint(hook) != fmt.Sprint(args) {
			t.Errorf("the hook runs %v", hook)
		}
	}
	file := filepath.Join(t.TempDir(), "gatehouse.yaml")
	if err := os.WriteFile(file, []byte(b.config(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	args[len(args)-1] = file
	return exec.CommandContext(t.Context(), c.gatehouse, args...).CombinedOutput()
}

// restricted checks the Pod Security Standard "restricted", and a little more, for all containers.
func (b built) restricted(t *testing.T) {
	t.Helper()
	for _, pod := range b.pods() {
		if pod.at("securityContext", "runAsNonRoot") != true || pod.at("automountServiceAccountToken") != false ||
			pod.at("securityContext", "seccompProfile", "type") != "RuntimeDefault" {
			t.Errorf("the pod may more than it needs: %v", pod.at("securityContext"))
		}
		for _, kind := range []string{"containers", "initContainers"} {
			containers, _ := pod.at(kind).([]any)
			for i := range containers {
				at := func(path ...any) any { return pod.at(append([]any{kind, i}, path...)...) }
				if at("securityContext", "allowPrivilegeEscalation") != false ||
					at("securityContext", "readOnlyRootFilesystem") != true ||
					fmt.Sprint(at("securityContext", "capabilities", "drop")) != "[ALL]" ||
					at("resources", "limits", "memory") == nil {
					t.Errorf("%v may more than it needs: %v", at("name"), at("securityContext"))
				}
			}
		}
	}
}

// compare expects the objects that kustomize builds with these components, but for what Helm adds.
func (c *chart) compare(t *testing.T, b built, components []string) {
	t.Helper()
	dir := switchOn(t, c.kustomization, components)
	if slices.Contains(components, "discovery") { // the line that this component wants in the configuration
		file := filepath.Join(dir, "gatehouse.yaml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, "include: [/discovered/*.yaml]\n"...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k, err := build(t.Context(), c.kustomize, dir)
	if err != nil {
		t.Fatal(err)
	}
	delete(k.objects, "Namespace gatehouse") // that of the release
	if diff := cmp.Diff(k.plain(t), b.plain(t)); diff != "" {
		t.Errorf("kustomize (-) and Helm (+) differ:\n%s", diff)
	}
}

// plain returns the objects without hooks, the labels of a release and the hash of the configuration, and of the
// ConfigMap what it says.
func (b built) plain(t *testing.T) map[string]any {
	t.Helper()
	hashed := fmt.Sprint(b.configuration())
	objects := map[string]any{}
	for name, m := range b.objects {
		if m.at("metadata", "annotations", "helm.sh/hook") != nil {
			continue
		}
		if text, ok := m.at("data", "gatehouse.yaml").(string); ok {
			var parsed any
			if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
				t.Fatal(err)
			}
			m = manifest{"data": parsed, "immutable": m.at("immutable")}
		}
		objects[strings.ReplaceAll(name, hashed, "gatehouse")] = plain(map[string]any(m), hashed)
	}
	return objects
}

func plain(value any, hashed string) any {
	switch value := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, within := range value {
			switch key {
			case "helm.sh/chart", "helm.sh/resource-policy", "app.kubernetes.io/instance",
				"app.kubernetes.io/version", "app.kubernetes.io/managed-by":
				continue
			}
			if within = plain(within, hashed); within != nil {
				kept[key] = within
			}
		}
		if len(kept) == 0 && len(value) > 0 {
			return nil
		}
		return kept
	case []any:
		kept := make([]any, len(value))
		for i := range value {
			kept[i] = plain(value[i], hashed)
		}
		return kept
	case string:
		if value == hashed {
			return "gatehouse"
		}
	}
	return value
}
