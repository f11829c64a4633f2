package stream

import (
	"strings"
	"testing"
)

// TestRequestOf reads request ids from names of streams that were given out.
func TestRequestOf(t *testing.T) {
	for _, id := range []string{`1`, `-7.5`, `"a"`, `"ü.-"`, `"` + strings.Repeat("x", maxNamed-2) + `"`} {
		name := CallName("user:s", "abc-1", []byte(id))
		if got := RequestOf("user:s", name); string(got) != id {
			t.Errorf("%s became %s", id, got)
		}
		if len(EventID(name, 1<<63)) > maxEventID {
			t.Errorf("%s: the event id %s is too long to be taken", id, EventID(name, 1<<63))
		}
		for what, got := range map[string][]byte{
			"another session": RequestOf("user:t", name),
			"another call":    RequestOf("user:s", strings.Replace(name, "abc-1", "abc-2", 1)),
		} {
			if got != nil {
				t.Errorf("%s: %s", what, got)
			}
		}
	}
	if got := CallOf(CallName("user:s", "abc-1", []byte("1"))); got != "abc-1" || CallOf("c-abc-1") != got {
		t.Errorf("the call is %s", got)
	}
	long := CallName("user:s", "abc-1", []byte(`"`+strings.Repeat("x", maxNamed)+`"`))
	for _, name := range []string{long, "c-abc-1", "c-", "c-abc-1-!", "c-abc-1-0", ""} {
		if got := RequestOf("user:s", name); got != nil {
			t.Errorf("%q holds %s", name, got)
		}
	}
}

// FuzzParseEventID: an id that is accepted is the one that EventID writes.
func FuzzParseEventID(f *testing.F) {
	f.Add("c-abc-1.17")
	f.Add("g-.0")
	f.Add("c-a.01")
	f.Fuzz(func(t *testing.T, id string) {
		if p, ok := ParseEventID(id); ok && EventID(p.Name, p.Seq) != id {
			t.Errorf("%q became %v", id, p)
		}
	})
}
