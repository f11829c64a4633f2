package listchange

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/feature/skills"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const record = `{"name":"pb__a","dependencies":{"tools":["crm__a","crm__b"]},"uri":"skill://pb/a/SKILL.md","resources":"dynamic"}`

// sees is a skills.Visibility of names that contain one of these strings.
type sees []string

func (s sees) SeesAll(*mcp.Caller) bool { return false }

func (s sees) Sees(_ context.Context, _ *mcp.Call, kind, public string) bool {
	return slices.ContainsFunc(s, func(one string) bool { return strings.Contains(kind+":"+public, one) })
}

// seesAll is a Visibility of everything.
type seesAll struct{ sees }

func (seesAll) SeesAll(*mcp.Caller) bool { return true }

// TestChangesThatAreSeen: a change of skills is reported to those callers to whom the list
// looks different.
func TestChangesThatAreSeen(t *testing.T) {
	records, broken := []string{record}, false
	var tell func(mcp.Event)
	next := mcp.HandlerFunc(func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
		switch {
		case c.Method == mcp.MethodListen:
			tell = c.Notify
			tell(mcp.Event{Method: mcp.NoteAcknowledged, Params: mcp.Raw(`{"notifications":{"skillsListChanged":true}}`)})
			return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
		case broken:
			return nil, mcp.Errorf(failure.UpstreamDown, "not now")
		}
		l := &mcp.List{}
		page := 0
		if cursor, _ := c.Params.Member("cursor"); cursor != nil {
			page = 1
		}
		if page < len(records) {
			l.Items = []mcp.Item{{Raw: mcp.Raw(records[page])}}
		}
		if page == 0 {
			more := "1"
			l.Next = &more
		}
		return &mcp.Reply{List: l}, nil
	})
	without := func(name string) string { return strings.ReplaceAll(record, `"`+name+`"`, `"none"`) }
	for _, of := range []struct {
		name    string
		visible skills.Visibility
		caps    string
		want    string // of each step
	}{
		{"who sees the tool", sees{"tools:crm__a"}, `{}`, "101 11 1 10"},
		{"who does not", sees{"prompts:"}, `{}`, "000 10 1 10"},
		{"who is shown no dependencies", sees{""}, `{"extensions":{"io.modelcontextprotocol/skills":{}}}`, "000 10 1 10"},
		{"who sees everything", seesAll{sees{""}}, `{}`, "111 11 1 11"},
	} {
		t.Run(of.name, func(t *testing.T) {
			records, broken = []string{record}, false
			heard := ""
			c := &mcp.Call{Method: mcp.MethodListen, Caps: mcp.Raw(of.caps), Notify: func(e mcp.Event) {
				if e.Method == mcp.NoteSkillsListChanged {
					heard = "1"
				}
			}}
			if _, err := mcp.Chain(next, Middleware(of.visible.SeesAll), skills.Middleware(of.visible)).Handle(t.Context(),
				c); err != nil {
				t.Fatal(err)
			}
			got := ""
			step := func(change func()) {
				change()
				heard = "0"
				tell(mcp.Event{Method: mcp.NoteSkillsListChanged, Params: mcp.Raw(`{}`)})
				got += heard
			}
			step(func() { records = []string{without("crm__a")} })
			step(func() {})
			step(func() { records = []string{record} })
			got += " "
			step(func() { records = []string{record, strings.ReplaceAll(record, "/a/", "/b/")} })
			step(func() { records = []string{without("crm__a"), records[1]} })
			got += " "
			step(func() { broken = true })
			got += " "
			step(func() { broken = false })
			step(func() {})
			if got != of.want {
				t.Errorf("heard %s, want %s", got, of.want)
			}
		})
	}
}
