package gateway

import (
	"bytes"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/diagnose"
	"github.com/gatehouse-mcp/gatehouse/gateway/doorway"
)

// The parts of Kubernetes objects that deploy/kubernetes uses.
type (
	labels   map[string]string
	selector struct {
		MatchLabels labels `yaml:"matchLabels"`
	}
	object[T any] struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct {
			Name                string
			Labels, Annotations labels
		}
		Spec T

		// of a role, and of who has one
		Rules []struct {
			Groups           []string `yaml:"apiGroups"`
			Resources, Verbs []string
		}
		Role     map[string]string `yaml:"roleRef"`
		Subjects []map[string]string
	}
	serviceAccount struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct {
			Name   string
			Labels labels
		}
		Token *bool `yaml:"automountServiceAccountToken"`
	}
	deployment struct {
		Replicas int
		Selector selector
		Strategy struct {
			Type          string
			RollingUpdate struct {
				MaxUnavailable int `yaml:"maxUnavailable"`
				MaxSurge       int `yaml:"maxSurge"`
			} `yaml:"rollingUpdate"`
		}
		MinReady int `yaml:"minReadySeconds"`
		Template struct {
			Metadata struct{ Labels, Annotations labels }
			Spec     pod
		}
	}
	pod struct {
		Account  string `yaml:"serviceAccountName"`
		Token    *bool  `yaml:"automountServiceAccountToken"`
		Links    *bool  `yaml:"enableServiceLinks"`
		Grace    int    `yaml:"terminationGracePeriodSeconds"`
		Security struct {
			NonRoot bool                  `yaml:"runAsNonRoot"`
			User    int                   `yaml:"runAsUser"`
			Group   int                   `yaml:"runAsGroup"`
			FSGroup int                   `yaml:"fsGroup"`
			Seccomp struct{ Type string } `yaml:"seccompProfile"`
		} `yaml:"securityContext"`
		Spread []struct {
			MaxSkew  int      `yaml:"maxSkew"`
			Key      string   `yaml:"topologyKey"`
			When     string   `yaml:"whenUnsatisfiable"`
			Selector selector `yaml:"labelSelector"`
			Keys     []string `yaml:"matchLabelKeys"`
		} `yaml:"topologySpreadConstraints"`
		Containers []container
		Volumes    []struct {
			Name      string
			ConfigMap struct{ Name string } `yaml:"configMap"`
			Secret    struct {
				Name string `yaml:"secretName"`
				Mode int    `yaml:"defaultMode"`
			}
			EmptyDir struct {
				Limit string `yaml:"sizeLimit"`
			} `yaml:"emptyDir"`
		}
	}
	container struct {
		Name, Image string
		Args        []string
		Env         []struct {
			Name, Value string
			From        struct {
				Field struct {
					Path string `yaml:"fieldPath"`
				} `yaml:"fieldRef"`
			} `yaml:"valueFrom"`
		}
		Ports []struct {
			Name string
			Port int `yaml:"containerPort"`
		}
		Startup   probe `yaml:"startupProbe"`
		Liveness  probe `yaml:"livenessProbe"`
		Readiness probe `yaml:"readinessProbe"`
		Resources struct{ Requests, Limits struct{ CPU, Memory string } }
		Security  struct {
			Escalation *bool                   `yaml:"allowPrivilegeEscalation"`
			ReadOnly   bool                    `yaml:"readOnlyRootFilesystem"`
			Caps       struct{ Drop []string } `yaml:"capabilities"`
		} `yaml:"securityContext"`
		Mounts []struct {
			Name     string
			Path     string `yaml:"mountPath"`
			ReadOnly bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	}
	probe struct {
		Get      struct{ Path, Port string } `yaml:"httpGet"`
		Period   int                         `yaml:"periodSeconds"`
		Timeout  int                         `yaml:"timeoutSeconds"`
		Failures int                         `yaml:"failureThreshold"`
	}
	service struct {
		Families string `yaml:"ipFamilyPolicy"`
		Selector labels
		Ports    []struct {
			Name   string
			Port   int
			Target string `yaml:"targetPort"`
		}
	}
	disruption struct {
		MaxUnavailable int    `yaml:"maxUnavailable"`
		Unhealthy      string `yaml:"unhealthyPodEvictionPolicy"`
		Selector       selector
	}
	network struct {
		Pods    selector `yaml:"podSelector"`
		Types   []string `yaml:"policyTypes"`
		Ingress []struct {
			From  []networkPeer
			Ports []networkPort
		}
		Egress []struct {
			To    []networkPeer
			Ports []networkPort
		}
	}
	// A networkPeer has no addresses, so that policies hold for IPv4 and IPv6.
	networkPeer struct {
		Namespaces selector `yaml:"namespaceSelector"`
		Pods       selector `yaml:"podSelector"`
	}
	networkPort   struct{ Port, Protocol string }
	kustomization struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Namespace  string
		Resources  []string
		Components []string
		Patches    []patch
		ConfigMaps []struct {
			Name    string
			Files   []string
			Options struct{ Immutable bool } // and nothing that leaves out the hash of the content
		} `yaml:"configMapGenerator"`
		Images []struct {
			Name    string
			NewName string `yaml:"newName"`
			NewTag  string `yaml:"newTag"`
		}
	}
)

const (
	kubernetesDir = "kubernetes/"
	baseDir       = kubernetesDir + "base/"
)

// TestDeployKubernetes: the manifests contain no unknown key, agree with each other and with
// the configuration, and keep to the restricted pod security profile.
func TestDeployKubernetes(t *testing.T) {
	deploySettings(t)
	t.Setenv("POD_IP", "fd00:10:244::7")
	k := strictly[kustomization](t, kubernetesDir+"kustomization.yaml")[0]
	base := strictly[kustomization](t, baseDir+"kustomization.yaml")[0]
	account := strictly[serviceAccount](t, baseDir+"serviceaccount.yaml")[0]
	app := strictly[object[deployment]](t, baseDir+"deployment.yaml")[0]
	svc := strictly[object[service]](t, baseDir+"service.yaml")[0]
	pdb := strictly[object[disruption]](t, baseDir+"disruption.yaml")[0]
	policy := strictly[object[network]](t, baseDir+"network.yaml")[0]
	ns := strictly[object[struct{}]](t, kubernetesDir+"namespace.yaml")[0]
	if !slices.Equal(k.Resources, []string{"namespace.yaml", "base"}) || len(k.Components) > 0 {
		t.Errorf("applied are %q and %q", k.Resources, k.Components)
	}
	if want := []string{"serviceaccount.yaml", "deployment.yaml", "service.yaml", "disruption.yaml",
		"network.yaml"}; !slices.Equal(base.Resources, want) {
		t.Errorf("the base has %q, looked at are %q", base.Resources, want)
	}
	if ns.Metadata.Name != k.Namespace || ns.Metadata.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("the namespace is %+v", ns.Metadata)
	}
	spec, pods := app.Spec, app.Spec.Template.Spec
	selected := map[string]labels{
		"deployment": spec.Selector.MatchLabels, "service": svc.Spec.Selector, "disruption": pdb.Spec.Selector.MatchLabels,
		"network": policy.Spec.Pods.MatchLabels,
	}
	for _, s := range pods.Spread {
		selected[s.Key] = s.Selector.MatchLabels
		if !slices.Equal(s.Keys, []string{"pod-template-hash"}) {
			t.Errorf("%s: a rollout counts the pods that it replaces: %q", s.Key, s.Keys)
		}
	}
	for what, selected := range selected {
		if !maps.Equal(selected, spec.Template.Metadata.Labels) {
			t.Errorf("%s is about %v, the pods are %v", what, selected, spec.Template.Metadata.Labels)
		}
	}
	if spec.Replicas != 3 || spec.Strategy.RollingUpdate.MaxUnavailable != 0 || spec.MinReady == 0 ||
		pdb.Spec.MaxUnavailable != 1 || pdb.Spec.Unhealthy != "AlwaysAllow" {
		t.Errorf("%d replicas, ready for %d s, %+v, %+v", spec.Replicas, spec.MinReady, spec.Strategy, pdb.Spec)
	}
	if account.Metadata.Name != pods.Account || account.Token == nil || *account.Token {
		t.Errorf("the pods are %q, with the account %+v", pods.Account, account)
	}
	c := pods.Containers[0]
	if c.Image != k.Images[0].Name {
		t.Errorf("the image is %s, and %s is replaced", c.Image, k.Images[0].Name)
	}
	checkPorts(t, mounted(t, k, pods).check(t), c, svc.Spec, policy.Spec)
	checkRestricted(t, pods, c)
	checkMemory(t, c)
}

// mounted returns what the container gets: the configuration under a name of its own for each content,
// and secrets as files alone.
func mounted(t *testing.T, k kustomization, pods pod) deployed {
	t.Helper()
	c, config := pods.Containers[0], k.ConfigMaps[0]
	d := deployed{file: kubernetesDir + config.Files[0], mounted: c.Mounts[0].Path, args: c.Args,
		grace: time.Duration(pods.Grace) * time.Second}
	for _, e := range c.Env {
		d.env = append(d.env, e.Name)
		if e.Value != "" || e.From.Field.Path == "" {
			t.Errorf("%s is no fact about the pod", e.Name)
		}
	}
	if pods.Volumes[0].Name != c.Mounts[0].Name || pods.Volumes[0].ConfigMap.Name != config.Name ||
		!config.Options.Immutable {
		t.Errorf("mounted is %+v of %+v", c.Mounts, pods.Volumes)
	}
	if v, m := pods.Volumes[1], c.Mounts[1]; v.Name != m.Name || v.Secret.Name == "" || v.Secret.Mode != 0o400 ||
		pods.Security.FSGroup != pods.Security.User || !m.ReadOnly {
		t.Errorf("secrets are %+v of %+v, for the group %d", m, v, pods.Security.FSGroup)
	}
	page, err := os.ReadFile("../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`--from-literal=([\w-]+)=`).FindAllStringSubmatch(string(page), -1) {
		d.secrets = append(d.secrets, path.Join(c.Mounts[1].Path, m[1]))
	}
	return d
}

// TestDeployFamilies: what listens at all addresses does so over IPv4 and IPv6, written either way, and
// the address of a pod may be of either family.
func TestDeployFamilies(t *testing.T) {
	deploySettings(t)
	if svc := strictly[object[service]](t, baseDir+"service.yaml")[0].Spec; svc.Families != "PreferDualStack" {
		t.Errorf("the Service has %q", svc.Families)
	}
	text, err := os.ReadFile(filepath.Join(deployDir, kubernetesDir, "gatehouse.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`\$\{file:[^}]*/([^}]+)\}`).ReplaceAllFunc(text, func(m []byte) []byte {
		return []byte("${file:" + secretFile(t, path.Base(strings.Trim(string(m), "}"))) + "}")
	})
	for _, all := range []string{":", "[::]:"} {
		for _, pod := range []string{"10.1.2.3", "fd00:10:244::7", "[fd00:10:244::7]"} {
			t.Setenv("POD_IP", pod)
			written := bytes.ReplaceAll(text, []byte(`listen: ":`), []byte(`listen: "`+all))
			_, warnings, err := config.Parse("gatehouse.yaml", written)
			if err != nil || len(warnings) > 0 {
				t.Errorf("%s, and a pod at %s: %v, %v", all, pod, err, warnings)
			}
		}
		l, err := bind(&doorway.Passed{}, "listen", all+"0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		for network, host := range families(t) {
			conn, err := net.Dial(network, net.JoinHostPort(host, port))
			if err != nil {
				t.Errorf("listen: %q does not listen over %s: %v", all, network, err)
				continue
			}
			conn.Close()
		}
	}
}

// families returns a loopback address of each family that this machine has.
func families(t *testing.T) map[string]string {
	t.Helper()
	here := map[string]string{}
	for network, host := range map[string]string{"tcp4": "127.0.0.1", "tcp6": "::1"} {
		l, err := net.Listen(network, net.JoinHostPort(host, "0"))
		if err != nil {
			t.Logf("this machine has no %s: %v", network, err)
			continue
		}
		l.Close()
		here[network] = host
	}
	return here
}

func checkPorts(t *testing.T, cfg Config, c container, svc service, policy network) {
	t.Helper()
	at := map[string]string{}
	for _, p := range c.Ports {
		at[p.Name] = ":" + strconv.Itoa(p.Port) // of IPv4 and IPv6
	}
	if at[svc.Ports[0].Target] != cfg.Listen || at[policy.Ingress[0].Ports[0].Port] != cfg.Listen ||
		at[policy.Ingress[2].Ports[0].Port] != cfg.Admin.Listen {
		t.Errorf("ports %v, service %+v, network %+v; the configuration has %s and %s", at, svc.Ports, policy.Ingress,
			cfg.Listen, cfg.Admin.Listen)
	}
	if len(policy.Ingress[2].From) == 0 {
		t.Error("everybody reaches the port for operators")
	}
	link := policy.Ingress[1]
	if at[link.Ports[0].Port] != cfg.Replicas.Listen || cfg.Replicas.Advertise != os.Getenv("POD_IP") {
		t.Errorf("replicas: network %+v, configuration %+v", link, cfg.Replicas)
	}
	if out := policy.Egress[1]; out.Ports[0].Port != link.Ports[0].Port ||
		!maps.Equal(out.To[0].Pods.MatchLabels, policy.Pods.MatchLabels) ||
		!maps.Equal(link.From[0].Pods.MatchLabels, policy.Pods.MatchLabels) {
		t.Errorf("replicas do not reach each other, or others reach them: %+v, %+v", link, out)
	}
	for want, p := range map[string]probe{"/healthz": c.Liveness,
		"/readyz?exclude=" + diagnose.ExcludeStore: c.Readiness} {
		if p.Get.Path != want || at[p.Get.Port] != cfg.Admin.Listen {
			t.Errorf("the probe asks %+v, want %s", p.Get, want)
		}
	}
	noticed := time.Duration(c.Readiness.Period*c.Readiness.Failures) * time.Second
	if noticed == 0 || noticed >= cfg.ShutdownDelay {
		t.Errorf("a pod that stops is noticed after %s, and takes no calls after %s", noticed, cfg.ShutdownDelay)
	}
}

// checkRestricted checks the profile "restricted" (Pod Security Standards), and a little more.
func checkRestricted(t *testing.T, pods pod, c container) {
	t.Helper()
	if s := pods.Security; !s.NonRoot || s.User == 0 || s.Seccomp.Type != "RuntimeDefault" || *pods.Token || *pods.Links {
		t.Errorf("the pod may more than it needs: %+v", pods)
	}
	if s := c.Security; s.Escalation == nil || *s.Escalation || !s.ReadOnly ||
		!slices.Equal(s.Caps.Drop, []string{"ALL"}) {
		t.Errorf("the container may more than it needs: %+v", s)
	}
}

// checkMemory expects that the limit of the container alone says how much memory there is.
func checkMemory(t *testing.T, c container) {
	t.Helper()
	for _, e := range c.Env {
		if e.Name == "GOMEMLIMIT" || e.Name == "GOGC" {
			t.Errorf("%s is constant, whatever the limit of the container", e.Name)
		}
	}
	if c.Resources.Limits.Memory == "" {
		t.Error("the container has no limit of memory")
	}
}
