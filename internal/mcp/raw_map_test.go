package mcp

import "testing"

func TestRawMap(t *testing.T) {
	double := func(name []byte, value Raw) Raw {
		if string(name) == "keep" || string(value) == "0" {
			return value
		}
		return append(append(Raw{}, value...), value...)
	}
	tests := []struct {
		name, in, want string
	}{
		{"members", `{ "a" : 1,"keep":[2] , "b":"x" }`, `{ "a" : 11,"keep":[2] , "b":"x""x" }`},
		{"elements", `[ 1, 0 ,{"a":2}]`, `[ 11, 0 ,{"a":2}{"a":2}]`},
		{"nothing changes", `{"keep":1}`, `{"keep":1}`},
		{"empty object", `{}`, `{}`},
		{"empty array", `[ ]`, `[ ]`},
		{"a number", `7`, `7`},
		{"nothing", ``, ``},
		{"cut short", `[1,`, `[11,`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(Raw(tt.in).Map(double)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	same := Raw(`{"keep":1}`)
	if got := same.Map(double); &got[0] != &same[0] {
		t.Error("an unchanged value was copied")
	}
}
