package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// nested wraps a schema in n levels of properties.
func nested(n int, schema string) string {
	return strings.Repeat(`{"type":"object","properties":{"p":`, n) + schema + strings.Repeat(`}}`, n)
}

func TestParamHeaders(t *testing.T) {
	const region = `{"type":"string","x-mcp-header":"Region"}`
	tests := []struct{ name, schema, want, bad string }{
		{name: "none", schema: `{"type":"object","properties":{"a":{"type":"string","description":"\u00e9"}}}`},
		{name: "no schema"},
		{name: "one", schema: `{"type":"object","properties":{"region":` + region + `,"q":{"type":"string"}}}`,
			want: "Region=region:string"},
		{name: "all types",
			schema: `{"properties":{"s":{"type":"string","x-mcp-header":"S"},"i":{"type":"integer","x-mcp-header":"I"},"b":{"type":"boolean","x-mcp-header":"b"}}}`,
			want:   "S=s:string I=i:integer b=b:boolean"},
		{name: "nested properties", schema: nested(2, region), want: "Region=p/p:string"},
		{name: "a property of that name", schema: `{"properties":{"x-mcp-header":{"type":"string"}}}`},
		{name: "a default of that name",
			schema: `{"properties":{"a":{"type":"object","default":{"x-mcp-header":1},"examples":[{"x-mcp-header":1}]}}}`},
		{name: "an escaped keyword", schema: `{"properties":{"a":{"type":"string","x-mcp-heade\u0072":"A"}}}`,
			want: "A=a:string"},
		{name: "an escaped property", schema: `{"properties":{"a\u0062":{"type":"string","x-mcp-header":"A"}}}`,
			want: "A=ab:string"},
		{name: "an empty name", schema: `{"properties":{"a":{"type":"string","x-mcp-header":""}}}`, bad: "no header name"},
		{name: "a line end in the name", schema: `{"properties":{"a":{"type":"string","x-mcp-header":"A\r\nB"}}}`,
			bad: "no header name"},
		{name: "a space in the name", schema: `{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}`,
			bad: "no header name"},
		{name: "a name that is not ASCII", schema: `{"properties":{"a":{"type":"string","x-mcp-header":"é"}}}`,
			bad: "no header name"},
		{name: "a name that is no string", schema: `{"properties":{"a":{"type":"string","x-mcp-header":1}}}`,
			bad: "no header name"},
		{name: "twice but for case", schema: `{"properties":{"a":` + region +
			`,"b":{"type":"string","x-mcp-header":"REGION"}}}`, bad: "two parameters"},
		{name: "a number", schema: `{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`, bad: "not of type"},
		{name: "an array", schema: `{"properties":{"a":{"type":"array","x-mcp-header":"A"}}}`, bad: "not of type"},
		{name: "no type", schema: `{"properties":{"a":{"x-mcp-header":"A"}}}`, bad: "not of type"},
		{name: "several types", schema: `{"properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}}`,
			bad: "not of type"},
		{name: "the root", schema: `{"type":"object","x-mcp-header":"A"}`, bad: "only properties"},
		{name: "items", schema: `{"properties":{"a":{"type":"array","items":` + region + `}}}`, bad: "only properties"},
		{name: "properties of items", schema: `{"properties":{"a":{"type":"array","items":{"properties":{"r":` + region +
			`}}}}}`, bad: "only properties"},
		{name: "oneOf", schema: `{"oneOf":[{"properties":{"r":` + region + `}}]}`, bad: "only properties"},
		{name: "not", schema: `{"not":{"properties":{"r":` + region + `}}}`, bad: "only properties"},
		{name: "then", schema: `{"if":{},"then":{"properties":{"r":` + region + `}}}`, bad: "only properties"},
		{name: "$defs", schema: `{"$defs":{"r":` + region + `},"properties":{"a":{"$ref":"#/$defs/r"}}}`,
			bad: "only properties"},
		{name: "additionalProperties", schema: `{"additionalProperties":` + region + `}`, bad: "only properties"},
		{name: "patternProperties", schema: `{"patternProperties":{"^x":` + region + `}}`, bad: "only properties"},
		{name: "the deepest", schema: nested(maxSchemaDepth-1, region),
			want: "Region=" + strings.Repeat("p/", maxSchemaDepth-2) + "p:string"},
		{name: "too deep", schema: nested(maxSchemaDepth, region), bad: "too large"},
		{name: "too many nodes", schema: `{"properties":{"r":` + region + manySchemas(maxSchemaNodes) + `}}`,
			bad: "too large"},
		{name: "large without annotations", schema: nested(200, `{"type":"string","pattern":"\u0041"}`)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found, err := ParamHeaders(mcp.Raw(test.schema))
			if test.bad != "" {
				if err == nil || !strings.Contains(err.Error(), test.bad) {
					t.Errorf("got %v, %v, want %q", found, err, test.bad)
				}
				return
			}
			var got []string
			for _, p := range found {
				got = append(got, fmt.Sprintf("%s=%s:%s", p.Name, strings.Join(p.Path, "/"), p.Type))
			}
			if err != nil || strings.Join(got, " ") != test.want {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func manySchemas(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, `,"x%d":{}`, i)
	}
	return out.String()
}

func TestParamHeaderValue(t *testing.T) {
	at := func(kind string, path ...string) ParamHeader { return ParamHeader{Name: "X", Path: path, Type: kind} }
	tests := []struct {
		name      string
		param     ParamHeader
		arguments string
		want      string
		absent    bool
		equal     []string // other spellings of the same value
		different []string
	}{
		{name: "a string", param: at("string", "a"), arguments: `{"b":1,"a":"us-west1"}`, want: "us-west1",
			equal: []string{"=?base64?dXMtd2VzdDE=?=", " us-west1 "}, different: []string{"", "US-WEST1", "us-west2",
				"=?base64?!?="}},
		{name: "a string to encode", param: at("string", "a"), arguments: `{"a":"caf\u00e9"}`, want: "=?base64?Y2Fmw6k=?=",
			different: []string{"café", "cafe"}},
		{name: "an empty string", param: at("string", "a"), arguments: `{"a":""}`, want: "", different: []string{"x"}},
		{name: "nested", param: at("string", "a", "b"), arguments: `{"a":{"b":"x"},"b":"y"}`, want: "x"},
		{name: "an escaped name", param: at("string", "ab"), arguments: `{"a\u0062":"x"}`, want: "x"},
		{name: "an integer", param: at("integer", "a"), arguments: `{"a":42}`, want: "42",
			equal: []string{"42.0", "4.2e1", "42.000"}, different: []string{"42.5", "43", "0x2a", "", "-42",
				"042", "forty-two"}},
		{name: "an integer with a fraction of zeros", param: at("integer", "a"), arguments: `{"a":-7.0}`, want: "-7",
			equal: []string{"-7.0"}},
		{name: "true", param: at("boolean", "a"), arguments: `{"a":true}`, want: "true",
			different: []string{"True", "false", "1"}},
		{name: "false", param: at("boolean", "a"), arguments: `{"a":false}`, want: "false"},
		{name: "null", param: at("string", "a"), arguments: `{"a":null}`, absent: true},
		{name: "absent", param: at("string", "a"), arguments: `{"b":"x"}`, absent: true},
		{name: "no arguments", param: at("string", "a"), absent: true},
		{name: "absent further up", param: at("string", "a", "b"), arguments: `{"a":"x"}`, absent: true},
		{name: "an object", param: at("string", "a"), arguments: `{"a":{}}`, absent: true},
		{name: "no integer", param: at("integer", "a"), arguments: `{"a":1.5}`, absent: true},
		{name: "an integer that is not safe", param: at("integer", "a"), arguments: `{"a":9007199254740992}`, absent: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			arguments := mcp.Raw(test.arguments)
			got, ok := test.param.Value(arguments)
			if got != test.want || ok == test.absent {
				t.Fatalf("got %q, %v, want %q", got, ok, test.want)
			}
			if test.param.Matches(got, arguments) == test.absent {
				t.Errorf("%q matches: %v", got, test.absent)
			}
			for _, header := range test.equal {
				if !test.param.Matches(header, arguments) {
					t.Errorf("%q does not match", header)
				}
			}
			for _, header := range test.different {
				if test.param.Matches(header, arguments) {
					t.Errorf("%q matches", header)
				}
			}
		})
	}
}

func TestInteger(t *testing.T) {
	tests := map[string]string{
		"0": "0", "-0": "0", "0.0": "0", "0e999": "0", "42": "42", "42.0": "42", "4.2e1": "42", "420e-1": "42",
		"-4.20E+1": "-42", "1e3": "1000",
		"9007199254740991": "9007199254740991", "-9007199254740991": "-9007199254740991",
		"9.007199254740991e15": "9007199254740991",
		"9007199254740992":     "", "1e16": "", "1e999": "", "1e9999999999": "", "1.5": "", "0.1": "", "1e-1": "",
		"1e-999": "", "9007199254740990.5": "",
		"": "", "-": "", "+1": "", "01": "", "1.": "", " 1": "", "1x": "", "0x1": "", "NaN": "", "1e": "",
		strings.Repeat("1", 100): "",
	}
	for in, want := range tests {
		if got, ok := integer(in); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", in, got, ok, want)
		}
	}
}

func FuzzParamHeaders(f *testing.F) {
	f.Add(`{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}`, `{"a":"é"}`)
	f.Add(`{"properties":{"a":{"properties":{"b":{"type":"integer","x-mcp-header":"B"}}}}}`, `{"a":{"b":42.0}}`)
	f.Add(`{"oneOf":[{"x-mcp-header":"B"}]}`, `{}`)
	f.Fuzz(func(t *testing.T, schema, arguments string) {
		found, err := ParamHeaders(mcp.Raw(schema))
		if err != nil || !json.Valid([]byte(schema)) || !grammarOK([]byte(arguments)) {
			return
		}
		for _, p := range found {
			if !isToken(p.Name) || len(p.Path) == 0 {
				t.Fatalf("%s: %+v", schema, p)
			}
			value, ok := p.Value(mcp.Raw(strings.TrimSpace(arguments)))
			if matches := p.Matches(value, mcp.Raw(strings.TrimSpace(arguments))); matches != ok {
				t.Fatalf("%+v of %s: %q, %v, matches %v", p, arguments, value, ok, matches)
			}
			if !plainHeader(value) {
				t.Fatalf("%q cannot stand in a header", value)
			}
		}
	})
}
