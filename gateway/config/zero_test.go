package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// zeroKeys are all keys with numbers, durations or rates, each with a file that sets the key.
var zeroKeys = map[string]string{
	"admin.api.recent_bytes": "admin: {listen: \"127.0.0.1:9090\", api: {loopback: viewer, %s}}",

	"audit.queue":             "audit: {sinks: [{type: stdout}], %s}",
	"audit.sinks[].keep":      "audit: {sinks: [{type: file, path: a, %s}]}",
	"audit.sinks[].max_age":   "audit: {sinks: [{type: file, path: a, %s}]}",
	"audit.sinks[].max_bytes": "audit: {sinks: [{type: file, path: a, %s}]}",
	"audit.sinks[].timeout":   "audit: {sinks: [{type: webhook, url: https://a.example, %s}]}",

	"auth.issuers[].max_token_lifetime": "auth: {mode: oauth, issuers: [{url: https://i.example, %s}]}\npublic_url: https://g.example/mcp\npolicy: {default: deny}",
	"auth.leeway":                       "auth: {%s}",
	"auth.max_stale":                    "auth: {%s}",

	"auth.server.access_token_life":         "auth: {server: {%s}}",
	"auth.server.refresh_token_life":        "auth: {server: {%s}}",
	"auth.server.registration.dcr.lifetime": "auth: {server: {registration: {dcr: {enabled: true, %s}}}}",

	"connections.idle_timeout": "connections: {%s}",
	"connections.max":          "connections: {%s}",
	"connections.per_address":  "connections: {%s}",

	"disclosure.grant": "disclosure: {mode: progressive, %s}",

	"hooks[].http.max_bytes": "hooks: [{name: h, http: {url: https://a.example, %s}}]",
	"hooks[].http.timeout":   "hooks: [{name: h, http: {url: https://a.example, %s}}]",

	"http.ask_timeout":         "http: {%s}",
	"http.keep_alive":          "http: {%s}",
	"http.max_in_flight_bytes": "http: {%s}",
	"http.max_request_bytes":   "http: {%s}",
	"http.stream_after":        "http: {%s}",
	"http.streams_per_user":    "http: {%s}",

	"limits[].burst": "limits: [{name: l, what: [\"tools:*\"], per: user, rate: 1/s, %s}]",
	"limits[].rate":  "limits: [{name: l, what: [\"tools:*\"], per: user, %s}]",

	"naming.max_length": "naming: {%s}",

	"policy.rules[].approve_for": "policy: {default: allow, rules: [{name: r, ask: [\"tools:a/b\"], %s}]}",
	"policy.rules[].approvers.timeout": "policy: {default: allow, rules: [{name: r, ask: [\"tools:a/b\"], approvers: {who: {groups: [g]}, %s}}]}\n" +
		"auth: {mode: oauth, issuers: [{url: https://i.example}]}\npublic_url: https://g.example/mcp\nadmin: {listen: \"127.0.0.1:9090\", api: {loopback: viewer}}",

	"sessions.idle_timeout": "sessions: {%s}",
	"sessions.max":          "sessions: {%s}",
	"sessions.max_per_user": "sessions: {%s}",

	"sessions.results.max":            "sessions: {results: {%s}}",
	"sessions.results.max_bytes":      "sessions: {results: {%s}}",
	"sessions.results.max_per_user":   "sessions: {results: {%s}}",
	"sessions.results.max_user_bytes": "sessions: {results: {%s}}",

	"shutdown_delay":   "%s",
	"shutdown_timeout": "%s",

	"upstreams[].limits.asks_per_user":        "upstreams: [{name: a, url: https://a.example, limits: {%s}}]",
	"upstreams[].limits.concurrent":           "upstreams: [{name: a, url: https://a.example, limits: {%s}}]",
	"upstreams[].limits.concurrent_per_user":  "upstreams: [{name: a, url: https://a.example, limits: {%s}}]",
	"upstreams[].limits.questions_per_minute": "upstreams: [{name: a, url: https://a.example, limits: {%s}}]",
	"upstreams[].limits.items":                "upstreams: [{name: a, url: https://a.example, limits: {%s}}]",
	"upstreams[].limits.result_bytes":         "upstreams: [{name: a, url: https://a.example, limits: {%s}}]",
	"upstreams[].limits.sessions":             "upstreams: [{name: a, url: https://a.example, limits: {%s}}]",
	"upstreams[].results.inline":              "upstreams: [{name: a, url: https://a.example, results: {%s}}]",
	"upstreams[].results.keep":                "upstreams: [{name: a, url: https://a.example, results: {inline: 1MiB, %s}}]",
	"upstreams[].results.tools[].inline":      "upstreams: [{name: a, url: https://a.example, results: {inline: 1MiB, tools: [{names: [a], %s}]}}]",
	"upstreams[].results.tools[].keep":        "upstreams: [{name: a, url: https://a.example, results: {inline: 1MiB, tools: [{names: [a], %s}]}}]",
	"upstreams[].sandbox.cpu_seconds":         "upstreams: [{name: a, command: [a], sandbox: {%s}}]",
	"upstreams[].sandbox.lifetime":            "upstreams: [{name: a, command: [a], sandbox: {%s}}]",
	"upstreams[].sandbox.memory_bytes":        "upstreams: [{name: a, command: [a], sandbox: {%s}}]",
	"upstreams[].sandbox.processes":           "upstreams: [{name: a, command: [a], sandbox: {%s}}]",
	"upstreams[].timeout.ask":                 "upstreams: [{name: a, url: https://a.example, timeout: {%s}}]",
	"upstreams[].timeout.call":                "upstreams: [{name: a, url: https://a.example, timeout: {%s}}]",
	"upstreams[].timeout.connect":             "upstreams: [{name: a, url: https://a.example, timeout: {%s}}]",
	"upstreams[].timeout.idle":                "upstreams: [{name: a, url: https://a.example, timeout: {%s}}]",
	"upstreams[].timeout.total":               "upstreams: [{name: a, url: https://a.example, timeout: {%s}}]",

	"vault.transit.cache":   "vault: {transit: {url: https://v.example, key: k, token: t, %s}}",
	"vault.transit.timeout": "vault: {transit: {url: https://v.example, key: k, token: t, %s}}",
}

// numberKey is a key with a number.
type numberKey struct {
	unit string // that the number needs
	zero string // what 0 means; "" if it is refused
}

// numberKeys adds the keys of a type that have numbers, durations or texts that are read as one.
func numberKeys(t reflect.Type, at, zero string, found map[string]numberKey) {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		found[at] = numberKey{"s", zero}
	case t == reflect.TypeFor[policy.Rate]():
		found[at] = numberKey{"/s", zero}
	case t.Kind() == reflect.Pointer:
		numberKeys(t.Elem(), at, zero, found)
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Map:
		numberKeys(t.Elem(), at+"[]", "", found)
	case t.Kind() == reflect.Struct:
		for name, index := range strictyaml.Keys(t) {
			field := t.FieldByIndex(index)
			numberKeys(field.Type, strings.TrimPrefix(at+"."+name, "."), field.Tag.Get("zero"), found)
		}
	case reflect.Zero(t).CanInt() || reflect.Zero(t).CanUint() || reflect.Zero(t).CanFloat():
		found[at] = numberKey{"", zero}
	}
}

// valueAt returns the value of a key in the first element of each list on the way to it.
func valueAt(v reflect.Value, key string) reflect.Value {
	for name := range strings.SplitSeq(key, ".") {
		name, list := strings.CutSuffix(name, "[]")
		v = reflect.Indirect(v)
		v = v.FieldByIndex(strictyaml.Keys(v.Type())[name])
		if list {
			v = v.Index(0)
		}
	}
	return reflect.Indirect(v)
}

// No number or duration is silently replaced by another one: 0 stays 0 and means what
// docs/configuration.md says, or is refused. Negative values are refused.
func TestZeroMeansZeroOrIsRefused(t *testing.T) {
	found := make(map[string]numberKey)
	numberKeys(reflect.TypeFor[Config](), "", "", found)
	delete(found, "telemetry.log.level") // a word
	// those are checked as of upstreams
	maps.DeleteFunc(found, func(key string, _ numberKey) bool { return strings.HasPrefix(key, "defaults.") })
	if known := slices.Sorted(maps.Keys(zeroKeys)); !slices.Equal(known, slices.Sorted(maps.Keys(found))) {
		t.Fatalf("keys with numbers: %q, here: %q", slices.Sorted(maps.Keys(found)), known)
	}
	for key, is := range found {
		name := key[strings.LastIndexByte(key, '.')+1:]
		load := func(value string) (Config, []string) {
			text := fmt.Sprintf(zeroKeys[key], name+": "+value+is.unit)
			if !strings.HasPrefix(key, "upstreams") {
				text += "\nupstreams: [{name: a, url: https://a.example}]"
			}
			return parse(t, text+"\n")
		}
		of := func(all []string) bool {
			return len(all) > 0 && strings.HasPrefix(all[0], "c.yaml:1: ") && strings.Contains(all[0], name+": ")
		}
		cfg, problems := load("0")
		switch {
		case is.zero == "" && !of(problems), is.zero != "" && problems != nil:
			t.Errorf("%s: 0%s: %q; 0 means %q", key, is.unit, problems, is.zero)
		case is.zero != "":
			cfg = cfg.WithDefaults()
			cfg.Auth = cfg.Auth.WithDefaults(cfg.PublicURL)
			if got := valueAt(reflect.ValueOf(cfg), key); !got.IsValid() || !got.IsZero() {
				t.Errorf("%s: 0%s becomes %v", key, is.unit, got)
			}
		}
		if _, problems := load("-1"); !of(problems) {
			t.Errorf("%s: -1%s: %q", key, is.unit, problems)
		}
	}

	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| key | 0 means |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var rows []string
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if found[key].zero != "" {
			rows = append(rows, fmt.Sprintf("| `%s` | %s |", key, found[key].zero))
		}
	}
	if want := strings.Join(rows, "\n"); table != want {
		t.Errorf("docs/configuration.md has\n%s\nwant\n%s", table, want)
	}
}
