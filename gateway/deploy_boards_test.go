package gateway

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The source of the boards of Grafana, deploy/grafana/boards.yaml.
type (
	boardFile struct{ Boards []board }
	board     struct {
		Name, Title, Description string
		Variables                []string
		Rows                     []struct {
			Title  string
			Panels []panel
		}
	}
	panel struct {
		Title, Description, Of, Unit string
		Stack                        bool
		Rare                         bool    // see internal/interop
		High                         float64 // from which a stat is red; 0 for never
		Queries                      [][2]string
	}
)

type members = map[string]any

// boards returns the boards as Grafana 10 and newer import them, by name.
func boards(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, b := range strictly[boardFile](t, "grafana/boards.yaml")[0].Boards {
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false) // for people who read the queries
		e.SetIndent("", " ")
		if err := e.Encode(b.model()); err != nil {
			t.Fatal(err)
		}
		files[b.Name] = text.Bytes()
	}
	return files
}

func (b board) model() members {
	return members{
		"uid": "gatehouse-" + b.Name, "title": b.Title, "description": b.Description, "tags": []string{"gatehouse"},
		"schemaVersion": 39, "editable": true, "graphTooltip": 1, "refresh": "30s", "timezone": "",
		"time":        members{"from": "now-6h", "to": "now"},
		"templating":  members{"list": b.variables()},
		"annotations": members{"list": []members{}},
		"links": []members{{"type": "dashboards", "tags": []string{"gatehouse"}, "title": "Gatehouse", "asDropdown": true,
			"includeVars": true, "keepTime": true, "icon": "external link", "tooltip": "", "targetBlank": false}},
		"panels": b.panels(),
	}
}

// source is the kind of the board's data source.
func (b board) source() string {
	if slices.Contains(b.Variables, "logs") {
		return "loki"
	}
	return "prometheus"
}

func (b board) variables() []members {
	all := []members{{"name": "source", "label": "Data source", "type": "datasource", "query": b.source()}}
	values := func(name, label, query string) members {
		return members{"name": name, "label": label, "type": "query", "query": query, "refresh": 2, "sort": 1,
			"datasource": b.reference()}
	}
	if b.source() == "prometheus" {
		all = append(all, values("job", "Gateway", "label_values(gatehouse_build_info, job)"))
	}
	for _, name := range b.Variables {
		switch name {
		case "upstream":
			all = append(all, values(name, "Server", `label_values(gatehouse_upstream_state{job="$job"}, upstream)`))
		case "logs":
			all = append(all, members{"name": name, "label": "Streams of Loki", "type": "textbox", "query": `app="gatehouse"`})
		default:
			all = append(all, members{"name": name, "label": "User", "type": "textbox", "query": ""})
		}
	}
	return all
}

func (b board) reference() members { return members{"type": b.source(), "uid": "${source}"} }

// panels returns the rows and their panels: three beside each other, six if they are numbers.
func (b board) panels() (all []members) {
	y := 0
	add := func(m members, x, width, height int) {
		m["id"], m["gridPos"] = len(all)+1, members{"x": x, "y": y, "w": width, "h": height}
		all = append(all, m)
	}
	for _, row := range b.Rows {
		add(members{"type": "row", "title": row.Title, "collapsed": false, "panels": []members{}}, 0, 24, 1)
		y++
		x, height := 0, 8
		for _, p := range row.Panels {
			width := 8
			switch p.Of {
			case "stat":
				width, height = 4, 5
			case "logs":
				width, height = 24, 16
			}
			if x+width > 24 {
				x, y = 0, y+height
			}
			add(p.model(b.reference()), x, width, height)
			x += width
		}
		y += height
	}
	return all
}

func (p panel) model(source members) members {
	kind, defaults, options := p.Of, members{"unit": p.Unit}, members{}
	var targets []members
	for i, q := range p.Queries {
		target := members{"refId": string(rune('A' + i)), "datasource": source, "expr": q[0], "legendFormat": q[1]}
		if source["type"] == "prometheus" && kind == "table" {
			target["format"], target["instant"] = "table", true
		}
		targets = append(targets, target)
	}
	switch kind {
	case "":
		kind = "timeseries"
		defaults["min"] = 0
		custom := members{"showPoints": "never", "fillOpacity": 10}
		if p.Stack {
			custom["stacking"], custom["fillOpacity"] = members{"mode": "normal", "group": "A"}, 40
		}
		defaults["custom"] = custom
		options = members{"legend": members{"displayMode": "list", "placement": "bottom", "showLegend": true,
			"calcs": []string{}},
			"tooltip": members{"mode": "multi", "sort": "desc"}}
	case "stat":
		steps := []members{{"color": "green", "value": nil}}
		if p.High > 0 {
			steps = append(steps, members{"color": "red", "value": p.High})
		}
		defaults["thresholds"] = members{"mode": "absolute", "steps": steps}
		options = members{"colorMode": "value", "graphMode": "area", "justifyMode": "auto", "textMode": "auto",
			"wideLayout": true, "showPercentChange": false, "percentChangeColorMode": "standard", "orientation": "auto",
			"reduceOptions": members{"calcs": []string{"lastNotNull"}}}
	case "table":
		options = members{"frameIndex": 0, "showHeader": true}
	case "logs":
		options = members{"showLabels": false, "showCommonLabels": false, "showTime": true, "showLogContextToggle": false,
			"wrapLogMessage": true, "prettifyLogMessage": false, "enableLogDetails": true, "sortOrder": "Descending",
			"dedupStrategy": "none"}
	}
	m := members{"type": kind, "title": p.Title, "datasource": source, "targets": targets, "options": options,
		"fieldConfig": members{"defaults": defaults, "overrides": []members{}}}
	if p.Description != "" {
		m["description"] = p.Description
	}
	if kind == "table" {
		m["transformations"] = []members{{"id": "organize", "options": members{"excludeByName": members{"Time": true,
			"__name__": true, "job": true, "Value": true}}}}
	}
	return m
}

// TestDeployBoards: boards ask for metrics that docs/metrics.md has, or for recordings, and look at one gateway.
// internal/interop runs the queries.
func TestDeployBoards(t *testing.T) {
	page, err := os.ReadFile(deployDir + "/../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(gatehouse_[a-z_]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		known[row[1]] = true
	}
	for _, r := range strictly[ruleFile](t, "prometheus/alerts.yaml")[0].Groups[1].Rules {
		known[r.Record] = false // until a board or an alert uses it
	}
	name := regexp.MustCompile(`\bgatehouse[_:][a-z0-9_:]+`)
	selector := regexp.MustCompile(`\{[$a-z][^}]*\}`)
	use := func(where, expr string) {
		for _, n := range name.FindAllString(expr, -1) {
			n = strings.TrimSuffix(n, "_bucket")
			if _, there := known[n]; !there {
				t.Errorf("%s: there is no %s", where, n)
			}
			known[n] = true
		}
	}
	for _, r := range strictly[ruleFile](t, "prometheus/alerts.yaml")[0].Groups[0].Rules {
		use(r.Alert, r.Expr)
	}
	for _, b := range strictly[boardFile](t, "grafana/boards.yaml")[0].Boards {
		for _, row := range b.Rows {
			for _, p := range row.Panels {
				where := b.Name + ": " + p.Title
				for _, q := range p.Queries {
					if b.source() == "prometheus" {
						use(where, q[0])
					}
					selectors := selector.FindAllString(q[0], -1)
					for _, found := range selectors {
						if !strings.HasPrefix(found, `{job="$job"`) && found != "{$logs}" && !strings.HasPrefix(found, "{alertname=") {
							t.Errorf("%s looks at every gateway: %s", where, found)
						}
					}
					if len(selectors) == 0 {
						t.Errorf("%s looks at nothing: %s", where, q[0])
					}
				}
				if p.Title == "" || len(p.Queries) == 0 {
					t.Errorf("%s is empty", where)
				}
			}
		}
	}
	for _, n := range slices.Sorted(maps.Keys(known)) {
		if strings.HasPrefix(n, "gatehouse:") && !known[n] {
			t.Errorf("nothing uses %s", n)
		}
	}
}
