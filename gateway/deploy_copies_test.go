package gateway

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const helmDir = "helm/gatehouse/"

var update = flag.Bool("update", false, "write the copies below deploy")

// TestDeployCopies holds each file below deploy that is made of another one to its source. Charts and
// kustomizations cannot read files outside of their directory.
func TestDeployCopies(t *testing.T) {
	alerts := read(t, "prometheus/alerts.yaml")
	_, groups, _ := bytes.Cut(alerts, []byte("\ngroups:"))
	rules := "groups:" + strings.ReplaceAll(string(groups), "\n", "\n  ")
	copies := map[string][]byte{
		monitoringDir + "rules.yaml": []byte(`# The rules of deploy/prometheus/alerts.yaml, for the Prometheus Operator.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: gatehouse
  labels: {app.kubernetes.io/name: gatehouse}
spec:
  ` + strings.TrimRight(rules, " ")),
		helmDir + "files/alerts.yaml": alerts,
	}
	for name, text := range boards(t) {
		copies["grafana/"+name+".json"] = text
		copies[helmDir+"files/boards/"+name+".json"] = text
	}
	for file, want := range copies {
		if *update {
			if err := os.WriteFile(filepath.Join(deployDir, file), want, 0o644); err != nil {
				t.Fatal(err)
			}
		} else if !bytes.Equal(read(t, file), want) {
			t.Errorf("deploy/%s is out of date: go test ./gateway -run TestDeployCopies -update writes it", file)
		}
	}
	for _, pattern := range []string{"grafana/*.json", helmDir + "files/boards/*.json"} {
		files, err := filepath.Glob(filepath.Join(deployDir, pattern))
		if err != nil || len(files) != len(boards(t)) {
			t.Errorf("the boards are %q, %v", files, err)
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployDir, file))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
