package gateway

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/lifecycle"
)

// The parts of Prometheus files, and of its Operator's objects, that deploy uses.
type (
	ruleFile struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Record, Expr, For string
				Labels, Annotations      labels
			}
		}
	}
	podMonitor struct {
		Selector  selector
		Job       string                                  `yaml:"jobLabel"`
		Endpoints []struct{ Port, Path, Interval string } `yaml:"podMetricsEndpoints"`
	}
)

const monitoringDir = componentsDir + "monitoring/"

// TestDeployMonitoring: Prometheus finds the pods and their port, and the Operator has the
// same alerts. internal/e2e compares them with the metrics that exist.
func TestDeployMonitoring(t *testing.T) {
	deploySettings(t)
	alerts := strictly[ruleFile](t, "prometheus/alerts.yaml")[0]
	rules := strictly[object[ruleFile]](t, monitoringDir+"rules.yaml")[0]
	if !reflect.DeepEqual(rules.Spec, alerts) {
		t.Error("the alerts of the Operator are not those of prometheus/alerts.yaml")
	}
	app := strictly[object[deployment]](t, baseDir+"deployment.yaml")[0].Spec
	pods := app.Template.Metadata
	cfg := deployed{file: kubernetesDir + "gatehouse.yaml", mounted: app.Template.Spec.Containers[0].Mounts[0].Path,
		args: app.Template.Spec.Containers[0].Args,
		env:  []string{"POD_IP"}, secrets: []string{"/run/secrets/gatehouse/redis-url",
			"/run/secrets/gatehouse/key"}, grace: lifecycle.WindUp * 10}.check(t)
	k := strictly[kustomization](t, monitoringDir+"kustomization.yaml")[0]
	if !slices.Equal(k.Resources, []string{"podmonitor.yaml", "rules.yaml"}) {
		t.Errorf("applied are %q", k.Resources)
	}
	m := strictly[object[podMonitor]](t, monitoringDir+"podmonitor.yaml")[0].Spec
	if !maps.Equal(m.Selector.MatchLabels, pods.Labels) {
		t.Errorf("asked are the pods with %v, and they have %v", m.Selector.MatchLabels, pods.Labels)
	}
	ports := map[string]string{}
	for _, p := range app.Template.Spec.Containers[0].Ports {
		ports[p.Name] = strconv.Itoa(p.Port)
	}
	e := m.Endpoints[0]
	for _, port := range []string{ports[e.Port], pods.Annotations["prometheus.io/port"]} {
		if ":"+port != cfg.Admin.Listen {
			t.Errorf("port %q is asked, and it is %s", port, cfg.Admin.Listen)
		}
	}
	if e.Path != "/metrics" || pods.Annotations["prometheus.io/path"] != "/metrics" ||
		pods.Annotations["prometheus.io/scrape"] != "true" {
		t.Errorf("asked is %+v, and %v", e, pods.Annotations)
	}
	if job := regexp.MustCompile(`job="([^"]*)"`).FindStringSubmatch(alerts.Groups[0].Rules[0].Expr); job == nil ||
		job[1] != pods.Labels[m.Job] {
		t.Errorf("an alert is about %q, and the job is %q", job, pods.Labels[m.Job])
	}
	page, err := os.ReadFile(filepath.Join(deployDir, "../docs/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	var told, there []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(Gatehouse[A-Za-z]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		told = append(told, row[1])
	}
	for _, r := range alerts.Groups[0].Rules {
		there = append(there, r.Alert)
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.Labels["severity"] == "" {
			t.Errorf("%s does not say what is wrong, what to do, or how bad it is", r.Alert)
		}
	}
	if !slices.Equal(told, there) {
		t.Errorf("docs/metrics.md tells of %q, and the alerts are %q", told, there)
	}
	checkRunbooks(t, alerts)
}

// checkRunbooks: each alert links to its runbook, and each runbook is that of an alert, in the same order.
func checkRunbooks(t *testing.T, alerts ruleFile) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(deployDir, "../docs/runbooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	books := strings.Split(string(page), "\n## ")[1:]
	if len(books) != len(alerts.Groups[0].Rules) {
		t.Fatalf("%d runbooks for %d alerts", len(books), len(alerts.Groups[0].Rules))
	}
	for i, r := range alerts.Groups[0].Rules {
		title, text, _ := strings.Cut(books[i], "\n")
		if title != r.Alert {
			t.Errorf("the runbook of %s is %s", r.Alert, title)
		}
		const site = "https://github.com/gatehouse-mcp/gatehouse/blob/main/docs/runbooks.md#"
		if link := r.Annotations["runbook_url"]; link != site+strings.ToLower(r.Alert) {
			t.Errorf("%s links to %q", r.Alert, link)
		}
		for _, part := range []string{"\n**Means.** ", "\n**See.** ", "\n**Do.** "} {
			if strings.Count(text, part) != 1 {
				t.Errorf("the runbook of %s has %d times %q", r.Alert, strings.Count(text, part), part)
			}
		}
	}
}
