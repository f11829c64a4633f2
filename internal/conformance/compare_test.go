package main

import (
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	good := []check{{ID: "a", Name: "A", Status: statusSuccess}, {ID: "b", Name: "B", Status: statusSuccess}}
	bad := []check{{ID: "a", Name: "A", Status: statusSuccess},
		{ID: "b", Name: "B", Status: statusFailure, ErrorMessage: "no b"}}
	warned := []check{{ID: "a", Name: "A", Status: statusSuccess}, {ID: "b", Name: "B", Status: statusWarning}}
	short := good[:1]
	note := []check{{ID: "c", Name: "C", Status: statusInfo}}
	excuse := map[string]string{"s": "because"}
	tests := []struct {
		name            string
		direct, through []check
		excused         map[string]string
		mayLose         bool
		want            verdict
	}{
		{"both pass", good, good, nil, false, same},
		{"both fail and nobody said so", bad, bad, nil, false, unknown},
		{"both fail, as expected", bad, bad, excuse, false, expected},
		{"fails through us only", good, bad, nil, false, worse},
		{"fails through us only, and an entry wants to excuse it", good, bad, excuse, false, worse},
		{"fails directly only", bad, good, nil, false, better},
		{"passes, but has an entry", good, good, excuse, false, stale},
		{"a check is not made", good, short, nil, false, worse},
		{"a check does not apply, for no known reason", good, append(note, short...), nil, false, unexcused},
		{"a check does not apply, for a known reason", good, append(note, short...), excuse, false, untested},
		{"a check does not apply, and another fails", good, append(note, bad...), excuse, false, worse},
		{"fails through us only, between the eras", good, bad, nil, true, worse},
		{"fails through us only, between the eras, for a known reason", good, bad, excuse, true, explainedLoss},
		{"passes between the eras, but has an entry", good, good, excuse, true, stale},
		{"a warning more", good, warned, nil, false, worse},
		{"a warning less", warned, good, nil, false, same},
		{"a note less", append(note, good...), good, nil, false, same},
		{"one check fails either way, another is lost", bad, bad[1:], excuse, false, worse},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := compare(results{"s": tt.direct}, results{"s": tt.through}, tt.excused, tt.mayLose)
			if len(c) != 1 || c[0].verdict != tt.want {
				t.Errorf("compare() = %+v, want %q", c, tt.want)
			}
		})
	}
}

func TestCompareNamesEntriesWithoutScenario(t *testing.T) {
	c := compare(results{}, results{}, map[string]string{"gone": "because"}, false)
	if len(c) != 1 || c[0].verdict != missing {
		t.Errorf("compare() = %+v, want %q", c, missing)
	}
	var out strings.Builder
	if n := c.print(&out, "leg"); n != 1 || !strings.Contains(out.String(), "gone") {
		t.Errorf("print() = %d, wrote %q", n, out.String())
	}
}

func TestBaselineNamesLegsAndReasons(t *testing.T) {
	b, err := readBaseline("baseline.yml")
	if err != nil {
		t.Fatal(err)
	}
	for leg := range b {
		if !isLeg(leg) {
			t.Errorf("there is no leg %q", leg)
		}
	}
}
