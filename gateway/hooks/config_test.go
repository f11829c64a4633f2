package hooks

import (
	"strings"
	"testing"

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
		{"everything", Hook{Name: "a-1_b", Who: policy.Who{Users: []string{"alice"}}, What: []string{"tools:*"}, On: []string{Results},
			Refuse: &Refuse{Secrets: SecretNames(), Patterns: []string{"a+"}, Reason: "no"}}, ""},
		{"no name", Hook{Redact: cards}, "[0]: name: is needed"},
		{"a bad name", Hook{Name: "A b", Redact: cards}, `[0]: name: "A b": want at most 32`},
		{"nothing to do", Hook{Name: "a"}, "[0] (a): does nothing: want"},
		{"two things to do", Hook{Name: "a", Redact: cards, Refuse: &Refuse{Secrets: []string{"jwt"}}}, "[0] (a): refuse: there is redact already"},
		{"a bad pattern of tools", Hook{Name: "a", What: []string{"tools"}, Redact: cards}, "[0] (a): what[0]: "},
		{"no users", Hook{Name: "a", Who: policy.Who{Users: []string{}}, Redact: cards}, "[0] (a): who: users: is empty"},
		{"on nothing", Hook{Name: "a", On: []string{}, Redact: cards}, "[0] (a): on: is empty"},
		{"on something else", Hook{Name: "a", On: []string{"result"}, Redact: cards}, `[0] (a): on[0]: "result": want arguments or results`},
		{"nothing to find", Hook{Name: "a", Redact: &Redact{}}, "[0] (a): redact: finds nothing"},
		{"an unknown secret", Hook{Name: "a", Refuse: &Refuse{Secrets: []string{"keys"}}}, `[0] (a): refuse: secrets[0]: "keys": want one of aws_key, `},
		{"a broken pattern", Hook{Name: "a", Redact: &Redact{Patterns: []string{"("}}}, "[0] (a): redact: patterns[0]: error parsing"},
		{"a pattern for everything", Hook{Name: "a", Redact: &Redact{Patterns: []string{"x*"}}}, `[0] (a): redact: patterns[0]: "x*": fits the empty text`},
		{"a long pattern", Hook{Name: "a", Redact: &Redact{Patterns: []string{strings.Repeat("x", 1001)}}}, "[0] (a): redact: patterns[0]: 1001 bytes"},
		{"a long text", Hook{Name: "a", Redact: &Redact{Patterns: []string{"x"}, With: "a\nb"}}, "[0] (a): redact: with: want at most 300 bytes on one line"},
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
	twice := Config{{Name: "a", Redact: cards}, {Name: "a", Redact: cards}}
	if err := twice.Validate(); err == nil || err.Error() != `[1] (a): name: hooks[0] is called "a" already: records and metrics tell them apart by their names` {
		t.Error(err)
	}
}
