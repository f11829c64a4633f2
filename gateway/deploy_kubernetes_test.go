package gateway

import (
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/diagnose"
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
			Name   string
			Labels labels
		}
		Spec T
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
		Template struct {
			Metadata struct{ Labels, Annotations labels }
			Spec     pod
		}
	}
	pod struct {
		Token    *bool `yaml:"automountServiceAccountToken"`
		Links    *bool `yaml:"enableServiceLinks"`
		Grace    int   `yaml:"terminationGracePeriodSeconds"`
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
		Selector labels
		Ports    []struct {
			Name   string
			Port   int
			Target string `yaml:"targetPort"`
		}
	}
	disruption struct {
		MaxUnavailable int `yaml:"maxUnavailable"`
		Selector       selector
	}
	network struct {
		Pods    selector `yaml:"podSelector"`
		Types   []string `yaml:"policyTypes"`
		Ingress []struct {
			From []struct {
				Namespaces selector `yaml:"namespaceSelector"`
				Pods       selector `yaml:"podSelector"`
			}
			Ports []struct{ Port string }
		}
		Egress []struct {
			To []struct {
				Pods selector `yaml:"podSelector"`
			}
			Ports []struct {
				Port     string
				Protocol string
			}
		}
	}
	kustomization struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Namespace  string
		Resources  []string
		ConfigMaps []struct {
			Name  string
			Files []string
		} `yaml:"configMapGenerator"`
		Options struct {
			NoHash bool `yaml:"disableNameSuffixHash"`
		} `yaml:"generatorOptions"`
		Images []struct {
			Name    string
			NewName string `yaml:"newName"`
			NewTag  string `yaml:"newTag"`
		}
	}
)

const kubernetesDir = "kubernetes/"

// TestDeployKubernetes: the manifests contain no unknown key, agree with each other and with
// the configuration, and keep to the restricted pod security profile.
func TestDeployKubernetes(t *testing.T) {
	deploySettings(t)
	t.Setenv("POD_IP", "fd00:10:244::7")
	k := strictly[kustomization](t, kubernetesDir+"kustomization.yaml")[0]
	app := strictly[object[deployment]](t, kubernetesDir+"deployment.yaml")[0]
	svc := strictly[object[service]](t, kubernetesDir+"service.yaml")[0]
	pdb := strictly[object[disruption]](t, kubernetesDir+"disruption.yaml")[0]
	net := strictly[object[network]](t, kubernetesDir+"network.yaml")[0]
	ns := strictly[object[struct{}]](t, kubernetesDir+"namespace.yaml")[0]
	if want := []string{"namespace.yaml", "deployment.yaml", "service.yaml", "disruption.yaml",
		"network.yaml"}; !slices.Equal(k.Resources, want) {
		t.Errorf("applied are %q, looked at are %q", k.Resources, want)
	}
	if ns.Metadata.Name != k.Namespace || ns.Metadata.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("the namespace is %+v", ns.Metadata)
	}
	spec, pods := app.Spec, app.Spec.Template.Spec
	for what, selected := range map[string]labels{
		"deployment": spec.Selector.MatchLabels, "service": svc.Spec.Selector, "disruption": pdb.Spec.Selector.MatchLabels,
		"network": net.Spec.Pods.MatchLabels, "spread": pods.Spread[0].Selector.MatchLabels,
	} {
		if !maps.Equal(selected, spec.Template.Metadata.Labels) {
			t.Errorf("%s is about %v, the pods are %v", what, selected, spec.Template.Metadata.Labels)
		}
	}
	if spec.Replicas != 3 || spec.Strategy.RollingUpdate.MaxUnavailable != 0 || pdb.Spec.MaxUnavailable != 1 {
		t.Errorf("%d replicas, %+v, %+v", spec.Replicas, spec.Strategy, pdb.Spec)
	}
	c := pods.Containers[0]
	if c.Image != k.Images[0].Name {
		t.Errorf("the image is %s, and %s is replaced", c.Image, k.Images[0].Name)
	}
	d := deployed{file: kubernetesDir + k.ConfigMaps[0].Files[0], mounted: c.Mounts[0].Path, args: c.Args,
		grace: time.Duration(pods.Grace) * time.Second}
	for _, e := range c.Env {
		d.env = append(d.env, e.Name)
		if (e.Value == "") == (e.From.Field.Path == "") {
			t.Errorf("%s has a value and comes from elsewhere, or neither", e.Name)
		}
	}
	if pods.Volumes[0].Name != c.Mounts[0].Name || pods.Volumes[0].ConfigMap.Name != k.ConfigMaps[0].Name ||
		!k.Options.NoHash {
		t.Errorf("mounted is %+v of %+v", c.Mounts, pods.Volumes)
	}
	if v, m := pods.Volumes[1], c.Mounts[1]; v.Name != m.Name || v.Secret.Name == "" || v.Secret.Mode&0o007 != 0 ||
		pods.Security.FSGroup != pods.Security.User || !m.ReadOnly {
		t.Errorf("secrets are %+v of %+v, for the group %d", m, v, pods.Security.FSGroup)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`--from-literal=([\w-]+)=`).FindAllStringSubmatch(string(readme), -1) {
		d.secrets = append(d.secrets, path.Join(c.Mounts[1].Path, m[1]))
	}
	checkPorts(t, d.check(t), c, svc.Spec, net.Spec)
	checkRestricted(t, pods, c)
	checkMemory(t, c)
}

func checkPorts(t *testing.T, cfg Config, c container, svc service, net network) {
	t.Helper()
	at := map[string]string{}
	for _, p := range c.Ports {
		at[p.Name] = ":" + strconv.Itoa(p.Port) // of IPv4 and IPv6
	}
	if at[svc.Ports[0].Target] != cfg.Listen || at[net.Ingress[0].Ports[0].Port] != cfg.Listen ||
		at[net.Ingress[2].Ports[0].Port] != cfg.Admin.Listen {
		t.Errorf("ports %v, service %+v, network %+v; the configuration has %s and %s", at, svc.Ports, net.Ingress,
			cfg.Listen, cfg.Admin.Listen)
	}
	if len(net.Ingress[2].From) == 0 {
		t.Error("everybody reaches the port for operators")
	}
	link := net.Ingress[1]
	if at[link.Ports[0].Port] != cfg.Replicas.Listen || cfg.Replicas.Advertise != os.Getenv("POD_IP") {
		t.Errorf("replicas: network %+v, configuration %+v", link, cfg.Replicas)
	}
	if out := net.Egress[1]; out.Ports[0].Port != link.Ports[0].Port ||
		!maps.Equal(out.To[0].Pods.MatchLabels, net.Pods.MatchLabels) ||
		!maps.Equal(link.From[0].Pods.MatchLabels, net.Pods.MatchLabels) {
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
