package e2e

import (
	"cmp"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// The parts of PromQL that the alerts use. promtool checks the syntax; this checks names.
var (
	promSelector = regexp.MustCompile(`\b(gatehouse_[a-z_]+|go_[a-z_]+|up)(\{[^}]*\})?`)
	promRecorded = regexp.MustCompile(`\bgatehouse:[a-z0-9_:]+(\{[^}]*\})?`)
	promPart     = regexp.MustCompile(`_(bucket|sum|count)$`) // of a histogram or summary
	promMatcher  = regexp.MustCompile(`(\w+)(=~|=)"([^"]*)"`)
	promGrouping = regexp.MustCompile(`\b(?:by|on|without|ignoring) \(([^)]*)\)`)
	promTarget   = []string{"job", "instance"} // labels that Prometheus adds
)

// checkAlerts requires every metric, label and value that an alert names. The series of an
// alert must exist from the start, so that the first failure is an increase.
func checkAlerts(t *testing.T, n numbers) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Record, Expr string
				Annotations         map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	recorded := map[string]string{}
	for _, r := range file.Groups[1].Rules {
		recorded[r.Record] = r.Expr
	}
	checked := 0
	rules := slices.Concat(file.Groups[0].Rules, file.Groups[1].Rules)
	for _, r := range rules {
		r.Alert = cmp.Or(r.Alert, r.Record)
		r.Expr = promRecorded.ReplaceAllStringFunc(r.Expr, func(use string) string {
			name, _, _ := strings.Cut(use, "{")
			if recorded[name] == "" {
				t.Errorf("%s: nothing records %s", r.Alert, name)
			}
			return recorded[name]
		})
		labels := slices.Clone(promTarget) // those of the expression's series
		for _, m := range promSelector.FindAllStringSubmatch(r.Expr, -1) {
			checked++
			if m[1] == "up" { // made by Prometheus
				continue
			}
			values := n.labels(promPart.ReplaceAllString(m[1], ""))
			if values == nil {
				t.Errorf("%s: there is no %s", r.Alert, m[1])
			}
			for label := range values {
				labels = append(labels, label)
			}
			for _, match := range promMatcher.FindAllStringSubmatch(m[2], -1) {
				for want := range strings.SplitSeq(match[3], "|") {
					if !slices.Contains(values[match[1]], want) && !slices.Contains(promTarget, match[1]) {
						t.Errorf("%s: %s has no %s=%q, it has %q", r.Alert, m[1], match[1], want, values[match[1]])
					}
				}
			}
		}
		for _, g := range promGrouping.FindAllStringSubmatch(r.Expr, -1) {
			for label := range strings.SplitSeq(g[1], ",") {
				if label = strings.TrimSpace(label); label != "le" && !slices.Contains(labels, label) {
					t.Errorf("%s: no series has the label %q, they have %q", r.Alert, label, labels)
				}
			}
		}
		for _, said := range r.Annotations {
			for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(said, -1) {
				if !slices.Contains(labels, m[1]) {
					t.Errorf("%s says %q, and no series has that label", r.Alert, m[0])
				}
			}
			for _, name := range metricName.FindAllString(said, -1) {
				if n.families[name] == nil {
					t.Errorf("%s tells of %s, which there is not", r.Alert, name)
				}
			}
		}
	}
	if checked < len(rules) {
		t.Errorf("%d selectors are found in %d rules", checked, len(rules))
	}
}

// labels returns the values of each label of a metric, nil for an unknown metric.
func (n numbers) labels(name string) map[string][]string {
	family := n.families[name]
	if family == nil {
		return nil
	}
	values := make(map[string][]string)
	for _, m := range family.Metric {
		for _, l := range m.Label {
			values[l.GetName()] = append(values[l.GetName()], l.GetValue())
		}
	}
	return values
}
