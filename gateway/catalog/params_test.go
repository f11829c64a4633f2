package catalog

import (
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestParamHeaders(t *testing.T) {
	const annotated = `{"name":"q","inputSchema":{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"limit":{"type":"integer","x-mcp-header":"Limit"},
		"dry":{"type":"boolean","x-mcp-header":"Dry"},
		"other":{"type":"string"}}}}`
	s := newServer("crm").has(mcp.MethodToolsList, annotated, tool("free"))
	c := start(t, Source{Upstream: s})
	tests := []struct {
		name, arguments string
		headers         map[string]string
		want            string // "" accepted
	}{
		{"present and equal", `{"region":"eu"}`, map[string]string{"region": "eu"}, ""},
		{"different", `{"region":"eu"}`, map[string]string{"region": "us"}, "Mcp-Param-Region does not match"},
		{"missing", `{"region":"eu"}`, map[string]string{}, "Mcp-Param-Region is missing"},
		{"absent both", `{}`, map[string]string{}, ""},
		{"null", `{"region":null}`, map[string]string{}, ""},
		{"null and sent", `{"region":null}`, map[string]string{"region": "null"}, "Mcp-Param-Region must be absent"},
		{"absent and sent", `{}`, map[string]string{"limit": "1"}, "Mcp-Param-Limit must be absent"},
		{"42.0 is 42", `{"limit":42}`, map[string]string{"limit": "42.0"}, ""},
		{"43 is not", `{"limit":42}`, map[string]string{"limit": "43"}, "Mcp-Param-Limit does not match"},
		{"booleans", `{"dry":true}`, map[string]string{"dry": "true"}, ""},
		{"unrecognized", `{}`, map[string]string{"other": "x", "unknown": "y"}, ""},
		{"a dialect without such headers", `{"region":"eu"}`, nil, ""},
		{"no arguments", ``, map[string]string{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := call(mcp.MethodToolsCall, "crm__q", `{"name":"crm__q"}`)
			if tt.arguments != "" {
				in.Params = in.Params.With("arguments", mcp.Raw(tt.arguments))
			}
			in.ParamHeaders = tt.headers
			if tt.want == "" {
				do(t, c, in)
				return
			}
			if e := refused(t, c, in, mcp.CodeHeaderMismatch); !strings.Contains(e.Message, tt.want) {
				t.Errorf("got %q, want %q in it", e.Message, tt.want)
			}
		})
	}
	t.Run("a tool without annotations", func(t *testing.T) {
		in := call(mcp.MethodToolsCall, "crm__free", `{"arguments":{"region":"eu"}}`)
		in.ParamHeaders = map[string]string{"region": "us"}
		do(t, c, in)
	})
}

func TestInvalidAnnotationsAreNotListed(t *testing.T) {
	s := newServer("crm").has(mcp.MethodToolsList, tool("fine"),
		`{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}}`)
	c := start(t, Source{Upstream: s})
	wantNames(t, c, mcp.MethodToolsList, "crm__fine")
	refused(t, c, call(mcp.MethodToolsCall, "crm__bad"), mcp.CodeInvalidParams)
	if w := c.Status()[0].Withheld; len(w) != 1 || !strings.Contains(w[0].Reason, "x-mcp-header") {
		t.Errorf("withheld %v", w)
	}
}
