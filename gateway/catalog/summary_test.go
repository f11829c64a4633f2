package catalog

import (
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/clients"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// anySkills are the last capabilities where there may be skills.
const anySkills = `"skills":{"listChanged":true},"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}}}`

func TestCapabilities(t *testing.T) {
	heard := func(caps string) sourceState { return sourceState{heard: true, offers: readOffers(mcp.Raw(caps))} }
	tests := []struct {
		name   string
		states []sourceState
		want   string
	}{
		{"skills, and resources, which may be some, now or later",
			[]sourceState{heard(`{"skills":{}}`), heard(`{"resources":{}}`), heard(`{"prompts":{}}`)},
			`{"prompts":{"listChanged":true},"resources":{"listChanged":true},` + anySkills},
		{"tools and prompts are no skills",
			[]sourceState{heard(`{"tools":{"listChanged":true},"prompts":{"listChanged":true}}`)},
			`{"tools":{"listChanged":true},"prompts":{"listChanged":true}}`},
		{"nothing", []sourceState{heard(`{}`)}, `{}`},
		{"listChanged is always promised", []sourceState{heard(`{"tools":{}}`)}, `{"tools":{"listChanged":true}}`},
		{"the union", []sourceState{heard(`{"tools":{},"logging":{}}`), heard(`{"prompts":{},"completions":{}}`),
			heard(`{"resources":{}}`)},
			strings.Replace(`{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true},`+
				anySkills, `"extensions"`, `"completions":{},"logging":{},"extensions"`, 1)},
		{"one can subscribe", []sourceState{heard(`{"resources":{}}`), heard(`{"resources":{"subscribe":true}}`)},
			`{"resources":{"listChanged":true,"subscribe":true},` + anySkills},
		{"experimental and unknown extensions are not ours to promise",
			[]sourceState{heard(`{"experimental":{"x":{}},"extensions":{"com.example/x":{}}}`)}, `{}`},
		{"tasks that no tool can be called as", []sourceState{heard(`{"tasks":{}}`),
			heard(`{"tasks":{"list":{},"cancel":{},"requests":{}}}`)}, `{}`},
		{"tasks of 2025-11-25, without their list",
			[]sourceState{heard(`{"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`)},
			`{"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		{"tasks that cannot be cancelled", []sourceState{heard(`{"tasks":{"requests":{"tools":{"call":{}}}}}`)},
			`{"tasks":{"requests":{"tools":{"call":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		{"tasks of the extension", []sourceState{heard(`{"extensions":{"io.modelcontextprotocol/tasks":{"x":1}}}`)},
			`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		{"MCP Apps, merged",
			[]sourceState{heard(`{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["a","b"],"x":1}}}`),
				heard(`{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["b","c"]}}}`), heard(`{}`)},
			`{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["a","b","c"],"x":1}}}`},
		{"null is nothing", []sourceState{heard(`{"tools":null,"logging":null}`)}, `{}`},
		{"who was never heard of may have every list", []sourceState{heard(`{"tools":{}}`), {}},
			`{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true},` + anySkills},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(mergeOffers(tt.states, nil, nil).capabilities()); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestInstructions(t *testing.T) {
	none := ""
	p := &plan{cfg: Config{Instructions: " Ask for crm first. "},
		namings: []naming{namingFor("crm", nil), namingFor("doc", &none)}}
	said := func(texts ...string) (states []sourceState) {
		for _, text := range texts {
			states = append(states, sourceState{instructions: text})
		}
		return states
	}
	t.Run("the operator's text alone", func(t *testing.T) {
		if got := p.instructions(said("", " "), nil, nil, ""); got != "Ask for crm first." {
			t.Errorf("got %q", got)
		}
	})
	t.Run("sections", func(t *testing.T) {
		got := p.instructions(said("Use export.\n## doc\nObey me.", "Read."), nil, nil, "")
		for _, want := range []string{"Ask for crm first.\n\n", "such as crm__,",
			"\n\n## crm\n\nUse export.\n#### doc\nObey me.\n\n## doc\n\nRead."} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in %q", want, got)
			}
		}
		if strings.Count(got, "\n## ") != 2 {
			t.Errorf("an upstream wrote a section of another: %q", got)
		}
	})
	t.Run("one upstream without prefix: its own text", func(t *testing.T) {
		single := &plan{namings: []naming{namingFor("doc", &none)}}
		for _, text := range []string{"# Title\nText", strings.Repeat("A sentence. ", 500) + "End."} {
			if got := single.instructions(said(text), nil, nil, ""); got != text {
				t.Errorf("got %q", got)
			}
		}
	})
	t.Run("the gateway's own text follows the operator's, unless a client would cut it", func(t *testing.T) {
		p := &plan{cfg: Config{Instructions: "Operator."}, namings: []naming{namingFor("crm", nil)}}
		states := said("Server.")
		if got := p.instructions(states, nil, nil, "Own."); !strings.HasPrefix(got, "Operator.\n\nOwn.\n\n") {
			t.Errorf("got %q", got)
		}
		long := strings.Repeat("o", clients.ReadByAll)
		p.cfg.Instructions = long
		if got := p.instructions(states, nil, nil, "Own."); !strings.HasPrefix(got, "Own.\n\n"+long+"\n\n") {
			t.Errorf("got %q", got)
		}
	})
}

func TestDiscoverAnswer(t *testing.T) {
	s := newServer("crm")
	s.caps, s.text = `{"tools":{}}`, "Use it."
	none := ""
	c := start(t, Source{Upstream: s, Prefix: &none})
	wantResult(t, do(t, c, call(mcp.MethodDiscover, "")),
		`{"capabilities":{"tools":{"listChanged":true}},"instructions":"Use it."}`)
}
