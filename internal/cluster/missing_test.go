package cluster

import (
	"strings"
	"testing"
	"time"
)

// TestMissing: who went without leaving is missed until somebody comes, or for an hour.
func TestMissing(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name   string
		events string // -name: went, ~name: went while it was leaving, +name: came
		want   string
	}{
		{"nobody went", "+a +b", ""},
		{"one went", "-a", "a"},
		{"one left", "~a", ""},
		{"replaced", "-a +b", ""},
		{"one of two is replaced", "-a -b +c", "b"},
		{"the second is back", "-a -b +b", "a"},
		{"more came than went", "-a +b +c", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var all missing
			for event := range strings.FieldsSeq(tt.events) {
				p := &peer{name: event[1:]}
				switch event[0] {
				case '+':
					all.came(p.name)
				case '~':
					p.lease.Leaving = true
					fallthrough
				default:
					all.went(p, now)
				}
			}
			var got []string
			for _, one := range all.at(now.Add(missingFor - 1)) {
				got = append(got, one.Name)
			}
			if strings.Join(got, " ") != tt.want || len(all.at(now.Add(missingFor))) != 0 {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	var all missing
	for range maxReplicas + 5 {
		all.went(&peer{name: "x"}, now)
	}
	if len(all) != maxReplicas {
		t.Errorf("%d are missed", len(all))
	}
}
