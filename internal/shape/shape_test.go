package shape_test

import (
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/shape"
)

func TestText(t *testing.T) {
	const canary = "C4N4RY"
	for _, tt := range []struct {
		name, message string
		has           []string // of the shape
	}{
		{"a call", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"crm__export","arguments":{"customer":"C4N4RY","deep":{"C4N4RY":["C4N4RY"]},"C4N4RY is no name":1},
			"_meta":{"progressToken":"C4N4RY","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"C4N4RY"},"x":"C4N4RY"}}}`,
			[]string{`"id": 7`, `"method": "tools/call"`, `"name": "crm__export"`, `"customer": "<string, 6 bytes>"`,
				`"deep": "<object, 1 members, 21 bytes>"`, `"<name, 17 bytes>": "<number>"`,
				`"io.modelcontextprotocol/protocolVersion": "2026-07-28"`}},
		{"a result", `{"jsonrpc":"2.0","id":"C4N4RY","result":{"content":[{"type":"text","text":"C4N4RY"},{"type":"C4N4RY","blob":"C4N4RY"}],"structuredContent":{"C4N4RY":"C4N4RY","n":4711},"isError":false,"resultType":"complete"}}`,
			[]string{`"type": "text"`, `"text": "<string, 6 bytes>"`, `"structuredContent": "<object, 2 members`,
				`"isError": false`, `"resultType": "complete"`}},
		{"an error", `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"C4N4RY","data":{"why":"C4N4RY"}}}`,
			[]string{`"code": -32602`, `"id": null`, `"data": "<object, 1 members`}},
		{"a question", `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"C4N4RY","requestedSchema":{"properties":{"C4N4RY":{}}},"mode":"form"}}`, []string{`"method": "elicitation/create"`, `"mode": "form"`}},
		{"answers", `{"method":"tools/call","params":{"inputResponses":{"k":{"action":"accept","content":{"C4N4RY":"C4N4RY","code":123}}},"requestState":"C4N4RY"}}`, []string{`"action": "accept"`, `"content": "<object, 2 members, 30 bytes>"`, `"requestState": "<string, 6 bytes>"`}},
		{"words of others",
			`{"method":"C4N4RY","params":{"level":"C4N4RY","uri":7,"ref":{"type":"C4N4RY","name":"p"},"name":["C4N4RY"]},"C4N4RY\u0000":1}`, []string{`"name": "p"`, `"uri": "<number>"`, `"<name, 7 bytes>"`}},
		{"a name that nothing has", `{"method":"tools/list","params":{"name":"C4N4RY","uri":"C4N4RY"}}`,
			[]string{`"name": "<string, 6 bytes>"`}},
		{"cut in a string", `{"jsonrpc":"2.0","params":{"arguments":{"a":"C4N4`, []string{`"a": …`}},
		{"cut in a hidden object", `{"params":{"arguments":{"a":{"b":"C4N4RY"`, []string{`"a": …`}},
		{"no JSON", "C4N4RY", []string{"…"}},
		{"nothing", "", []string{"…"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := shape.Text([]byte(tt.message), []string{"crm__export", "p"}, false)
			for _, want := range tt.has {
				if !strings.Contains(got, want) {
					t.Errorf("no %s in:\n%s", want, got)
				}
			}
			if strings.Contains(got, canary) {
				t.Errorf("a value is shown:\n%s", got)
			}
		})
	}
}

func TestTextFull(t *testing.T) {
	got := shape.Text([]byte(`{"params":{"arguments":{"a":"x","n":1.50},"requestState":"sealed"},"list":[],"o":{}}`),
		nil, true)
	want := `{
  "params": {
    "arguments": {
      "a": "x",
      "n": 1.50
    },
    "requestState": "<string, 6 bytes>"
  },
  "list": [],
  "o": {}
}`
	if got != want {
		t.Errorf("got %s", got)
	}
	if deep := shape.Text([]byte(strings.Repeat("[", 8000)), nil, true); len(deep) > 4000 {
		t.Errorf("%d bytes of a deep message", len(deep))
	}
}

func TestHeader(t *testing.T) {
	for _, tt := range []struct{ name, value, want string }{
		{"Mcp-Method", "tools/call", "tools/call"},
		{"Mcp-Method", "secret", "<string, 6 bytes>"},
		{"Mcp-Name", "crm__export", "crm__export"},
		{"Mcp-Name", "=?base64?w6Q=?=", "=?base64?w6Q=?="},
		{"Mcp-Name", "secret", "<string, 6 bytes>"},
		{"Mcp-Protocol-Version", "2026-07-28", "2026-07-28"},
		{"Mcp-Protocol-Version", "secret", "<string, 6 bytes>"},
		{"Mcp-Param-Region", "secret", "<string, 6 bytes>"},
	} {
		if got := shape.Header(tt.name, tt.value, []string{"crm__export", "ä"}, false); got != tt.want {
			t.Errorf("%s: %s: %q, want %q", tt.name, tt.value, got, tt.want)
		}
		if got := shape.Header(tt.name, tt.value, nil, true); got != tt.value {
			t.Errorf("%s: %s: %q in full", tt.name, tt.value, got)
		}
	}
}
