package mcp

import "testing"

func TestArrays(t *testing.T) {
	drop := func(value Raw) Raw {
		if value.IsNull() {
			return nil
		}
		return value
	}
	for _, tt := range []struct{ got, want string }{
		{string(Array()), `[]`},
		{string(Array(Raw(`1`), Raw(`{}`))), `[1,{}]`},
		{string(Strings(nil)), `[]`},
		{string(Strings([]string{`a"b`, ""})), `["a\"b",""]`},
		{string(Raw(`[1, null ,"x"]`).Filter(drop)), `[1,"x"]`},
		{string(Raw(`[null]`).Filter(drop)), `[]`},
		{string(Raw(`{"a":1}`).Filter(drop)), `[]`},
	} {
		if tt.got != tt.want {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
	}
}

func TestUnescape(t *testing.T) {
	for uri, want := range map[string]string{
		"": "", "a/b": "a/b", "%41%6a%6A": "Ajj", "a%2Fb": "a/b", "%25%34%31": "%41", "100%": "100%", "%4": "%4",
		"%zz%41": "%zzA", "%%41": "%A", "%": "%", "+": "+",
	} {
		if got := Unescape(uri); got != want {
			t.Errorf("%q becomes %q, want %q", uri, got, want)
		}
	}
}
