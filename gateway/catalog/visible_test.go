package catalog

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// seeing restricts the caller of a call to knowing of these upstreams.
func seeing(call *mcp.Call, upstreams ...string) *mcp.Call {
	call.Visible = func(upstream string) bool {
		for _, u := range upstreams {
			if u == upstream {
				return true
			}
		}
		return false
	}
	return call
}

func TestDiscoverShowsWhatIsVisible(t *testing.T) {
	crm := newServer("crm")
	crm.caps, crm.text = `{"tools":{},"logging":{}}`, "Use crm."
	doc := newServer("doc")
	doc.caps, doc.text = `{"prompts":{}}`, "Read doc."
	down := newServer("down")
	down.unreachable(true)
	c := start(t, sourcesOf([]*server{crm, doc, down})...)
	tests := []struct {
		name    string
		visible []string
		want    []string
		without []string
	}{
		{"one", []string{"crm"}, []string{`{"capabilities":{"tools":{"listChanged":true},"logging":{}},`, "Use crm."},
			[]string{"doc", "prompts\":{"}},
		{"the other", []string{"doc"}, []string{`{"capabilities":{"prompts":{"listChanged":true}},`, "Read doc."},
			[]string{"crm", "tools\":{"}},
		{"none", nil, []string{`{"capabilities":{}}`}, []string{"instructions"}},
		{"one that was never heard of may have every list", []string{"down"},
			[]string{`"tools":{`, `"prompts":{`, `"resources":{`}, []string{"crm", "doc", "instructions"}},
		{"all", []string{"crm", "doc", "down"}, []string{"Use crm.", "Read doc.", "logging"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first := do(t, c, seeing(call(mcp.MethodDiscover, ""), tt.visible...)).Result
			for _, want := range tt.want {
				if !strings.Contains(string(first), want) {
					t.Errorf("%q is not in %s", want, first)
				}
			}
			for _, secret := range tt.without {
				if strings.Contains(string(first), secret) {
					t.Errorf("%q is in %s", secret, first)
				}
			}
			if again := do(t, c, seeing(call(mcp.MethodDiscover, ""), tt.visible...)).Result; &again[0] != &first[0] {
				t.Error("it is made anew for the same upstreams")
			}
		})
	}
}

// TestSkillsAreDeclaredToWhomTheyMayBeShown: policy decides on skills apart from the upstream.
func TestSkillsAreDeclaredToWhomTheyMayBeShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, Source{Upstream: newServer("crm")}, Source{Upstream: skilled("doc")})
		for of, declared := range map[string]bool{"crm": true, "doc": true, "none": false} {
			of := func(c *mcp.Call) *mcp.Call {
				c.VisibleSkills = func(upstream string) bool { return upstream == of }
				return c
			}
			if got := do(t, c, of(call(mcp.MethodDiscover, ""))).Result.At("capabilities", "skills"); (got != nil) != declared {
				t.Errorf("declared is %s", got)
			}
			cl := listenBy(t, c, of(call(mcp.MethodListen, "",
				`{"notifications":{"skillsListChanged":true,"resourcesListChanged":true}}`)))
			if got := cl.told(); strings.Contains(got[0], "skills") != declared || !strings.Contains(got[0], "resources") {
				t.Errorf("honoured is %q", got)
			}
		}
	})
}

// TestTheFirstSkills: who listens before there are skills hears when the first one comes, also if
// it is only a resource.
func TestTheFirstSkills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crm := newServer("crm")
		c := start(t, Source{Upstream: crm})
		cl := listen(t, c, `{"skillsListChanged":true}`)
		wantNames(t, c, mcp.MethodSkillsList)
		crm.has(mcp.MethodResourcesList, `{"uri":"skill://a/SKILL.md","name":"a"}`).has(mcp.MethodSkillsList,
			skillRecord("a"))
		crm.says(mcp.NoteResourcesListChanged, `{}`)
		after(time.Second)
		cl.want(t, ack(`{"skillsListChanged":true}`), skillsChanged)
		wantNames(t, c, mcp.MethodSkillsList, "crm__a")
	})
}

func TestFacesAreBounded(t *testing.T) {
	var sources []Source
	for i := range 8 {
		sources = append(sources, Source{Upstream: newServer(fmt.Sprint("u", i))})
	}
	c := start(t, sources...)
	for set := range 256 {
		in := call(mcp.MethodDiscover, "")
		in.Visible = func(upstream string) bool { return set&(1<<(upstream[1]-'0')) != 0 }
		do(t, c, in)
	}
	if n := len(c.snap.Load().summaries); n > maxSummaries {
		t.Errorf("%d are kept", n)
	}
}

func TestListenShowsWhatIsVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crm, doc := newServer("crm").tools("a"), newServer("doc").tools("a")
		doc.caps = `{"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}`
		crm.caps = `{"tools":{"listChanged":true},"prompts":{"listChanged":true}}`
		c := start(t, sourcesOf([]*server{crm, doc})...)
		const filter = `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["doc+a:b"]}`
		ann, bob := listen(t, c, filter, "crm"), listen(t, c, filter, "doc")
		annAck := ack(`{"toolsListChanged":true,"promptsListChanged":true}`)
		bobAck := ack(`{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["doc+a:b"]}`)
		ann.want(t, annAck)
		bob.want(t, bobAck)
		if n := len(doc.open(true)); n != 1 {
			t.Errorf("%d listen for resources", n)
		}
		doc.tools("a", "b").says(mcp.NoteToolsListChanged, `{}`)
		after(time.Second)
		ann.want(t, annAck)
		bob.want(t, bobAck, toolsChanged)
		crm.has(mcp.MethodPromptsList, `{"name":"p"}`).says(mcp.NotePromptsListChanged, `{}`)
		after(time.Second)
		ann.want(t, annAck, promptsChanged)
		bob.want(t, bobAck, toolsChanged)
	})
}

func TestNamesThatMeetAreAChangeForBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := newServer("one").tools("a", "b"), newServer("two").tools("c")
		c := start(t, plain(one), plain(two))
		cl := listen(t, c, `{"toolsListChanged":true}`, "one")
		synctest.Wait()
		two.tools("a").says(mcp.NoteToolsListChanged, `{}`)
		after(time.Second)
		wantNames(t, c, mcp.MethodToolsList, "b")
		cl.want(t, ack(`{"toolsListChanged":true}`), toolsChanged)
	})
}
