package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestStrictConditions: what a lenient server could take for the value that a rule denies
// passes no condition, with a schema that says what is meant and with one that does not.
func TestStrictConditions(t *testing.T) {
	const typed = `{"type":"object","properties":{"force":{"type":"boolean"},"mode":{"enum":["soft","hard"]},"n":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}}}}`
	const open = `{"type":"object"}`
	no, yes := false, true
	tests := []struct {
		name, schema, when, args string
		strict                   *bool
		want                     string // "", or what the refusal says
	}{
		{"what is denied", typed, `has(args.force) && args.force == true`, `{"force":true}`, nil,
			"Not allowed with these arguments: u__x"},
		{"what is not", typed, `has(args.force) && args.force == true`, `{"force":false}`, nil, ""},
		{"left out", typed, `has(args.force) && args.force == true`, `{}`, nil, ""},
		{"text for true", typed, `args.force == true`, `{"force":"true"}`, nil,
			`argument "force" is string and has to be boolean`},
		{"a number for true", typed, `args.force == true`, `{"force":1}`, nil,
			`argument "force" is integer and has to be boolean`},
		{"a list for true", typed, `args.force == true`, `{"force":[true]}`, nil,
			`argument "force" is array and has to be boolean`},
		{"null for true", typed, `args.force == true`, `{"force":null}`, nil,
			`argument "force" is null and has to be boolean`},
		{"text for true, of no type", open, `args.force == true`, `{"force":"true"}`, nil,
			"Not allowed with these arguments: u__x"},
		{"a number for true, of no type", open, `args.force == true`, `{"force":1}`, nil, "Not allowed"},
		{"a list for true, of no type", open, `args.force == true`, `{"force":[true]}`, nil, "Not allowed"},
		{"not what is wanted, of no type", open, `args.force != false`, `{"force":"false"}`, nil, "Not allowed"},
		{"false, of no type", open, `args.force == true`, `{"force":false}`, nil, ""},
		{"another case of a value", typed, `args.mode == "hard"`, `{"mode":"HARD"}`, nil,
			`argument "mode" is none of the values that the tool takes`},
		{"a value in a list", typed, `args.mode == "hard"`, `{"mode":["hard"]}`, nil,
			`argument "mode" is none of the values`},
		{"one of several, in a list", open, `args.mode in ["hard", "harder"]`, `{"mode":["hard"]}`, nil, "Not allowed"},
		{"one of several", open, `args.mode in ["hard", "harder"]`, `{"mode":"soft"}`, nil, ""},
		{"a number as text", open, `args.n == 7`, `{"n":"7"}`, nil, "Not allowed"},
		{"a number written otherwise", typed, `args.n == 7`, `{"n":7.0}`, nil, "Not allowed"},
		{"another number", typed, `args.n == 7`, `{"n":8e0}`, nil, ""},
		{"text for a list", typed, `size(args.tags) > 3`, `{"tags":"a,b"}`, nil,
			`argument "tags" is string and has to be array`},
		{"an element of another type", typed, `"root" in args.tags`, `{"tags":[["root"]]}`, nil,
			`argument "tags[0]" is array and has to be string`},
		{"an element of another type, of no type", open, `"root" in args.tags`, `{"tags":[["root"]]}`, nil, "Not allowed"},
		{"deep down", open, `args.o == {"a": [1, true]}`, `{"o":{"a":[1,"true"]}}`, nil, "Not allowed"},
		{"an argument beside it", typed, `args.force == true`, `{"force":false,"n":"x"}`, nil,
			`argument "n" is string and has to be integer`},
		{"no schema", ``, `args.force == true`, `{"force":false}`, nil, "the tool's input schema is not known"},
		{"a schema that can be read in two ways", `{"type":"object","type":"array"}`, `args.force == true`, `{"force":false}`,
			nil, `"type" stands twice`},
		{"strict by word", typed, `args.force == true`, `{"force":"true"}`, &yes, "has to be boolean"},
		{"not strict", typed, `args.force == true`, `{"force":"true"}`, &no, ""},
		{"not strict, without a schema", ``, `args.force == true`, `{"force":false}`, &no, ""},
		{"not strict, denied", typed, `args.force == true`, `{"force":true}`, &no, "Not allowed with these arguments"},
		{"not about arguments", ``, `caller.user == "bob" || target.name == "y"`, `{"force":"true"}`, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newShelves(tool("u", "x"))
			s.schemas = map[string]mcp.Raw{"u__x": mcp.Raw(tt.schema)}
			h := guardForTest(t, Config{Rules: []Rule{{Name: "a", Allow: []string{"tools:u/*"}},
				{Name: "d", Deny: []string{"tools:u/*"}, When: tt.when, Strict: tt.strict}}}, s)
			for range 2 { // the schema is read, and known
				_, err := h.Handle(t.Context(), callOf(mcp.MethodToolsCall, "u__x",
					`{"name":"u__x","arguments":`+tt.args+`}`, user("alice")))
				e, _ := errors.AsType[*mcp.Error](err)
				switch {
				case tt.want == "" && err != nil:
					t.Errorf("got %v", err)
				case tt.want != "" && (e == nil || e.Code != mcp.CodeInvalidParams || !strings.Contains(e.Message, tt.want)):
					t.Errorf("got %v, want %q", err, tt.want)
				}
			}
			if n := len(s.reached()); n > 0 && tt.want != "" {
				t.Errorf("%d calls got through", n)
			}
		})
	}
}

// TestStrictPrompts: the arguments of prompts are text.
func TestStrictPrompts(t *testing.T) {
	p := newForTest(t, Config{Default: DefaultAllow,
		Rules: []Rule{{Name: "d", Deny: []string{"prompts:*"}, When: `has(args.n) && args.n == "7"`}}})
	caller, target := user("alice"), mcp.Target{Kind: mcp.KindPrompts, Upstream: "u", Name: "p"}
	for args, want := range map[string]Effect{`{"n":"7"}`: Deny, `{"n":"8"}`: Allow, `{"n":7}`: Deny,
		`{"m":7}`: Deny, ``: Allow} {
		if got := p.Decide(t.Context(), &caller, target, mcp.Raw(args)); got.Effect != want {
			t.Errorf("%s: got %v, want %v", args, got.Effect, want)
		}
	}
}

// TestNotWithTheseArguments: what a caller has in the lists is not called unknown.
// Whatever they do not have there is, whatever the arguments.
func TestNotWithTheseArguments(t *testing.T) {
	tests := []struct {
		name   string
		rules  []Rule
		known  bool
		method string
	}{
		{"allowed with others", []Rule{{Name: "a", Allow: []string{"*:*"}, When: `args.x == 1`}}, true, mcp.MethodToolsCall},
		{"denied with these", []Rule{{Name: "a", Allow: []string{"*:*"}},
			{Name: "d", Deny: []string{"*:*"}, When: `args.x == 2`}}, true, mcp.MethodToolsCall},
		{"a prompt", []Rule{{Name: "a", Allow: []string{"*:*"}, When: `args.x == "1"`}}, true, mcp.MethodPromptsGet},
		{"denied always", []Rule{{Name: "a", Allow: []string{"*:*"}, When: `args.x == 1`},
			{Name: "d", Deny: []string{"*:*"}}}, false, mcp.MethodToolsCall},
		{"allowed to others", []Rule{{Name: "a", Allow: []string{"*:*"}, When: `args.x == 1 && caller.user == "bob"`}}, false,
			mcp.MethodToolsCall},
		{"nothing", nil, false, mcp.MethodToolsCall},
		{"only denied with these", []Rule{{Name: "d", Deny: []string{"*:*"}, When: `args.x == 2`}}, false,
			mcp.MethodToolsCall},
		{"only asked about", []Rule{{Name: "q", Ask: []string{"*:*"}, When: `args.x == 2`}}, false, mcp.MethodToolsCall},
		{"a resource", []Rule{{Name: "a", Allow: []string{"*:*"}, When: `args.x == 1`}}, false, mcp.MethodResourcesRead},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			targets := map[string]mcp.Target{mcp.MethodToolsCall: tool("u", "x"),
				mcp.MethodPromptsGet: {Kind: mcp.KindPrompts, Upstream: "u",
					Name: "x"}, mcp.MethodResourcesRead: resource("u", "x")}
			target := targets[tt.method]
			h := guardForTest(t, Config{Rules: tt.rules}, newShelves(target))
			_, err := h.Handle(t.Context(), callOf(tt.method, public(target), `{"arguments":{"x":2}}`, user("alice")))
			e, _ := errors.AsType[*mcp.Error](err)
			if e == nil || e.Code != mcp.CodeInvalidParams {
				t.Fatalf("got %v", err)
			}
			unknown := mcp.ErrUnknown(tt.method, public(target))
			if known := strings.HasPrefix(e.Message, "Not allowed with these arguments: "); known != tt.known ||
				!known && (e.Message != unknown.Message || string(e.Data) != string(unknown.Data)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestShape(t *testing.T) {
	tests := []struct{ name, schema, args, want string }{
		{"nothing said", `{}`, `{"a":1}`, ""},
		{"a whole number", `{"properties":{"a":{"type":"integer"}}}`, `{"a":1.0}`, ""},
		{"no whole number", `{"properties":{"a":{"type":"integer"}}}`, `{"a":1.5}`, "is number and has to be integer"},
		{"a number", `{"properties":{"a":{"type":"number"}}}`, `{"a":1}`, ""},
		{"one of two types", `{"properties":{"a":{"type":["string","null"]}}}`, `{"a":null}`, ""},
		{"none of two types", `{"properties":{"a":{"type":["string","null"]}}}`, `{"a":1}`, "has to be string or null"},
		{"nullable", `{"properties":{"a":{"type":"string","nullable":true}}}`, `{"a":null}`, ""},
		{"const", `{"properties":{"a":{"const":"x"}}}`, `{"a":"y"}`, "none of the values"},
		{"a member too many", `{"properties":{"a":{}},"additionalProperties":false}`, `{"b":1}`,
			`argument "b" is not one of the tool's`},
		{"a member by its pattern", `{"patternProperties":{"^b":{}},"additionalProperties":false}`, `{"b":1}`, ""},
		{"other members", `{"additionalProperties":{"type":"string"}}`, `{"b":1}`, `argument "b" is integer`},
		{"in an object", `{"properties":{"a":{"properties":{"b":{"type":"string"}}}}}`, `{"a":{"b":[]}}`,
			`argument "a.b" is array`},
		{"in an array", `{"properties":{"a":{"items":{"type":"string"}}}}`, `{"a":["x",true]}`, `argument "a[1]" is boolean`},
		{"a tuple", `{"properties":{"a":{"prefixItems":[{"type":"string"}],"items":{"type":"integer"}}}}`, `{"a":["x","y"]}`,
			`argument "a[1]" is string`},
		{"a tuple of old", `{"properties":{"a":{"items":[{"type":"string"}],"additionalItems":false}}}`, `{"a":["x","y"]}`,
			`argument "a[1]" is not one`},
		{"anyOf fits", `{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, `{"a":null}`, ""},
		{"anyOf does not", `{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, `{"a":1}`,
			"is integer, which fits nothing"},
		{"oneOf of objects",
			`{"properties":{"a":{"oneOf":[{"properties":{"k":{"const":1}}},{"properties":{"k":{"const":2}}}]}}}`,
			`{"a":{"k":2}}`, ""},
		{"allOf", `{"properties":{"a":{"allOf":[{},{"type":"string"}]}}}`, `{"a":1}`, "has to be string"},
		{"a reference", `{"properties":{"a":{"$ref":"#/$defs/x~1y"}},"$defs":{"x/y":{"type":"string"}}}`, `{"a":1}`,
			"has to be string"},
		{"a reference into a list",
			`{"properties":{"a":{"anyOf":[{"type":"string"}]},"b":{"$ref":"#/properties/a/anyOf/0"}}}`, `{"b":1}`,
			"has to be string"},
		{"a tree", `{"$ref":"#/$defs/n","$defs":{"n":{"properties":{"v":{"type":"integer"},"l":{"$ref":"#/$defs/n"}}}}}`,
			`{"l":{"l":{"v":"x"}}}`, `argument "l.l.v" is string`},
		{"a reference to nothing", `{"properties":{"a":{"$ref":"#/$defs/x"}}}`, `{"a":1}`, "refers to what is not in it"},
		{"a reference to elsewhere", `{"properties":{"a":{"$ref":"https://evil.example/x"}}}`, `{"a":1}`,
			"refers to what is not in it"},
		{"a reference that is not needed", `{"properties":{"a":{"$ref":"https://evil.example/x"}}}`, `{"b":1}`, ""},
		{"a circle", `{"$ref":"#"}`, `{}`, "too many steps"},
		{"no schema", `{"properties":{"a":7}}`, `{"a":1}`, "no JSON Schema"},
		{"a number that cannot be told", `{"properties":{"a":{"type":"string"}}}`, `{"a":1e999}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args, _, err := readObject(mcp.Raw(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			got := readSchema(mcp.Raw(tt.schema)).check(args)
			if tt.want == "" && got != nil || tt.want != "" && (got == nil || !strings.Contains(got.Error(), tt.want)) {
				t.Errorf("got %v, want %q", got, tt.want)
			}
		})
	}
}

// TestHostileSchemas: whatever a server writes, a comparison ends soon, and what it could
// not tell is no yes.
func TestHostileSchemas(t *testing.T) {
	var doubling strings.Builder
	doubling.WriteString(`{"$ref":"#/$defs/0","$defs":{`)
	for i := range 60 {
		fmt.Fprintf(&doubling, `"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%d"}]},`, i, i+1, i+1)
	}
	doubling.WriteString(`"60":{}}}`)
	many := `{"a":[` + strings.Repeat("1,", 90_000) + `1]}`
	var members strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&members, `,"%d":1`, i)
	}
	members.WriteString("}")
	for name, tt := range map[string]struct{ schema, args string }{
		"references that double": {doubling.String(), `{}`},
		"two in a circle": {`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`,
			`{}`},
		"many alternatives": {`{"properties":{"a":{"items":{"anyOf":[` +
			strings.Repeat(`{"type":"string"},`, 2000) + `{}]}}}}`, many},
		"many values": {`{"properties":{"a":{"enum":[` + strings.Repeat("1,", 10_000) + `1]}}}`, `{"a":1}`},
		"a choice for each of many": {`{"properties":{"a":{"items":{"enum":[` + strings.Repeat("2,", 8000) + `1]}}}}`,
			many},
		"many members, again and again": {`{"allOf":[` + strings.Repeat(`{"properties":{"x":{}}},`, 2000) + `{}]}`,
			"{" + members.String()[1:]},
		"a long name before many": {`{"additionalProperties":{"items":{"type":"boolean"},"prefixItems":[` +
			strings.Repeat(`{},`, 4000) + `{}]}}`, `{"` + strings.Repeat("n", 4<<20) + `":[` +
			strings.Repeat("1,", 50_000) + `1]}`},
		"nested deeper than is read":   {strings.Repeat(`{"properties":{"a":`, 300) + `{}` + strings.Repeat(`}}`, 300), `{}`},
		"a pointer through everything": {`{"properties":{"a":{"$ref":"#/` + strings.Repeat("x/", 5000) + `"}}}`, `{"a":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			args, _, err := readObject(mcp.Raw(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := readSchema(mcp.Raw(tt.schema)).check(args); err == nil {
				t.Error("it was judged")
			}
			// a bounded check takes well under one, an unbounded one minutes
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func FuzzShape(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"anyOf":[{"type":"string"},{"items":{"const":1}}]}}}`, `{"a":[1]}`)
	f.Add(`{"$ref":"#"}`, `{}`)
	f.Fuzz(func(t *testing.T, schema, args string) {
		values, _, err := readObject(mcp.Raw(args))
		if err != nil {
			return
		}
		first := readSchema(mcp.Raw(schema)).check(values)
		if again := readSchema(mcp.Raw(schema)).check(values); fmt.Sprint(first) != fmt.Sprint(again) {
			t.Errorf("%s with %s: %v, then %v", schema, args, first, again)
		}
	})
}
