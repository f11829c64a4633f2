package record

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFilter(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	c := NewChain("alpha.file", nil)
	var text []byte
	for i, r := range []*Record{
		{Kind: KindAnchor, Event: EventFile},
		{Kind: KindCall, ID: "c1", User: "alice", Method: "tools/call", Name: "crm__export", Upstream: "crm",
			Original: "export", Decision: "allow", Rule: "sales", RuleAt: "g.yaml:4", Outcome: "ok", Executed: ExecutedYes},
		{Kind: KindCall, ID: "c2", User: "bob", Method: "tools/call", Name: "crm__export", Upstream: "crm",
			Original: "export", Decision: "deny", Outcome: "invalid", Executed: ExecutedNo},
		{Kind: KindSignIn, User: "alice", Event: "ok"},
		{Kind: KindLists, Upstream: "crm", List: "tools", Added: []string{"a", "b"}, Changed: []string{"export"}},
	} {
		r.Time = at.Add(time.Duration(i) * time.Minute)
		text = c.Append(text, r)
	}
	text = append(text, "no record\n"...)
	for _, tt := range []struct {
		filter Filter
		want   []string
	}{
		{Filter{}, []string{"file", "allow, rule sales, at g.yaml:4, ok", "deny, invalid, executed no", "ok",
			"crm, tools, added a b, changed export"}},
		{Filter{User: "alice"}, []string{"allow, rule sales, at g.yaml:4, ok", "ok"}},
		{Filter{User: "alice", Kinds: []string{KindCall}}, []string{"allow, rule sales, at g.yaml:4, ok"}},
		{Filter{Name: "crm/export", Decisions: []string{"deny", "unknown"}}, []string{"deny, invalid, executed no"}},
		{Filter{Rule: "sales"}, []string{"allow, rule sales, at g.yaml:4, ok"}},
		{Filter{Name: "export", ID: "c1"}, []string{"allow, rule sales, at g.yaml:4, ok"}},
		{Filter{Name: "crm__export", Outcomes: []string{"upstream"}}, nil},
		{Filter{Since: at.Add(2 * time.Minute), Until: at.Add(3 * time.Minute)}, []string{"deny, invalid, executed no"}},
	} {
		var got []string
		err := tt.filter.Read(strings.NewReader(string(text)), func(line []byte, e *Record) error {
			if !strings.HasPrefix(string(line), seqMember) {
				t.Errorf("got %s", line)
			}
			got = append(got, e.What())
			return nil
		})
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %q, want %q, %v", tt.filter, got, tt.want, err)
		}
	}
	full := errors.New("full")
	if err := (Filter{}).Read(strings.NewReader(string(text)), func([]byte, *Record) error { return full }); err != full {
		t.Error(err)
	}
}
