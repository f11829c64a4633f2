package policy

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// FuzzArguments compares what conditions are told of arguments with what encoding/json
// reads: the same, or nothing.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `{"a":{"b":[1,2.5,-0,1e3,"\u0041",true,null]}}`, `{"a":1,"A":2}`,
		`{"a":"\ud800"}`, `{"n":18446744073709551616}`, `[]`, `{"\u0061":1,"a":2}`} {
		f.Add([]byte(s))
	}
	p := newForTest(f, Config{Rules: []Rule{{Name: "a", Allow: []string{"tools:*"}, When: `args.a == 1`}}})
	caller := user("alice")
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 10_000 || !json.Valid(text) || !utf8.Valid(text) {
			return // the front does not let it in
		}
		text = bytes.TrimSpace(text)
		got, _, err := readObject(text)
		if err == nil {
			decoder := json.NewDecoder(bytes.NewReader(text))
			decoder.UseNumber()
			var want map[string]any
			if err := decoder.Decode(&want); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if !sameValue(got, want) {
				t.Errorf("%s\ngot  %#v\nwant %#v", text, got, want)
			}
		}
		if p.Decide(t.Context(), &caller, tool("u", "x"), text).Effect == Allow {
			var read struct{ A *float64 }
			// it takes a, A, the last of them
			if err := json.Unmarshal(text, &read); err != nil || read.A == nil || *read.A != 1 {
				t.Errorf("%s is allowed, read as %v (%v)", text, read.A, err)
			}
		}
	})
}

// sameValue compares what readObject reads with what encoding/json does.
func sameValue(got, want any) bool {
	if types.IsError(asValue(got)) {
		return true
	}
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for name := range want {
			if !sameValue(got[name], want[name]) {
				return false
			}
		}
		return true
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for i := range want {
			if !sameValue(got[i], want[i]) {
				return false
			}
		}
		return true
	case json.Number:
		switch got := got.(type) {
		case float64:
			n, err := want.Float64()
			return err == nil && n == got
		case int64, uint64:
			text, ok := plainText(got)
			return ok && (text == want.String() || want == "-0" && text == "0")
		}
		return false
	}
	return reflect.DeepEqual(got, want)
}

func asValue(v any) *types.Err {
	e, _ := v.(*types.Err)
	return e
}

// FuzzWhen: no condition that is accepted takes a policy down, and none that cannot be
// evaluated allows.
func FuzzWhen(f *testing.F) {
	for _, s := range []string{`args.a == 1`, `args.a.matches(args.b)`, `args.l.exists(x, x == caller.user)`,
		`{"a": args}.a.b > 2.5`, `caller.claims.x.y`, `size(args) > 1 ? true : args.b`,
		`[args.a, 1, "x"].map(i, i)[0] == 1`, `timestamp(args.t) > timestamp("2026-01-01T00:00:00Z")`, `int(args.a) / 0 == 1`,
		`"a" in args`, `args[caller.user]`, `type(args.a) == int`} {
		f.Add(s, `{"a":1,"b":"x","l":[1,2],"t":"2026-11-21T00:00:00Z"}`)
	}
	language, err := newLanguage()
	if err != nil {
		f.Fatal(err)
	}
	who := newSubject(mcp.Caller{Subject: "alice", Groups: []string{"a"}, Claims: mcp.Raw(`{"x":{"y":true}}`)})
	target := tool("u", "x")
	f.Fuzz(func(t *testing.T, when, args string) {
		c, err := language.compile(when, true)
		if err != nil || !json.Valid([]byte(args)) {
			return
		}
		result, err := c.eval(t.Context(), facts{subject: who, target: &target,
			args: &arguments{text: mcp.Raw(strings.TrimSpace(args))}})
		if (err != nil) != (result == failed) || result == isOpen {
			t.Errorf("%s: outcome %d, %v", when, result, err)
		}
		// What is certain before the arguments are known is what comes of every call.
		early, _ := c.eval(t.Context(), facts{subject: who, target: &target})
		if early != isOpen && early != result && result != failed {
			t.Errorf("%s with %s: %d before, %d (%v) with arguments", when, args, early, result, err)
		}
	})
}
