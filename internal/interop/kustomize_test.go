//go:build interop

package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// releases are those of Kubernetes: the manifests have to fit their schemas.
var releases = []string{"1.35", "1.36", "1.37"}

// built are the objects that kustomize or Helm has built, by kind and name, and their text.
type built struct {
	objects map[string]manifest
	text    []byte
}

// manifest is an object of Kubernetes.
type manifest map[string]any

// at returns what stands below a path of keys and indices, or nil.
func (m manifest) at(path ...any) (value any) {
	value = map[string]any(m)
	for _, step := range path {
		switch step := step.(type) {
		case string:
			within, _ := value.(map[string]any)
			value = within[step]
		case int:
			within, _ := value.([]any)
			if step >= len(within) {
				return nil
			}
			value = within[step]
		}
	}
	return value
}

// TestKustomize builds deploy/kubernetes as its users do, with lines of kustomization.yaml switched on.
func TestKustomize(t *testing.T) {
	checkout, err := rig.FindCheckout()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installLimit)
	defer cancel()
	kustomize, err := checkout.BuildOther(ctx, checkout.Path("internal", "interop", "kustomize"), "tool")
	if err != nil {
		t.Fatal(err)
	}
	python, err := checkout.InstallPython(ctx, "kubernetes",
		checkout.Path("internal", "interop", "python", "requirements-kubernetes.txt"))
	if err != nil {
		t.Fatal(err)
	}
	source := checkout.Path("deploy", "kubernetes")
	tried := map[string]bool{}
	for _, on := range [][]string{
		{},
		{"gateway-api", "affinity-envoy-gateway", "autoscaling", "autoscaling-streams", "monitoring"},
		{"gateway-api", "affinity-istio", "autoscaling"},
		{"ingress-nginx", "affinity-nginx", "monitoring"},
		{"openshift", "route", "autoscaling", "discovery", "monitoring"},
		{"openshift", "route", "reencrypt"},
	} {
		for _, component := range on {
			tried[component] = true
		}
		t.Run(strings.Join(append([]string{"base"}, on...), "+"), func(t *testing.T) {
			b, err := build(ctx, kustomize, switchOn(t, source, on))
			if err != nil {
				t.Fatal(err)
			}
			b.fits(t, python)
			b.promises(t, on)
		})
	}
	dirs, err := os.ReadDir(filepath.Join(source, "components"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if !tried[dir.Name()] {
			t.Errorf("%s was not built", dir.Name())
		}
	}
	t.Run("a changed configuration is a rollout", func(t *testing.T) {
		dir := switchOn(t, source, nil)
		before, err := build(ctx, kustomize, dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "gatehouse.yaml"), []byte("listen: \":8081\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		after, err := build(ctx, kustomize, dir)
		if err != nil {
			t.Fatal(err)
		}
		if before.configuration() == after.configuration() {
			t.Errorf("both mount %v", after.configuration())
		}
	})
	t.Run("two restrictions of one port", func(t *testing.T) {
		if _, err := build(ctx, kustomize, switchOn(t, source, []string{"ingress-nginx", "route"})); err == nil {
			t.Error("the second silently replaces the first")
		}
	})
}

// switchOn returns a copy of deploy/kubernetes in which the lines of some components are on.
func switchOn(t *testing.T, source string, components []string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kubernetes")
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "kustomization.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range components {
		off := []byte("\n#  - components/" + c + "\n")
		if !bytes.Contains(text, off) {
			t.Fatalf("kustomization.yaml has no line for %s", c)
		}
		text = bytes.Replace(text, off, []byte("\n  - components/"+c+"\n"), 1)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func build(ctx context.Context, kustomize, dir string) (built, error) {
	var complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, kustomize, "build", dir)
	cmd.Stderr = &complaint
	text, err := cmd.Output()
	if err != nil {
		return built{}, fmt.Errorf("%w: %s", err, &complaint)
	}
	return parseObjects(text)
}

// parseObjects reads the objects of a stream of YAML documents.
func parseObjects(text []byte) (built, error) {
	b := built{objects: map[string]manifest{}, text: text}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var object map[string]any // and not a manifest, or all that is in it were one
		switch err := d.Decode(&object); {
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return built{}, err
		case object == nil: // a comment alone
			continue
		}
		m := manifest(object)
		b.objects[fmt.Sprintf("%v %v", m.at("kind"), m.at("metadata", "name"))] = m
	}
}

// fits expects the objects that Kubernetes itself knows to fit its schemas, without an unknown key.
func (b built) fits(t *testing.T, python string) {
	t.Helper()
	var known bytes.Buffer
	for _, m := range b.objects {
		group, _, _ := strings.Cut(fmt.Sprint(m.at("apiVersion")), "/")
		if strings.Contains(group, ".") && group != "networking.k8s.io" {
			continue // its schema comes with the program that reads it
		}
		text, err := yaml.Marshal(map[string]any(m))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&known, "---\n%s", text)
	}
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, known.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-m", "kubernetes_validate", "--strict", "--quiet"}
	for _, release := range releases {
		args = append(args, "-k", release)
	}
	if out, err := exec.CommandContext(t.Context(), python, append(args, file)...).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// configuration returns the name of the ConfigMap that the pods mount.
func (b built) configuration() any {
	return b.objects["Deployment gatehouse"].at("spec", "template", "spec", "volumes", 0, "configMap", "name")
}

// promises checks what docs/kubernetes.md says of the components.
func (b built) promises(t *testing.T, on []string) {
	t.Helper()
	app := b.objects["Deployment gatehouse"]
	config := fmt.Sprint(b.configuration())
	if !strings.HasPrefix(config, "gatehouse-") || b.objects["ConfigMap "+config] == nil {
		t.Errorf("the pods mount %s, which is not there", config)
	}
	for _, key := range []string{"runAsUser", "runAsGroup", "fsGroup"} {
		fixed := app.at("spec", "template", "spec", "securityContext", key) != nil
		if fixed == slices.Contains(on, "openshift") {
			t.Errorf("%s is set: %t", key, fixed)
		}
	}
	if fixed := app.at("spec", "replicas") != nil; fixed == slices.Contains(on, "autoscaling") {
		t.Errorf("the number of replicas is set: %t", fixed)
	}
	streams := b.objects["HorizontalPodAutoscaler gatehouse"].at("spec", "metrics", 1, "pods", "metric", "name")
	if (streams == "gatehouse_streams_open") != slices.Contains(on, "autoscaling-streams") {
		t.Errorf("it is scaled by %v", streams)
	}
	mode := app.at("spec", "template", "spec", "volumes", 3, "secret", "defaultMode")
	ends := b.objects["Route gatehouse"].at("spec", "tls", "termination")
	if (mode == 0o400 && ends == "reencrypt") != slices.Contains(on, "reencrypt") {
		t.Errorf("the mode of the key is %v, and TLS ends as %v", mode, ends)
	}
	from := b.objects["NetworkPolicy gatehouse"].at("spec", "ingress", 0, "from")
	if (from != nil) != (slices.Contains(on, "route") || slices.Contains(on, "ingress-nginx")) {
		t.Errorf("clients come from %v", from)
	}
	hash := b.objects["Ingress gatehouse"].at("metadata", "annotations", "nginx.org/lb-method")
	if (hash == "hash $by consistent") != slices.Contains(on, "affinity-nginx") {
		t.Errorf("nginx balances by %v", hash)
	}
	if bytes.Contains(b.text, []byte("GOMEMLIMIT")) || bytes.Contains(b.text, []byte("secretKeyRef")) {
		t.Error("the environment has a secret, or a limit of memory")
	}
	for name, m := range b.objects {
		if m.at("metadata", "namespace") != "gatehouse" && name != "Namespace gatehouse" &&
			!strings.HasPrefix(name, "ClusterRole") {
			t.Errorf("%s is in the namespace %v", name, m.at("metadata", "namespace"))
		}
	}
}
