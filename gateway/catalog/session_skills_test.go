package catalog

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// skillWorkshop is a workshop that says that it has skills.
func skillWorkshop(keys ...string) *workshop {
	w := newWorkshop("w", "make")
	w.caps = skillCaps
	var records []string
	for _, key := range keys {
		records = append(records, skillRecord(key))
	}
	w.has(mcp.MethodSkillsList, records...)
	return w
}

func (w *workshop) tellsOf(c *Catalog, session string, lists mcp.Lists) {
	c.HearSession(w.Name(), mcp.SessionLists{Session: session, At: session, Lists: lists, Told: true})
}

// hearsOfSkills makes the client of a session listen to changes of skills.
func hearsOfSkills(t *testing.T, c *Catalog, session string) *client {
	cl := listenBy(t, c, in(session, call(mcp.MethodListen, "", `{"notifications":{"skillsListChanged":true}}`)))
	cl.told()
	return cl
}

func wantSkills(t *testing.T, c *Catalog, session, want string) {
	t.Helper()
	wantView(t, c, in(session, call(mcp.MethodSkillsList, "")), want)
}

// decidedOn returns the call with the target that policy decides on.
func decidedOn(t *testing.T, c *Catalog, kind string, call *mcp.Call) *mcp.Call {
	t.Helper()
	to, ok := resolve(t.Context(), c, call, kind, call.Name)
	if !ok {
		t.Fatalf("%s stands for nothing", call.Name)
	}
	call.Target = to
	return call
}

func TestSkillsOfSessions(t *testing.T) {
	const uri = "skill://w/extra/SKILL.md"
	get := func(session, name string) *mcp.Call {
		return in(session, call(mcp.MethodSkillsGet, name, string(mcp.Object("name", mcp.String(name)))))
	}
	bubble(t, "what a session has, it alone sees and can read, until it ends", func(t *testing.T) {
		w := skillWorkshop("all")
		c := start(t, Source{Upstream: skilled("doc", skillRecord("a"))}, w.source())
		ann := listenBy(t, c, in("a:1", call(mcp.MethodListen, "", `{"notifications":{"skillsListChanged":true}}`)))
		ann.told()
		wantSkills(t, c, "a:1", "doc__a w__all")
		w.grow("a:1", mcp.MethodSkillsList, skillRecord("extra", "more.md"))
		w.tellsOf(c, "a:1", mcp.SkillLists)
		after(time.Second)
		if got := ann.told(); len(got) != 2 || !strings.HasPrefix(got[1], mcp.NoteSkillsListChanged) {
			t.Errorf("ann was told %q", got)
		}
		wantSkills(t, c, "a:1", "doc__a w__all w__extra")
		wantSkills(t, c, "b:1", "doc__a w__all")
		if list := do(t, c, in("a:1", call(mcp.MethodSkillsList, ""))).List; !list.Private {
			t.Error("the list of a session is not private")
		}
		w.on(mcp.MethodSkillsGet, func(_ context.Context, call *mcp.Call) (*mcp.Reply, error) {
			return &mcp.Reply{Result: mcp.Object("instructions", mcp.String(call.Session+" "+call.Name))}, nil
		})
		wantResult(t, do(t, c, decidedOn(t, c, mcp.KindSkills, get("a:1", "w__extra"))), `{"instructions":"a:1 extra"}`)
		file := in("a:1", call(mcp.MethodResourcesRead, "skill://w/extra/more.md"))
		if to := decidedOn(t, c, mcp.KindResources, file).Target; to != (mcp.Target{Kind: mcp.KindSkills, Upstream: "w",
			Name: "extra", File: "skill://extra/more.md"}) {
			t.Errorf("its file is %s", to)
		}
		dir := do(t, c, decidedOn(t, c, mcp.KindResources, in("a:1", call(mcp.MethodDirectoryRead, "skill://w/extra"))))
		if text := string(dir.Result); !strings.Contains(text, "more.md") || !strings.Contains(text, uri) {
			t.Errorf("its directory is %s", text)
		}
		if _, ok := resolve(t.Context(), c, get("b:1", "w__extra"), mcp.KindSkills, "w__extra"); ok {
			t.Error("another session has the skill")
		}
		if !c.Differs(call(mcp.MethodSkillsList, "")) || !c.Keeps(get("a:1", "w__extra")) || c.Keeps(get("a:1", "doc__a")) {
			t.Error("it is not known where sessions are asked for skills")
		}
		w.end(c, "a:1")
		after(time.Second)
		if got := ann.told(); len(got) != 3 {
			t.Errorf("ann was told %q", got)
		}
		wantSkills(t, c, "a:1", "doc__a w__all")
	})
	bubble(t, "policy decides on a file as of its skill, also before anything was listed", func(t *testing.T) {
		w := skillWorkshop("all")
		c := start(t, w.source())
		w.grow("a:1", mcp.MethodSkillsList, skillRecord("extra"))
		w.grow("a:1", mcp.MethodSkillsList, strings.Replace(skillRecord("bad"), someDigest, "x", 1)) // it is withheld
		w.grow("a:1", mcp.MethodResourcesList, `{"uri":"skill://bad/secret","name":"s"}`)
		w.grow("a:1", mcp.MethodResourceTemplatesList, `{"uriTemplate":"skill://extra/{file}","name":"t"}`)
		w.tellsOf(c, "a:1", mcp.ResourceLists|mcp.SkillLists)
		for _, file := range []string{"skill://w/bad/secret", uri} {
			if to := decidedOn(t, c, mcp.KindResources, in("a:1",
				call(mcp.MethodResourcesRead, file))).Target; to.Kind != mcp.KindSkills {
				t.Errorf("%s is %s", file, to)
			}
		}
		for _, method := range []string{mcp.MethodResourcesList, mcp.MethodResourceTemplatesList} {
			for _, item := range do(t, c, in("a:1", call(method, ""))).List.Items {
				if item.Target.Kind != mcp.KindSkills {
					t.Errorf("%s is %s", item.Name, item.Target)
				}
			}
		}
		if to := decidedOn(t, c, mcp.KindResources, in("b:1",
			call(mcp.MethodResourcesRead, uri))).Target; to.Kind != mcp.KindResources {
			t.Errorf("for another session it is %s", to)
		}
	})
	bubble(t, "a file of a skill within one that all see belongs to the inner one, before anything was listed",
		func(t *testing.T) {
			w := skillWorkshop("all")
			c := start(t, w.source())
			w.grow("a:1", mcp.MethodSkillsList, skillRecord("all/extra"))
			w.tellsOf(c, "a:1", mcp.SkillLists)
			for session, want := range map[string]string{"a:1": "all/extra", "b:1": "all"} {
				if to := decidedOn(t, c, mcp.KindResources, in(session,
					call(mcp.MethodResourcesRead, "skill://w/all/extra/SKILL.md"))).Target; to.Name != want {
					t.Errorf("for %s it is %s", session, to)
				}
			}
		})
	bubble(t, "skills that only resources reveal", func(t *testing.T) {
		w := newWorkshop("w", "make")
		c := start(t, w.source())
		wantSkills(t, c, "a:1", "")
		ann, bob := hearsOfSkills(t, c, "a:1"), hearsOfSkills(t, c, "b:1")
		w.grow("a:1", mcp.MethodResourcesList, `{"uri":"skill://extra/SKILL.md","name":"extra"}`)
		w.grow("a:1", mcp.MethodSkillsList, skillRecord("extra"))
		w.tellsOf(c, "a:1", mcp.ResourceLists)
		after(time.Second)
		ann.want(t, ack(`{"skillsListChanged":true}`), skillsChanged)
		bob.want(t, ack(`{"skillsListChanged":true}`))
		for range 2 {
			wantSkills(t, c, "a:1", "w__extra")
		}
		wantSkills(t, c, "b:1", "")
		for _, item := range do(t, c, in("a:1", call(mcp.MethodResourcesList, ""))).List.Items {
			if item.Target.Kind != mcp.KindSkills {
				t.Errorf("%s is %s", item.Name, item.Target)
			}
		}
		asked := w.called(mcp.MethodSkillsList)
		w.grow("b:1", mcp.MethodResourcesList, `{"uri":"demo://1","name":"x"}`)
		w.tellsOf(c, "b:1", mcp.ResourceLists)
		wantView(t, c, in("b:1", call(mcp.MethodResourcesList, "")), "w+demo://1")
		if got := w.called(mcp.MethodSkillsList) - asked; got != 0 {
			t.Errorf("skills were read %d times that are the same for all", got)
		}
	})
	bubble(t, "it can lack a skill, and a change for all reaches it", func(t *testing.T) {
		w := skillWorkshop("a", "b")
		c := start(t, w.source())
		w.lose("a:1", "a")
		w.tellsOf(c, "a:1", mcp.SkillLists)
		wantSkills(t, c, "a:1", "w__b")
		w.has(mcp.MethodSkillsList, skillRecord("a"), skillRecord("b"), skillRecord("c"))
		w.says(mcp.NoteSkillsListChanged, "{}")
		after(time.Second)
		wantSkills(t, c, "a:1", "w__b w__c")
		wantSkills(t, c, "b:1", "w__a w__b w__c")
		w.has(mcp.MethodSkillsList, skillRecord("c"))
		w.says(mcp.NoteSkillsListChanged, "{}")
		after(time.Second)
		wantSkills(t, c, "a:1", "w__c")
		if c.sessions.table.shown("a:1") != nil {
			t.Error("a difference is kept that is none any more")
		}
	})
	bubble(t, "beyond the bound it sees what all see, of their files too", func(t *testing.T) {
		w := skillWorkshop("all")
		w.caps = `{"tools":{"listChanged":true},` + skillCaps[1:]
		c := start(t, w.source())
		for i := range maxDiffering + 1 {
			w.grow("a:1", mcp.MethodSkillsList, skillRecord(fmt.Sprint("extra", i)))
		}
		w.grow("a:1", mcp.MethodResourcesList, `{"uri":"skill://extra0/SKILL.md","name":"s"}`)
		w.tellsOf(c, "a:1", mcp.ResourceLists|mcp.SkillLists)
		w.grow("a:1", mcp.MethodToolsList, tool("more"))
		w.tellsOf(c, "a:1", mcp.ToolLists)
		wantView(t, c, in("a:1", call(mcp.MethodToolsList, "")), "w__make w__more")
		wantView(t, c, in("a:1", call(mcp.MethodResourcesList, "")), "")
		wantSkills(t, c, "a:1", "w__all")
		wantView(t, c, in("a:1", call(mcp.MethodToolsList, "")), "w__make w__more")
		w.tellsOf(c, "a:1", mcp.ResourceLists) // its skills have not changed, and are as many
		wantView(t, c, in("a:1", call(mcp.MethodResourcesList, "")), "")
		for session, want := range map[string]string{"a:1": mcp.KindSkills, "b:1": mcp.KindResources} {
			if to := decidedOn(t, c, mcp.KindResources, in(session,
				call(mcp.MethodResourcesRead, "skill://w/extra0/more.md"))).Target; to.Kind != want {
				t.Errorf("for %s a file of a skill that is not shown is %s", session, to)
			}
		}
		asked := w.called(mcp.MethodSkillsList)
		for range 100 {
			c.HearSession(w.Name(), mcp.SessionLists{Session: "a:1", At: "a:1", Lists: mcp.SkillLists, Tool: "make"})
			wantSkills(t, c, "a:1", "w__all")
		}
		if got := w.called(mcp.MethodSkillsList) - asked; got > 20 {
			t.Errorf("it was fetched after %d of 100 calls", got)
		}
	})
	bubble(t, "resources of which the server tells come with the skills of which it has told nothing", func(t *testing.T) {
		w := skillWorkshop("all")
		c := start(t, w.source())
		w.grow("a:1", mcp.MethodSkillsList, skillRecord("extra"))
		w.grow("a:1", mcp.MethodResourcesList, `{"uri":"skill://extra/SKILL.md","name":"s"}`)
		w.tellsOf(c, "a:1", mcp.ResourceLists)
		items := do(t, c, in("a:1", call(mcp.MethodResourcesList, ""))).List.Items
		if len(items) != 1 || items[0].Target.Kind != mcp.KindSkills {
			t.Errorf("its resources are %v", items)
		}
		wantSkills(t, c, "a:1", "w__all w__extra")
	})
	bubble(t, "what is left of too many skills is bounded, too", func(t *testing.T) {
		w := skillWorkshop("all")
		c := start(t, w.source())
		long := strings.Repeat("x", 900)
		for i := range maxDiffering + 200 {
			w.grow("a:1", mcp.MethodSkillsList, skillRecord(fmt.Sprint(long, "/extra", i)))
		}
		w.grow("a:1", mcp.MethodResourcesList, `{"uri":"skill://`+long+`/extra0/SKILL.md","name":"s"}`)
		for _, news := range []mcp.Lists{mcp.SkillLists, mcp.ResourceLists, mcp.ResourceLists} {
			w.tellsOf(c, "a:1", news)
			wantView(t, c, in("a:1", call(mcp.MethodResourcesList, "")), "")
			wantSkills(t, c, "a:1", "w__all")
		}
		if c.sessions.table.shown("a:1") != nil {
			t.Error("something is kept")
		}
	})
	bubble(t, "views and pages", func(t *testing.T) {
		w := skillWorkshop("a", "b", "c")
		c := startViews(t, []view.Config{{Name: "v", Show: []string{"skills:w/extra", "skills:w/a"}}}, w.source())
		w.grow("a:1", mcp.MethodSkillsList, skillRecord("extra"))
		w.grow("a:1", mcp.MethodSkillsList, skillRecord("other"))
		w.tellsOf(c, "a:1", mcp.SkillLists)
		wantSkills(t, c, "a:1", "w__a w__b w__c w__extra w__other")
		wantView(t, c, at("v", in("a:1", call(mcp.MethodSkillsList, ""))), "w__a w__extra")
		wantView(t, c, at("v", in("b:1", call(mcp.MethodSkillsList, ""))), "w__a")
	})
}

// TestSkillsOfSessionsSize: what is kept of a session is in proportion to what differs.
func TestSkillsOfSessionsSize(t *testing.T) {
	var keys []string
	for i := range 500 {
		keys = append(keys, fmt.Sprintf("skill-%03d", i))
	}
	w := skillWorkshop(keys...)
	c := start(t, w.source())
	w.grow("a:1", mcp.MethodSkillsList, skillRecord("extra"))
	w.tellsOf(c, "a:1", mcp.SkillLists)
	do(t, c, in("a:1", call(mcp.MethodSkillsList, "")))
	var differ ownDifference
	for _, differ = range c.sessions.table.shown("a:1").at {
	}
	if differ.kinds() != setOf(skills) {
		t.Fatalf("%b lists differ", differ.kinds())
	}
	if d := differ[skills]; len(d.more) != 1 || len(d.gone) != 0 || len(d.roots) != 1 || d.size > 2000 {
		t.Errorf("%d more, %d gone, %d roots, %d bytes", len(d.more), len(d.gone), len(d.roots), d.size)
	}
}
