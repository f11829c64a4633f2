package policy

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestConfigValidate(t *testing.T) {
	ok := []string{"tools:a/*"}
	rule := func(r Rule) Config { return Config{Rules: []Rule{r}} }
	tests := []struct {
		name   string
		config Config
		want   []string // parts of its problems, in order
	}{
		{"nothing", Config{}, nil},
		{"all", Config{Default: DefaultDeny, Rules: []Rule{{
			Name: "r", Who: Who{Users: []string{"a"}, Groups: []string{"https://a.example b"}, Emails: []string{"a@b"},
				Issuers: []string{"https://a.example"}, Scopes: []string{"s"}, Clients: []string{"c"},
				Claims: map[string][]string{"x": {"y"}}}, Allow: ok, Deny: ok, Ask: ok, When: `args.x == 1`, ApproveFor: time.Hour}}}, nil},
		{"default", Config{Default: "permit"}, []string{`default: "permit": want deny or allow`}},
		{"no name", rule(Rule{Allow: ok}), []string{"rules[0]: name: is needed"}},
		{"a name twice", Config{Rules: []Rule{{Name: "r", Allow: ok}, {Name: "r", Deny: ok}}},
			[]string{`rules[1] (r): name: rules[0] is called "r" already`}},
		{"a name with a colon", rule(Rule{Name: "a: b", Deny: []string{}}), []string{"rules[0]: deny: is empty"}},
		{"a name that is no text", rule(Rule{Name: "a\nb", Deny: ok}), []string{"name: \"a\\nb\": want"}},
		{"decides nothing", rule(Rule{Name: "r"}), []string{"rules[0] (r): decides nothing"}},
		{"empty lists", rule(Rule{Name: "r", Allow: []string{}, Ask: []string{}}),
			[]string{"allow: is empty", "ask: is empty"}},
		{"patterns", rule(Rule{Name: "r", Allow: []string{"tools:a/?"}, Deny: []string{"tools:a/x", "tool:a/x"},
			Ask: []string{"a"}}),
			[]string{`rules[0] (r): allow[0]: "tools:a/?"`, `rules[0] (r): deny[1]: "tool:a/x"`, "ask[0]"}},
		{"empty who", rule(Rule{Name: "r", Allow: ok,
			Who: Who{Users: []string{}, Groups: []string{""}, Claims: map[string][]string{}}}),
			[]string{"who: claims: is empty", "who: groups[0]: is empty", "who: users: is empty"}},
		{"patterns in who", rule(Rule{Name: "r", Allow: ok,
			Who: Who{Groups: []string{"eng-*"}, Scopes: []string{" a"}, Emails: []string{"a"}}}),
			[]string{"emails[0]: \"a\": want an address", "groups[0]: \"eng-*\": there are no patterns",
				"scopes[0]: \" a\": take the space"}},
		{"claims", rule(Rule{Name: "r", Allow: ok, Who: Who{Claims: map[string][]string{"https://x/a": {}, "b": {"*"}}}}),
			[]string{"claims[b][0]: \"*\": there are no patterns", "claims[https://x/a]: is empty"}},
		{"record", rule(Rule{Name: "r", Allow: ok, Record: Recording{Arguments: []string{"a", "order.id"},
			Redact: []string{"x"}}}), nil},
		{"record, wrong", rule(Rule{Name: "r", Allow: ok,
			Record: Recording{Arguments: []string{"a", "*", ".b"}, Redact: []string{""}}}),
			[]string{`rules[0] (r): record: arguments[1]: "*": there are no patterns`, `arguments[2]: ".b": want names`,
				"redact[0]: is empty"}},
		{"record of nothing", rule(Rule{Name: "r", Allow: ok,
			Record: Recording{Arguments: []string{}, Redact: []string{"x"}}}),
			[]string{"record: arguments: is empty", "record: redact: of a digest"}},
		{"when", rule(Rule{Name: "r", Allow: ok, When: `args.x ==`}), []string{"rules[0] (r): when: at character 10"}},
		{"when without truth", rule(Rule{Name: "r", Allow: ok, When: `args.x`}),
			[]string{"when: is a dyn: want true or false"}},
		{"approve_for", rule(Rule{Name: "r", Allow: ok, ApproveFor: time.Hour}), []string{"approve_for: says how long"}},
		{"approve_for negative", rule(Rule{Name: "r", Ask: ok, ApproveFor: -1}), []string{"approve_for: -1ns is negative"}},
		{"approve_for too long", rule(Rule{Name: "r", Ask: ok, ApproveFor: 25 * time.Hour}),
			[]string{"approve_for: 25h0m0s is longer than 24h"}},
		{"too many rules", Config{Rules: make([]Rule, maxRules+1)}, []string{"rules: 10001 are more than 10000"}},
		{"too many patterns", rule(Rule{Name: "r", Deny: make([]string, maxPatterns+1)}),
			[]string{"deny: 1001 patterns are more than 1000"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			checkProblems(t, tt.config.Validate(), tt.want)
			if _, err := New(tt.config); (err != nil) != (tt.want != nil) {
				t.Errorf("New: %v", err)
			}
		})
	}
}

func TestLimitsValidate(t *testing.T) {
	rate := Rate{1, time.Second}
	tests := []struct {
		name   string
		limits Limits
		want   []string
	}{
		{"none", nil, nil},
		{"all", Limits{{Name: "a", Who: Who{Groups: []string{"g"}}, What: []string{"tools:*"}, Per: PerTool, Rate: rate,
			Burst: 3}}, nil},
		{"nothing", Limits{{}}, []string{"[0]: name: is needed", "[0]: rate: is needed"}},
		{"wrong", Limits{{Name: "a", Rate: rate}, {Name: "a", Who: Who{Users: []string{"*"}}, What: []string{"x"},
			Per: "session", Rate: rate, Burst: -1}},
			[]string{`[1] (a): name: limits[0] is called "a" already`, "[1] (a): who: users[0]", "[1] (a): what[0]",
				`[1] (a): per: "session": want user, client or tool`, "[1] (a): burst: -1"}},
		{"too many", make(Limits, maxRules+1), []string{"10001 limits are more than"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { checkProblems(t, tt.limits.Validate(), tt.want) })
	}
}

func checkProblems(t *testing.T, err error, want []string) {
	t.Helper()
	text := strings.Join(leaves(err), "\n")
	if lines := strings.Count(text, "\n") + 1; text != "" && lines != len(want) || (text == "") != (want == nil) {
		t.Errorf("got %d problems:\n%s\nwant %d", lines, text, len(want))
	}
	for _, part := range want {
		_, rest, found := strings.Cut(text, part)
		if !found {
			t.Errorf("%q is missing, or not in order, in:\n%v", part, err)
			continue
		}
		text = rest
	}
}

// leaves are the problems as the loader takes them apart: each with all that was put in
// front of it.
func leaves(err error) []string {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var texts []string
		for _, part := range joined.Unwrap() {
			texts = append(texts, leaves(part)...)
		}
		return texts
	}
	inner := errors.Unwrap(err)
	if inner == nil {
		return []string{err.Error()}
	}
	prefix, found := strings.CutSuffix(err.Error(), inner.Error())
	if !found {
		return []string{err.Error()}
	}
	texts := leaves(inner)
	for i := range texts {
		texts[i] = prefix + texts[i]
	}
	return texts
}

func TestRate(t *testing.T) {
	for text, want := range map[string]Rate{
		"1/s": {1, time.Second}, "60/m": {60, time.Minute}, "500/h": {500, time.Hour}, "1000000/d": {1000000, 24 * time.Hour},
		"": {}, "60": {}, "60/": {}, "/m": {}, "0/m": {}, "-1/m": {}, "1.5/m": {}, "+1/m": {}, "01/m": {}, "1/M": {},
		"1/min": {}, "1 /m": {}, "1/m/s": {}, "1000001/s": {}, "9999999999999999999999/s": {},
	} {
		var got Rate
		err := got.UnmarshalText([]byte(text))
		if got != want || (err == nil) != (want != Rate{}) {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
		if err == nil && got.String() != text {
			t.Errorf("%q is written as %q", text, got)
		}
	}
}

func TestIsZero(t *testing.T) {
	if !(Config{}).IsZero() || (Config{Default: DefaultDeny}).IsZero() || (Config{Rules: []Rule{}}).IsZero() {
		t.Error("an empty section and none are taken for each other")
	}
}

// TestIssuers: where several issuers are accepted, what gives something says whose
// users and groups it means.
func TestIssuers(t *testing.T) {
	const a, b = "https://a.example", "https://b.example"
	ok := []string{"tools:a/*"}
	tests := []struct {
		name     string
		rule     Rule
		accepted []string
		want     []string
	}{
		{"one issuer", Rule{Allow: ok, Who: Who{Groups: []string{"dev"}}}, []string{a}, nil},
		{"everybody", Rule{Allow: ok}, []string{a, b}, nil},
		{"a group of whichever", Rule{Allow: ok, Who: Who{Groups: []string{"dev"}}}, []string{a, b},
			[]string{"rules[0] (r): who: there are several issuers"}},
		{"a user of whichever", Rule{Allow: ok, Who: Who{Users: []string{"alice"}}}, []string{a, b},
			[]string{"who: there are several issuers"}},
		{"a claim of whichever", Rule{Allow: ok, Who: Who{Claims: map[string][]string{"x": {"y"}}}}, []string{a, b},
			[]string{"who: there are several issuers"}},
		{"asked of a user of whichever", Rule{Ask: ok, Who: Who{Users: []string{"alice"}}}, []string{a, b}, nil},
		{"denied to a group of whichever", Rule{Deny: ok, Who: Who{Groups: []string{"dev"}}}, []string{a, b}, nil},
		{"of one of them", Rule{Allow: ok, Who: Who{Groups: []string{"dev"}, Issuers: []string{a}}}, []string{a, b}, nil},
		{"of one of them, in front", Rule{Allow: ok, Who: Who{Groups: []string{a + " dev"}, Users: []string{b + " alice"}}},
			[]string{a, b}, nil},
		{"one of two has none in front", Rule{Allow: ok, Who: Who{Groups: []string{a + " dev", "sre"}}}, []string{a, b},
			[]string{"who: there are several issuers"}},
		{"of another one", Rule{Deny: ok, Who: Who{Groups: []string{"https://c.example dev"}, Issuers: []string{a, a + "/"}}},
			[]string{a, b},
			[]string{`who: issuers[1]: "https://a.example/" is not one of auth.issuers`,
				`who: groups[0]: "https://c.example" is not`}},
		{"without authentication", Rule{Allow: ok, Who: Who{Issuers: []string{a}}}, nil,
			[]string{"is not one of auth.issuers"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.rule.Name = "r"
			checkProblems(t, Config{Rules: []Rule{tt.rule}}.CheckIssuers(tt.accepted), tt.want)
		})
	}
	limits := Limits{{Name: "l", Who: Who{Groups: []string{"dev"}, Issuers: []string{b}}}}
	checkProblems(t, limits.CheckIssuers([]string{a}), []string{"[0] (l): who: issuers[0]"})
	checkProblems(t, limits.CheckIssuers([]string{a, b}), nil)
}
