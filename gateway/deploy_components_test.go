package gateway

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// The parts of Kubernetes objects that the components use.
type (
	patch struct {
		Target struct{ Kind, Name string }
		Patch  string
	}
	change struct {
		Op, Path string
		Value    any
	}
	autoscaler struct {
		Target struct {
			APIVersion string `yaml:"apiVersion"`
			Kind, Name string
		} `yaml:"scaleTargetRef"`
		MinReplicas int `yaml:"minReplicas"`
		MaxReplicas int `yaml:"maxReplicas"`
		Metrics     []struct {
			Type     string
			Resource struct {
				Name   string
				Target struct {
					Type        string
					Utilization int `yaml:"averageUtilization"`
				}
			}
		}
		Behavior struct {
			Up   scaling `yaml:"scaleUp"`
			Down scaling `yaml:"scaleDown"`
		}
	}
	scaling struct {
		Window   int `yaml:"stabilizationWindowSeconds"`
		Policies []struct {
			Type   string
			Value  int
			Period int `yaml:"periodSeconds"`
		}
	}
	ingress struct {
		Class string `yaml:"ingressClassName"`
		TLS   []struct {
			Hosts  []string
			Secret string `yaml:"secretName"`
		}
		Rules []struct {
			Host string
			HTTP struct {
				Paths []struct {
					Path    string
					Type    string `yaml:"pathType"`
					Backend struct {
						Service struct {
							Name string
							Port struct{ Name string }
						}
					}
				}
			}
		}
	}
	httpRoute struct {
		Parents []struct {
			Name, Namespace string
			Section         string `yaml:"sectionName"`
		} `yaml:"parentRefs"`
		Hostnames []string
		Rules     []struct {
			Matches  []struct{ Path struct{ Type, Value string } }
			Timeouts struct{ Request *time.Duration }
			Backends []struct {
				Name string
				Port int
			} `yaml:"backendRefs"`
		}
	}
	openshiftRoute struct {
		Host string
		To   struct {
			Kind, Name string
			Weight     int
		}
		Port struct {
			Target string `yaml:"targetPort"`
		}
		TLS struct {
			Termination string
			Insecure    string `yaml:"insecureEdgeTerminationPolicy"`
		}
		Wildcard string `yaml:"wildcardPolicy"`
	}
)

const (
	componentsDir = kubernetesDir + "components/"
	tlsDir        = "/run/secrets/gatehouse-tls"
)

// TestDeployComponents: each component is one line of the kustomization and a row of the page, and has
// only objects whose names nothing else in a namespace has. internal/interop builds them.
func TestDeployComponents(t *testing.T) {
	dirs, err := os.ReadDir(filepath.Join(deployDir, componentsDir))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile(filepath.Join(deployDir, kubernetesDir, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, dir := range dirs {
		name := dir.Name()
		there = append(there, name)
		if !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("docs/kubernetes.md does not say what %s is for", name)
		}
		k := strictly[kustomization](t, componentsDir+name+"/kustomization.yaml")[0]
		if k.Kind != "Component" || k.APIVersion != "kustomize.config.k8s.io/v1alpha1" || k.Namespace != "" {
			t.Errorf("%s is %+v", name, k)
		}
		files, err := filepath.Glob(filepath.Join(deployDir, componentsDir, name, "*"))
		if err != nil || len(files) != len(k.Resources)+1 {
			t.Errorf("%s has the files %q, and applies %q", name, files, k.Resources)
		}
		for _, file := range k.Resources {
			for _, o := range loosely(t, componentsDir+name+"/"+file) {
				if o.Metadata.Labels["app.kubernetes.io/name"] != "gatehouse" || !strings.HasPrefix(o.Metadata.Name, "gatehouse") {
					t.Errorf("%s/%s: %s is %+v", name, file, o.Kind, o.Metadata)
				}
			}
		}
		if len(k.Resources)+len(patched(t, name)) == 0 {
			t.Errorf("%s does nothing", name)
		}
	}
	var offered []string
	for _, m := range regexp.MustCompile(`(?m)^#  - components/([a-z-]+)$`).FindAllStringSubmatch(string(lines), -1) {
		offered = append(offered, m[1])
	}
	slices.Sort(offered)
	if !slices.Equal(offered, there) {
		t.Errorf("offered are %q, and there are %q", offered, there)
	}
}

// loosely reads what all objects have.
func loosely(t *testing.T, file string) (all []object[map[string]any]) {
	t.Helper()
	return strictly[object[map[string]any]](t, file)
}

// patched returns what the patches of a component change, by kind and path.
func patched(t *testing.T, component string) map[string]any {
	t.Helper()
	made := map[string]any{}
	for _, p := range strictly[kustomization](t, componentsDir+component+"/kustomization.yaml")[0].Patches {
		var all []change
		if err := yaml.Unmarshal([]byte(p.Patch), &all); err != nil || p.Target.Name != "gatehouse" {
			t.Fatalf("%s changes %+v: %v", component, p.Target, err)
		}
		for _, c := range all {
			made[c.Op+" "+p.Target.Kind+" "+c.Path] = c.Value
		}
	}
	return made
}

// TestDeployAutoscaling: one replica drains at a time, the number in the Deployment does not interfere,
// and the metric exists.
func TestDeployAutoscaling(t *testing.T) {
	app := strictly[object[deployment]](t, baseDir+"deployment.yaml")[0]
	a := strictly[object[autoscaler]](t, componentsDir+"autoscaling/autoscaler.yaml")[0].Spec
	if a.Target.Kind != app.Kind || a.Target.Name != app.Metadata.Name || a.MinReplicas != app.Spec.Replicas ||
		a.MaxReplicas <= a.MinReplicas {
		t.Errorf("%+v scales %s %s of %d", a, app.Kind, app.Metadata.Name, app.Spec.Replicas)
	}
	grace := app.Spec.Template.Spec.Grace
	down := a.Behavior.Down
	if p := down.Policies; len(p) != 1 || p[0].Type != "Pods" || p[0].Value != 1 || p[0].Period <= grace ||
		down.Window <= p[0].Period {
		t.Errorf("%+v: a replica takes %d s to stop", down, grace)
	}
	made := patched(t, "autoscaling")
	if _, removed := made["remove Deployment /spec/replicas"]; !removed ||
		made["replace Deployment /spec/template/spec/containers/0/resources/requests/cpu"] != "500m" {
		t.Errorf("changed are %v", made)
	}
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	streams := patched(t, "autoscaling-streams")["add HorizontalPodAutoscaler /spec/metrics/-"]
	name := regexp.MustCompile(`name:(gatehouse_\w+)`).FindStringSubmatch(fmt.Sprint(streams))
	if name == nil || !strings.Contains(string(page), "| `"+name[1]+"` | |") {
		t.Errorf("a metric without labels is expected: %v", streams)
	}
}

// TestDeployRoutes: what leads to the Service has the host of public_url, waits longer than a call takes,
// and takes the largest request.
func TestDeployRoutes(t *testing.T) {
	deploySettings(t)
	app := strictly[object[deployment]](t, baseDir+"deployment.yaml")[0].Spec
	k := strictly[kustomization](t, kubernetesDir+"kustomization.yaml")[0]
	cfg := mounted(t, k, app.Template.Spec).check(t)
	u, err := url.Parse(cfg.PublicURL)
	if err != nil {
		t.Fatal(err)
	}
	svc := strictly[object[service]](t, baseDir+"service.yaml")[0]
	name, port := svc.Metadata.Name, svc.Spec.Ports[0]
	h := strictly[object[httpRoute]](t, componentsDir+"gateway-api/httproute.yaml")[0].Spec
	if r := h.Rules[0]; !slices.Equal(h.Hostnames, []string{u.Host}) || r.Matches[0].Path.Value != "/" ||
		r.Timeouts.Request == nil || *r.Timeouts.Request != 0 || r.Backends[0].Name != name ||
		r.Backends[0].Port != port.Port {
		t.Errorf("the HTTPRoute is %+v", h)
	}
	i := strictly[object[ingress]](t, componentsDir+"ingress-nginx/ingress.yaml")[0]
	to := i.Spec.Rules[0].HTTP.Paths[0]
	if i.Spec.Rules[0].Host != u.Host || !slices.Equal(i.Spec.TLS[0].Hosts, []string{u.Host}) || to.Path != "/" ||
		to.Backend.Service.Name != name || to.Backend.Service.Port.Name != port.Name {
		t.Errorf("the Ingress is %+v", i.Spec)
	}
	r := strictly[object[openshiftRoute]](t, componentsDir+"route/route.yaml")[0]
	if s := r.Spec; s.Host != u.Host || s.To.Name != name || s.Port.Target != port.Name || s.TLS.Termination != "edge" ||
		s.TLS.Insecure != "None" {
		t.Errorf("the Route is %+v", s)
	}
	waits := map[string]string{
		"ingress-nginx": i.Metadata.Annotations["nginx.ingress.kubernetes.io/proxy-read-timeout"] + "s",
		"F5":            i.Metadata.Annotations["nginx.org/proxy-read-timeout"],
		"OpenShift":     r.Metadata.Annotations["haproxy.router.openshift.io/timeout"],
	}
	for which, text := range waits {
		if wait, err := time.ParseDuration(text); err != nil || wait <= cfg.Upstreams[0].WithDefaults().Timeout.Call {
			t.Errorf("%s waits %q for an answer", which, text)
		}
	}
	for _, key := range []string{"nginx.ingress.kubernetes.io/proxy-body-size", "nginx.org/client-max-body-size"} {
		if most := i.Metadata.Annotations[key]; most != fmt.Sprintf("%dm", wire.DefaultMaxRequest>>20) {
			t.Errorf("%s: %s", key, most)
		}
	}
}

// TestDeployAffinity: each component goes by the header of MCP, and nginx has a value for requests without it.
func TestDeployAffinity(t *testing.T) {
	const header = "Mcp-Session-Id"
	istio := loosely(t, componentsDir+"affinity-istio/destinationrule.yaml")[0].Spec
	envoy := loosely(t, componentsDir+"affinity-envoy-gateway/policy.yaml")[0].Spec
	if istio["host"] != strictly[object[service]](t, baseDir+"service.yaml")[0].Metadata.Name ||
		!strings.Contains(fmt.Sprint(istio), "httpHeaderName:"+header) {
		t.Errorf("Istio has %v", istio)
	}
	to := loosely(t, componentsDir+"gateway-api/httproute.yaml")[0]
	if text := fmt.Sprint(envoy); !strings.Contains(text, "kind:"+to.Kind+" name:"+to.Metadata.Name+"]") ||
		!strings.Contains(text, "name:"+header+"]") {
		t.Errorf("Envoy Gateway has %v", envoy)
	}
	made := patched(t, "affinity-nginx")
	if made["add Ingress /metadata/annotations/nginx.ingress.kubernetes.io~1upstream-hash-by"] != "$by" ||
		made["add Ingress /metadata/annotations/nginx.org~1lb-method"] != "hash $by consistent" {
		t.Errorf("changed are %v", made)
	}
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	comment, err := os.ReadFile(filepath.Join(deployDir, componentsDir, "affinity-nginx/kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const by = `map $http_mcp_session_id $by { "" $request_id; default $http_mcp_session_id; }`
	if !strings.Contains(string(page), by) || !strings.Contains(string(comment), "#   "+by+"\n") {
		t.Error("what defines $by is missing")
	}
}

// TestDeployOpenShift: the namespace says which user the pod has, and policies know the ports and the
// names of this platform.
func TestDeployOpenShift(t *testing.T) {
	made := patched(t, "openshift")
	for _, key := range []string{"runAsUser", "runAsGroup", "fsGroup"} {
		if _, removed := made["remove Deployment /spec/template/spec/securityContext/"+key]; !removed {
			t.Errorf("%s is not that of the namespace: %v", key, made)
		}
	}
	for _, component := range []string{"route", "ingress-nginx"} {
		made := patched(t, component)
		_, alone := made["test NetworkPolicy /spec/ingress/0/from"]
		if made["test NetworkPolicy /spec/ingress/0/ports/0/port"] != "http" || !alone ||
			made["add NetworkPolicy /spec/ingress/0/from"] == nil {
			t.Errorf("%s lets others in than its routers: %v", component, made)
		}
	}
	again := patched(t, "reencrypt")
	if again["replace Route /spec/tls/termination"] != "reencrypt" || again["add Service /metadata/annotations"] == nil {
		t.Errorf("changed are %v", again)
	}
	mount := fmt.Sprint(again["add Deployment /spec/template/spec/containers/0/volumeMounts/-"])
	volume := fmt.Sprint(again["add Deployment /spec/template/spec/volumes/-"])
	if !strings.Contains(mount, "mountPath:"+tlsDir+" name:tls readOnly:true") ||
		volume != "map[name:tls secret:map[defaultMode:256 secretName:gatehouse-tls]]" {
		t.Errorf("mounted is %s of %s", mount, volume)
	}
	const line = "tls: {cert_file: " + tlsDir + "/tls.crt, key_file: " + tlsDir + "/tls.key}\n"
	for _, file := range []string{"../docs/kubernetes.md",
		filepath.Join(deployDir, componentsDir, "reencrypt/kustomization.yaml")} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), line) {
			t.Errorf("%s does not say what reencrypt needs: %v", file, err)
		}
	}
	base := strictly[object[network]](t, baseDir+"network.yaml")[0].Spec
	more := strictly[object[network]](t, componentsDir+"openshift/network.yaml")[0].Spec
	if fmt.Sprint(more.Pods) != fmt.Sprint(base.Pods) || !slices.Equal(more.Types, base.Types) ||
		more.Ingress[0].Ports[0].Port != base.Ingress[2].Ports[0].Port || len(more.Ingress[0].From) == 0 {
		t.Errorf("the policy %+v adds to %+v", more, base)
	}
}

// TestDeployDiscovery: the containers that discover may list and watch Services, and nothing else; the gateway has
// no token, and reads what they write.
func TestDeployDiscovery(t *testing.T) {
	for _, o := range loosely(t, componentsDir+"discovery/access.yaml") {
		for _, r := range o.Rules {
			if !slices.Equal(r.Resources, []string{"services"}) || !slices.Equal(r.Verbs, []string{"list", "watch"}) {
				t.Errorf("%s may %v %v", o.Metadata.Name, r.Verbs, r.Resources)
			}
		}
		if o.Kind == "ClusterRoleBinding" &&
			(o.Role["name"] != "gatehouse-discovery" || o.Subjects[0]["name"] != "gatehouse") {
			t.Errorf("%s binds %v to %v", o.Metadata.Name, o.Role, o.Subjects)
		}
	}
	const podPath = "/spec/template/spec/"
	made := patched(t, "discovery")
	mount, _ := made["add Deployment "+podPath+"containers/0/volumeMounts/-"].(map[string]any)
	if mount["name"] != "discovered" || mount["readOnly"] != true {
		t.Errorf("the gateway mounts %v", mount)
	}
	text, err := yaml.Marshal(made["add Deployment "+podPath+"initContainers"])
	if err != nil {
		t.Fatal(err)
	}
	var containers []container
	if err := yaml.Unmarshal(text, &containers); err != nil || len(containers) != 2 {
		t.Fatalf("containers %v, %v", containers, err)
	}
	for _, c := range containers {
		if s := c.Security; c.Args[0] != "discover" || !slices.Contains(c.Args, mount["mountPath"].(string)) ||
			s.Escalation == nil || *s.Escalation || !s.ReadOnly || !slices.Equal(s.Caps.Drop, []string{"ALL"}) {
			t.Errorf("%+v", c)
		}
	}
}
