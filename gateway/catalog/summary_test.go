package catalog

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestP9_183_Capabilities(t *testing.T) {
	heard := func(caps string) sourceState { return sourceState{heard: true, offers: readOffers(mcp.Raw(caps))} }
	tests := []struct {
		name   string
		states []sourceState
		want   string
	}{
		{"nothing", []sourceState{heard(`{}`)}, `{}`},
		{"listChanged is always promised", []sourceState{heard(`{"tools":{}}`)}, `{"tools":{"listChanged":true}}`},
		{"the union", []sourceState{heard(`{"tools":{},"logging":{}}`), heard(`{"prompts":{},"completions":{}}`), heard(`{"resources":{}}`)},
			`{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true},"completions":{},"logging":{}}`},
		{"one can subscribe", []sourceState{heard(`{"resources":{}}`), heard(`{"resources":{"subscribe":true}}`)}, `{"resources":{"listChanged":true,"subscribe":true}}`},
		{"experimental and unknown extensions are not ours to promise",
			[]sourceState{heard(`{"experimental":{"x":{}},"extensions":{"com.example/x":{}}}`)}, `{}`},
		{"P9/185 tasks that no tool can be called as", []sourceState{heard(`{"tasks":{}}`), heard(`{"tasks":{"list":{},"cancel":{},"requests":{}}}`)}, `{}`},
		{"P9/185 tasks of 2025-11-25, without their list", []sourceState{heard(`{"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`)},
			`{"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		{"P9/185 tasks that cannot be cancelled", []sourceState{heard(`{"tasks":{"requests":{"tools":{"call":{}}}}}`)}, `{"tasks":{"requests":{"tools":{"call":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		{"P9/185 tasks of the extension", []sourceState{heard(`{"extensions":{"io.modelcontextprotocol/tasks":{"x":1}}}`)}, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		{"MCP Apps, merged",
			[]sourceState{heard(`{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["a","b"],"x":1}}}`), heard(`{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["b","c"]}}}`), heard(`{}`)},
			`{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["a","b","c"],"x":1}}}`},
		{"null is nothing", []sourceState{heard(`{"tools":null,"logging":null}`)}, `{}`},
		{"who was never heard of may have every list", []sourceState{heard(`{"tools":{}}`), {}},
			`{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(merge(tt.states, nil).capabilities()); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestDiscoverAnswer(t *testing.T) {
	s := newServer("crm")
	s.caps, s.text = `{"tools":{}}`, "Use it."
	none := ""
	c := start(t, Source{Upstream: s, Prefix: &none})
	wantResult(t, do(t, c, call(mcp.MethodDiscover, "")), `{"capabilities":{"tools":{"listChanged":true}},"instructions":"Use it."}`)
}
