package gateway

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

// zeroKeys are all keys with numbers or durations. text is a file that sets the key; zero says
// what 0 means, "" for refused.
var zeroKeys = map[string]struct{ text, zero string }{
	"auth.issuers[].max_token_lifetime": {"auth: {mode: oauth, issuers: [{url: https://i.example, %s}]}\npublic_url: https://g.example/mcp\npolicy: {default: deny}", "no bound"},
	"auth.leeway":                       {"auth: {%s}", "none"},
	"auth.max_stale":                    {"auth: {%s}", ""},

	"connections.idle_timeout": {"connections: {%s}", ""},
	"connections.max":          {"connections: {%s}", ""},
	"connections.per_address":  {"connections: {%s}", ""},

	"disclosure.grant": {"disclosure: {mode: progressive, %s}", ""},

	"http.ask_timeout":         {"http: {%s}", ""},
	"http.keep_alive":          {"http: {%s}", ""},
	"http.max_in_flight_bytes": {"http: {%s}", ""},
	"http.max_request_bytes":   {"http: {%s}", ""},
	"http.stream_after":        {"http: {%s}", ""},
	"http.streams_per_user":    {"http: {%s}", ""},

	"limits[].burst": {"limits: [{name: l, what: [\"tools:*\"], per: user, rate: 1/s, %s}]", ""},

	"naming.max_length": {"naming: {%s}", ""},

	"policy.rules[].approve_for": {"policy: {default: allow, rules: [{name: r, ask: [\"tools:a/b\"], %s}]}", "one call"},

	"sessions.idle_timeout": {"sessions: {%s}", ""},
	"sessions.max":          {"sessions: {%s}", ""},
	"sessions.max_per_user": {"sessions: {%s}", ""},

	"shutdown_delay":   {"%s", "no delay"},
	"shutdown_timeout": {"%s", ""},

	"upstreams[].limits.asks_per_user":        {"upstreams: [{name: a, url: https://a.example, limits: {%s}}]", ""},
	"upstreams[].limits.concurrent":           {"upstreams: [{name: a, url: https://a.example, limits: {%s}}]", ""},
	"upstreams[].limits.concurrent_per_user":  {"upstreams: [{name: a, url: https://a.example, limits: {%s}}]", ""},
	"upstreams[].limits.questions_per_minute": {"upstreams: [{name: a, url: https://a.example, limits: {%s}}]", ""},
	"upstreams[].limits.result_bytes":         {"upstreams: [{name: a, url: https://a.example, limits: {%s}}]", ""},
	"upstreams[].limits.sessions":             {"upstreams: [{name: a, url: https://a.example, limits: {%s}}]", ""},
	"upstreams[].timeout.ask":                 {"upstreams: [{name: a, url: https://a.example, timeout: {%s}}]", ""},
	"upstreams[].timeout.call":                {"upstreams: [{name: a, url: https://a.example, timeout: {%s}}]", ""},
	"upstreams[].timeout.connect":             {"upstreams: [{name: a, url: https://a.example, timeout: {%s}}]", ""},
	"upstreams[].timeout.idle":                {"upstreams: [{name: a, url: https://a.example, timeout: {%s}}]", ""},
	"upstreams[].timeout.total":               {"upstreams: [{name: a, url: https://a.example, timeout: {%s}}]", ""},
}

// numberKeys adds the keys of a type that have numbers (false) or durations (true).
func numberKeys(t reflect.Type, at string, found map[string]bool) {
	if t.Kind() == reflect.Int || t.Kind() == reflect.Int64 {
		if !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			found[at] = t == reflect.TypeFor[time.Duration]()
		}
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		numberKeys(t.Elem(), at, found)
	case reflect.Slice, reflect.Map:
		numberKeys(t.Elem(), at+"[]", found)
	case reflect.Struct:
		for name, index := range strictyaml.Keys(t) {
			numberKeys(t.FieldByIndex(index).Type, joinKeys(at, name), found)
		}
	}
}

// No number or duration is silently replaced by another one: 0 means what the documentation
// says, or is refused. Negative values are refused.
func TestZeroMeansZeroOrIsRefused(t *testing.T) {
	found := make(map[string]bool)
	numberKeys(reflect.TypeFor[Config](), "", found)
	if known := slices.Sorted(maps.Keys(zeroKeys)); !slices.Equal(known, slices.Sorted(maps.Keys(found))) {
		t.Errorf("keys with numbers: %q, told here: %q", slices.Sorted(maps.Keys(found)), known)
	}
	for key, is := range zeroKeys {
		name := key[strings.LastIndexByte(key, '.')+1:]
		unit := ""
		if found[key] {
			unit = "s"
		}
		problems := func(value string) []string {
			text := fmt.Sprintf(is.text, name+": "+value)
			if !strings.HasPrefix(key, "upstreams") {
				text += "\nupstreams: [{name: a, url: https://a.example}]"
			}
			_, problems := parse(t, text+"\n")
			return problems
		}
		of := func(all []string) bool { return len(all) > 0 && strings.Contains(all[0], name+": ") }
		if got := problems("0" + unit); is.zero == "" && !of(got) || is.zero != "" && got != nil {
			t.Errorf("%s: 0%s: %q, want %q", key, unit, got, is.zero)
		}
		if got := problems("-1" + unit); !of(got) {
			t.Errorf("%s: -1%s: %q", key, unit, got)
		}
	}
}
