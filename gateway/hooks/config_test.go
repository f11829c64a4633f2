package hooks

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

func TestValidate(t *testing.T) {
	cards := &Redact{Secrets: []string{"credit_card"}}
	for _, tt := range []struct {
		name string
		hook Hook
		want string // "" for a good one
	}{
		{"the least", Hook{Name: "a", Redact: cards}, ""},
		{"everything", Hook{Name: "a-1_b", Who: policy.Who{Users: []string{"alice"}}, What: []string{"tools:*"},
			On:     []string{Results},
			Refuse: &Refuse{Secrets: SecretNames(), Patterns: []string{"a+"}, Reason: "no"}}, ""},
		{"no name", Hook{Redact: cards}, "[0]: name: is needed"},
		{"a bad name", Hook{Name: "A b", Redact: cards}, `[0]: name: "A b": want at most 32`},
		{"nothing to do", Hook{Name: "a"}, "[0] (a): does nothing: want"},
		{"two things to do", Hook{Name: "a", Redact: cards, Refuse: &Refuse{Secrets: []string{"jwt"}}},
			"[0] (a): does several things"},
		{"a service", Hook{Name: "a", HTTP: &HTTP{URL: "https://a.example/b?c=d",
			Headers: map[string]mcp.Secret{"X-Key": "k"}, Timeout: time.Second, OnFailure: Passed, MaxBytes: 1}}, ""},
		{"a service on this machine", Hook{Name: "a", HTTP: &HTTP{URL: "http://127.0.0.1:8000"}}, ""},
		{"no service", Hook{Name: "a", HTTP: &HTTP{}}, "[0] (a): http: url: want https"},
		{"a service without TLS", Hook{Name: "a", HTTP: &HTTP{URL: "http://a.example"}},
			"[0] (a): http: url: http is only for loopback"},
		{"a service with a user", Hook{Name: "a", HTTP: &HTTP{URL: "https://a:b@a.example"}},
			"[0] (a): http: url: a user does not belong"},
		{"a private authority without TLS", Hook{Name: "a", HTTP: &HTTP{URL: "http://localhost", CAFile: "ca.pem"}},
			"[0] (a): http: ca_file, cert_file and key_file: they are for https"},
		{"a header of the gateway", Hook{Name: "a", HTTP: &HTTP{URL: "https://a.example",
			Headers: map[string]mcp.Secret{"Host": "b"}}}, "[0] (a): http: headers[Host]: the gateway sets it"},
		{"a long time", Hook{Name: "a", HTTP: &HTTP{URL: "https://a.example", Timeout: time.Hour}},
			"[0] (a): http: timeout: 1h0m0s: want at most 1m0s"},
		{"another failure", Hook{Name: "a", HTTP: &HTTP{URL: "https://a.example", OnFailure: "open"}},
			`[0] (a): http: on_failure: "open": want refuse or pass`},
		{"much content", Hook{Name: "a", HTTP: &HTTP{URL: "https://a.example", MaxBytes: 1 << 30}},
			"[0] (a): http: max_bytes: 1073741824: want at most 64MiB"},
		{"a bad pattern of tools", Hook{Name: "a", What: []string{"tools"}, Redact: cards}, "[0] (a): what[0]: "},
		{"no users", Hook{Name: "a", Who: policy.Who{Users: []string{}}, Redact: cards}, "[0] (a): who: users: is empty"},
		{"on nothing", Hook{Name: "a", On: []string{}, Redact: cards}, "[0] (a): on: is empty"},
		{"on something else", Hook{Name: "a", On: []string{"result"}, Redact: cards},
			`[0] (a): on[0]: "result": want arguments or results`},
		{"nothing to find", Hook{Name: "a", Redact: &Redact{}}, "[0] (a): redact: finds nothing"},
		{"an unknown secret", Hook{Name: "a", Refuse: &Refuse{Secrets: []string{"keys"}}},
			`[0] (a): refuse: secrets[0]: "keys": want one of aws_key, `},
		{"a broken pattern", Hook{Name: "a", Redact: &Redact{Patterns: []string{"("}}},
			"[0] (a): redact: patterns[0]: error parsing"},
		{"a pattern for everything", Hook{Name: "a", Redact: &Redact{Patterns: []string{"x*"}}},
			`[0] (a): redact: patterns[0]: "x*": fits the empty text`},
		{"a long pattern", Hook{Name: "a", Redact: &Redact{Patterns: []string{strings.Repeat("x", 1001)}}},
			"[0] (a): redact: patterns[0]: 1001 bytes"},
		{"a long text", Hook{Name: "a", Redact: &Redact{Patterns: []string{"x"}, With: "a\nb"}},
			"[0] (a): redact: with: want at most 300 bytes on one line"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := Config{tt.hook}.Validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if err != nil {
				return
			}
			if _, err := New(Config{tt.hook}, Deps{}); err != nil {
				t.Error(err)
			}
		})
	}
	doubts := Config{{Name: "a", Redact: cards}, {Name: "b", What: []string{"tools:crm/*", "tools:crn/*"},
		Redact: cards}}.Doubts([]string{"crm"})
	if len(doubts) != 1 || !strings.HasPrefix(doubts[0].Error(), `[1] (b): what[1]: "tools:crn/*"`) {
		t.Errorf("the doubts are %v", doubts)
	}
	twice := Config{{Name: "a", Redact: cards}, {Name: "a", Redact: cards}}
	if err := twice.Validate(); err == nil ||
		err.Error() != `[1] (a): name: hooks[0] is called "a" already: records and metrics tell them apart by their names` {
		t.Error(err)
	}
}

// TestLooksAt: which hooks look at some of the calls to a server.
func TestLooksAt(t *testing.T) {
	cards := &Redact{Secrets: []string{"credit_card"}}
	all := Config{
		{Name: "everything", Redact: cards}, {Name: "one", What: []string{"tools:crm/*"},
			On: []string{Results}, Redact: cards},
		{Name: "other", What: []string{"tools:wiki/*", "prompts:*/x"}, Redact: cards},
	}
	for upstream, want := range map[string]string{"crm": "everything one other", "wiki": "everything other",
		"files": "everything other"} {
		var names []string
		for _, h := range all.LooksAt(upstream) {
			names = append(names, h.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", upstream, got, want)
		}
	}
	if on := all.LooksAt("crm")[1].On; len(on) != 1 || on[0] != Results {
		t.Errorf("on %q", on)
	}
}
