package mcp

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestRawWith(t *testing.T) {
	tests := []struct{ name, in, member, value, want string }{
		{"replaces in place", `{"a":1, "b" : 2 ,"c":3}`, "b", `{"x":[]}`, `{"a":1, "b" : {"x":[]} ,"c":3}`},
		{"adds to an empty object", `{ }`, "a", `1`, `{ "a":1}`},
		{"adds last", `{"a":1 }`, "b", `2`, `{"a":1 ,"b":2}`},
		{"quotes the name", `{}`, `a"b`, `1`, `{"a\"b":1}`},
		{"makes an object of nothing", ``, "a", `1`, `{"a":1}`},
		{"looks at this level only", `{"x":{"a":1}}`, "a", `2`, `{"x":{"a":1},"a":2}`},
		{"takes no name for a value", `{"x":"a","y":"\"a\":1"}`, "a", `2`, `{"x":"a","y":"\"a\":1","a":2}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := Raw(test.in)
			if got := string(in.With(test.member, Raw(test.value))); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if string(in) != test.in {
				t.Errorf("the input changed to %s", in)
			}
		})
	}
}

func TestRawAt(t *testing.T) {
	r := Raw(`{"a":{"b":{"c":1}},"d":null}`)
	for path, want := range map[string]string{"a b c": "1", "a b": `{"c":1}`, "d": "null", "d e": "", "a x c": "",
		"a b c d": "", "x": ""} {
		if got := r.At(strings.Fields(path)...); string(got) != want || (got == nil) != (want == "") {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	if got := r.At(); string(got) != string(r) {
		t.Errorf("nothing of %s is %s", r, got)
	}
}

func TestRawWithout(t *testing.T) {
	tests := []struct{ name, in, member, want string }{
		{"first", `{"a":1,"b":2}`, "a", `{"b":2}`},
		{"last takes its comma along", `{"a":1 , "b":2}`, "b", `{"a":1 }`},
		{"middle", `{"a":1, "b":"},{", "c":3}`, "b", `{"a":1, "c":3}`},
		{"only", `{ "a":[1,2] }`, "a", `{  }`},
		{"absent", `{"a":1}`, "b", `{"a":1}`},
		{"no object", `[1]`, "a", `[1]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := string(Raw(test.in).Without(test.member)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestRawEdit(t *testing.T) {
	set := func(name, value string) Edit { return Edit{name, Raw(value)} }
	tests := []struct {
		name  string
		in    string
		edits []Edit
		want  string
	}{
		{"nothing to do", `{"a":1, "b":2}`, []Edit{{Name: "x"}}, `{"a":1, "b":2}`},
		{"replace, remove, add", `{"name":"x__a", "_meta":{"k":1},"arguments":{"a":1.0}}`,
			[]Edit{set("name", `"a"`), {Name: "_meta"}, set("more", `1`)}, `{"name":"a","arguments":{"a":1.0},"more":1}`},
		{"remove all", `{"a":1,"b":2}`, []Edit{{Name: "a"}, {Name: "b"}}, `{}`},
		{"twins go too", `{"a":1,"b":2,"a":3}`, []Edit{set("a", `4`)}, `{"a":4,"b":2}`},
		{"the last edit of a name decides", `{"a":1}`,
			[]Edit{set("a", `2`), {Name: "a"}, set("b", "1"), set("b", "2")}, `{"b":2}`},
		{"nothing to start with", ``, []Edit{set("a", `1`)}, `{"a":1}`},
		{"nothing to remove from", ``, []Edit{{Name: "a"}}, ``},
		{"null counts as empty", `null`, []Edit{set("a", `1`)}, `{"a":1}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := string(Raw(test.in).Edit(test.edits...)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if len(test.edits) == 1 && test.edits[0].Value != nil {
				if got := string(Raw(test.in).AppendEdited([]byte("dst,"), test.edits[0])); got != "dst,"+test.want {
					t.Errorf("appended %s, want %s", got, test.want)
				}
			}
		})
	}
	t.Run("any number of edits", func(t *testing.T) {
		var edits []Edit
		for i := range 150 {
			edits = append(edits, Edit{"m" + string(Int(int64(i))), Int(int64(i))})
		}
		out := Raw(`{"m149":0}`).Edit(edits...)
		for _, e := range edits {
			if got, _ := out.Member(e.Name); string(got) != string(e.Value) {
				t.Fatalf("%s is %s", e.Name, got)
			}
		}
	})
	t.Run("the same bytes when nothing changes", func(t *testing.T) {
		in := Raw(`{"a":1}`)
		if out := in.Edit(Edit{Name: "b"}); &out[0] != &in[0] {
			t.Error("it was copied")
		}
	})
}

func TestRawMembersAreCapped(t *testing.T) {
	in := Raw(`{"a":[1],"b":2}`)
	a, _ := in.Member("a")
	_ = append(a, "xxxx"...)
	if string(in) != `{"a":[1],"b":2}` {
		t.Errorf("appending to a member wrote into its object: %s", in)
	}
}

// hasEscapedName reports whether a name is one that Raw leaves as it is written.
func hasEscapedName(r Raw) bool {
	found := false
	r.Each(func(name string, _ Raw) bool {
		found = strings.Contains(name, `\`)
		return !found
	})
	return found
}

// FuzzRaw compares reading and changing by position with encoding/json.
func FuzzRaw(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1}`, ` { "a" : { "b" : [ 1 , "]" ] } , "c":"\"}" } `, `[1,"a,b",{"x":[]},[[]],null]`,
		`"é\u00e9\ud83d\ude00\n"`, `"\ud800x"`,
		`{"a\\":1,"b\"":2}`, `{"a":1,"a":2}`, `"\\"`, `{"":0}`, `-1.5e+10`, `{"a":"\\\\\"","b":[]}`,
	} {
		f.Add([]byte(seed), "a", "v")
	}
	f.Fuzz(func(t *testing.T, data []byte, name, text string) {
		r := Raw(bytes.TrimSpace(data))
		// Whatever the text is, nothing may panic or go on for ever.
		r.Member(name)
		r.Elements(func(Raw) bool { return true })
		r.StringValue()
		with := r.With(name, String(text))
		lacks := r.Without(name)
		edited := r.Edit(Edit{name, String(text)}, Edit{Name: "b"})
		if !json.Valid(r) || !utf8.Valid(r) || !utf8.ValidString(name) || hasEscapedName(r) {
			return
		}
		switch {
		case r.IsObject():
			var want map[string]json.RawMessage
			if err := json.Unmarshal(r, &want); err != nil {
				t.Fatal(err)
			}
			got := map[string]json.RawMessage{}
			names := 0
			r.Each(func(n string, v Raw) bool { got[n] = json.RawMessage(v); names++; return true })
			equalObjects(t, "each", got, want)
			if names != len(want) {
				return // duplicates: which one With changes is told, not which one json takes
			}
			changed := map[string]json.RawMessage{}
			for n, v := range want {
				changed[n] = v
			}
			delete(changed, name)
			equalObjects(t, "without", decode(t, lacks), changed)
			changed[name] = json.RawMessage(String(text))
			equalObjects(t, "with", decode(t, with), changed)
			if name != "b" {
				delete(changed, "b")
				equalObjects(t, "edit", decode(t, edited), changed)
			}
		case r.IsArray():
			var want, got []json.RawMessage
			if err := json.Unmarshal(r, &want); err != nil {
				t.Fatal(err)
			}
			r.Elements(func(v Raw) bool { got = append(got, json.RawMessage(v)); return true })
			if !slices.EqualFunc(got, want, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
				t.Fatalf("elements of %s: %q, want %q", r, got, want)
			}
		case r[0] == '"':
			var want string
			if err := json.Unmarshal(r, &want); err != nil {
				t.Fatal(err)
			}
			if got, ok := r.StringValue(); !ok || got != want {
				t.Fatalf("%s says %q, want %q", r, got, want)
			}
		}
	})
}

func decode(t *testing.T, r Raw) map[string]json.RawMessage {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(r, &m); err != nil {
		t.Fatalf("%s: %v", r, err)
	}
	return m
}

func equalObjects(t *testing.T, what string, got, want map[string]json.RawMessage) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %q, want %q", what, got, want)
	}
	for name, v := range want {
		if !bytes.Equal(got[name], v) {
			t.Fatalf("%s: member %q is %q, want %q", what, name, got[name], v)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	for _, seed := range []string{"", "a", "\x00\x1f\"\\/\n\r\t\b", "é\u2028\U0001f600", "\xff\xc3", "a\xed\xa0\x80"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := String(s)
		var back string
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		want := strings.ToValidUTF8(s, "\x00")
		if utf8.ValidString(s) && back != s || !utf8.ValidString(s) &&
			utf8.RuneCountInString(back) < utf8.RuneCountInString(want) {
			t.Fatalf("%q came back as %q", s, back)
		}
		if again, ok := got.StringValue(); !ok || again != back {
			t.Fatalf("%q reads as %q", got, again)
		}
	})
}

func BenchmarkMembers(b *testing.B) {
	bodies := []struct{ name, body string }{
		{"text", `{"content":[{"type":"text","text":"` +
			strings.Repeat("The quick brown fox jumps over the lazy dog. ", 1<<20/45) + `"}]}`},
		{"escapes", `{"content":[{"type":"text","text":"` +
			strings.Repeat(`2026-11-01 12:00:00 INFO \"something\" happened\n`, 1<<20/48) + `"}]}`},
		{"dense", `{"structuredContent":[` + strings.Repeat(`{"id":12345,"name":"item","tags":["a","b"],"ok":true,"v":12.5},`,
			1<<20/63) + `0]}`},
	}
	for _, body := range bodies {
		r := Raw(body.body)
		b.Run(body.name, func(b *testing.B) {
			b.SetBytes(int64(len(r)))
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				r.Members(func([]byte, Raw) bool { n++; return true })
			}
		})
	}
}
