package hooks

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// hide replaces the texts that have the word.
func hide(text []byte) []byte {
	if !bytes.Contains(text, []byte("SECRET")) && !bytes.Contains(text, []byte("777")) {
		return nil
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("SECRET"), []byte("*")), []byte("777"), []byte("*"))
}

func TestRewrite(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		data        bool
		want        string
	}{
		{"nothing", `{ "a" : [1.50, 1e3, true, null, "x"] }`, true, `{ "a" : [1.50, 1e3, true, null, "x"] }`},
		{"a text", `{"b":1.0, "a":"a SECRET b","c" : 2}`, false, `{"b":1.0, "a":"a * b","c" : 2}`},
		{"an escaped text", `{"a":"\u0053ECR\u0045T \ud83d\ude00 \/"}`, false, `{"a":"* 😀 /"}`},
		{"a text alone", `"SECRET"`, false, `"*"`},
		{"quotes within", `["\"SECRET\\", "\\", "SECRET"]`, false, `["\"*\\", "\\", "*"]`},
		{"names of data", `{"SECRET" : {"\u0053ECRET":1}}`, true, `{"*" : {"*":1}}`},
		{"names of messages", `{"SECRET":{"SECRET" :"x"}}`, false, `{"SECRET":{"SECRET" :"x"}}`},
		{"numbers of data", `{"a":-17770.5,"b":[777e1,12]}`, true, `{"a":"-1*0.5","b":["*e1",12]}`},
		{"numbers of messages", `{"a":777}`, false, `{"a":777}`},
		{"JSON in a text", `{"text":"{\"SECRET\": 777, \"a\":\"\\u0053ECRET\", \"n\":1.00}"}`, false,
			`{"text":"{\"*\": \"*\", \"a\":\"*\", \"n\":1.00}"}`},
		{"JSON in JSON in a text", `["[\"[\\\"\\\\u0053ECRET\\\"]\"]"]`, false, `["[\"[\\\"*\\\"]\"]"]`},
		{"almost JSON in a text", `["[\"SECRET\""]`, false, `["[\"*\""]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			value := mcp.Raw(tt.value)
			got := rewrite(value, tt.data, hide)
			if string(got) != tt.want {
				t.Errorf("%s\nbecomes\n%s\nwant\n%s", tt.value, got, tt.want)
			}
			if string(value) != tt.value {
				t.Errorf("the value itself was changed to %s", value)
			}
			if tt.want == tt.value && !same(got, value) {
				t.Error("it is a copy")
			}
		})
	}
}

// FuzzRewrite: whatever the value, the rest of it stays byte by byte, and what is made of it is
// valid and says what it said, but for the texts that were replaced.
func FuzzRewrite(f *testing.F) {
	for _, seed := range []string{
		`{ "a" : [1.50, -0e3, true, null, "SECRET"], "SECRET":777, "a":"\u0053ECRET" }`,
		`"{\"SECRET\":[777]}"`, `["\\\"SECRET", "\ud83d", "\ud83d\ude00SECRET"]`, `-777.0e+10`, "\"\xffSECRET\xff\"",
		`[[[{}]]]`, `"[\"[\\\"SECRET\\\"]\"]"`,
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, value []byte, data bool) {
		if !json.Valid(value) {
			rewrite(value, data, hide) // it must end
			return
		}
		before := bytes.Clone(value)
		if kept := rewrite(value, data, func([]byte) []byte { return nil }); !same(kept, value) {
			t.Fatalf("%s becomes %s, though no text was replaced", value, kept)
		}
		got := rewrite(value, data, hide)
		if !bytes.Equal(value, before) {
			t.Fatalf("%s was changed to %s", before, value)
		}
		if !json.Valid(got) {
			t.Fatalf("%s\nbecomes\n%s", value, got)
		}
		if again := rewrite(got, data, hide); !bytes.Equal(again, got) {
			t.Fatalf("%s\nbecomes\n%s\nand then\n%s", value, got, again)
		}
		if was, is := outline(t, value, data), outline(t, got, data); !reflect.DeepEqual(was, is) {
			t.Fatalf("%s\nbecomes\n%s\nwhich is\n%q\nnot\n%q", value, got, is, was)
		}
	})
}

// outline returns the tokens of a value, without the texts that may be replaced.
func outline(t *testing.T, value []byte, data bool) (tokens []any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var inObject []bool
	name := false
	for {
		token, err := d.Token()
		if err != nil {
			return tokens
		}
		isName := name
		if text, ok := token.(string); ok {
			if !isName || data {
				token = "a text"
			}
			if hide([]byte(text)) == nil && !isJSON([]byte(text)) && !strings.Contains(text, "*") {
				token = text
			}
		}
		if number, ok := token.(json.Number); ok && data && hide([]byte(number)) != nil {
			token = "a text"
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			inObject = append(inObject, token == json.Delim('{'))
			name = token == json.Delim('{')
		case json.Delim('}'), json.Delim(']'):
			if inObject = inObject[:len(inObject)-1]; len(inObject) > 0 {
				name = inObject[len(inObject)-1]
			}
		default:
			name = !isName && len(inObject) > 0 && inObject[len(inObject)-1]
		}
		tokens = append(tokens, token)
	}
}
