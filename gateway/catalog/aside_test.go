package catalog

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestAside: an operator who looks at what a user would get asks no server as that user, sees nothing
// that a server told the user, and leaves no trace of having looked.
func TestAside(t *testing.T) {
	bubble(t, "per-user lists", func(t *testing.T) {
		crm := toolsOf(newServer("crm"))
		c := start(t, Source{Upstream: newServer("doc").tools("read")}, perUser(crm))
		wantToolsOf(t, c, "ann", "doc__read", "crm__of-ann")
		asked, kept := len(crm.calls), c.users.all.Len()
		for _, user := range []string{"ann", "bob"} {
			aside := by(user, call(mcp.MethodToolsList, ""))
			aside.Aside = true
			for how, items := range map[string][]mcp.Item{"list": do(t, c, aside).List.Items, "offered": c.Offered(aside)} {
				if len(items) != 1 || items[0].Name != "doc__read" {
					t.Errorf("%s, as %s: %v", how, user, items)
				}
			}
			c.For(aside).Schema(t.Context(), "crm__of-"+user)
		}
		if len(crm.calls) != asked || c.users.all.Len() != kept {
			t.Errorf("the server was asked %d times, and %d users are kept", len(crm.calls)-asked, c.users.all.Len())
		}
		wantToolsOf(t, c, "ann", "doc__read", "crm__of-ann")
		wantToolsOf(t, c, "bob", "doc__read", "crm__of-bob")
	})
}
