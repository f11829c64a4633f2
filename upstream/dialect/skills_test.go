package dialect

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestServersWithSkills: both forms of skills are lists that may change in a session, and only one of
// them can be announced.
func TestServersWithSkills(t *testing.T) {
	for caps, want := range map[string]Server{
		`{"tools":{}}`:                    {Offers: mcp.ToolLists},
		`{"skills":{}}`:                   {Offers: mcp.SkillLists},
		`{"skills":{"listChanged":true}}`: {Offers: mcp.SkillLists, Lists: mcp.SkillLists},
		`{"extensions":{"io.modelcontextprotocol/skills":{}}}`: {Offers: mcp.SkillLists},
	} {
		if got := ReadServer(mcp.Raw(caps)); got != want {
			t.Errorf("%s: got %+v, want %+v", caps, got, want)
		}
	}
}
