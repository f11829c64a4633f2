package mcp

import "testing"

func TestOutline(t *testing.T) {
	var nothing *Outline
	r := Raw(`{"a":1,"b":[2]}`)
	var notes Outliner
	notes.Add(1, 5, 6)
	notes.Add(7, 11, 14)
	o := notes.Outline(r, false)
	for name, o := range map[string]*Outline{"none": nothing, "one": o} {
		var got string
		o.Members(r, func(name []byte, value Raw) bool {
			got += string(name) + string(value) + " "
			return string(name) != "b"
		})
		if got != "a1 b[2] " {
			t.Errorf("%s: members %q", name, got)
		}
		if value, ok := o.Member(r, "b"); !ok || string(value) != "[2]" {
			t.Errorf("%s: b is %q", name, value)
		}
		if _, ok := o.Member(r, "c"); ok {
			t.Errorf("%s: there is no c", name)
		}
	}
	if nothing.LacksURIs(r) || !o.LacksURIs(r) {
		t.Error("who knows of URIs?")
	}
	// Of a value that is another one, if only by a byte more, it knows nothing.
	for _, other := range []Raw{append(Raw{}, r...), r[:len(r)-1], r[1:], nil} {
		if o.LacksURIs(other) {
			t.Errorf("%s: it was not outlined", other)
		}
	}
	longer := append(Raw{}, `{"c":1}`...)
	if value, ok := o.Member(longer, "c"); !ok || string(value) != "1" {
		t.Errorf("c of another object is %q", value)
	}
}
