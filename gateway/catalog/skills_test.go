package catalog

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const skillCaps = `{"skills":{"listChanged":true},"resources":{"listChanged":true},"extensions":{"io.modelcontextprotocol/skills":{}}}`

var someDigest = "sha256:" + strings.Repeat("0a", 32)

// skillRecord returns a record of a skill with these files besides its SKILL.md.
func skillRecord(key string, files ...string) string {
	root := "skill://" + key
	text := fmt.Sprintf(`{"uri":"%s/SKILL.md","digest":%q,"size":3}`, root, someDigest)
	for _, f := range files {
		text += fmt.Sprintf(`,{"uri":"%s/%s","digest":%q,"size":1}`, root, f, someDigest)
	}
	return fmt.Sprintf(`{"name":%q,"uri":"%s/SKILL.md","frontmatter":{"name":%q,"description":"d"},"resources":[%s]}`, key,
		root, key[strings.LastIndex(key, "/")+1:], text)
}

func skilled(name string, records ...string) *server {
	s := newServer(name).has(mcp.MethodSkillsList, records...)
	s.caps = skillCaps
	return s
}

func TestRecordsArePublic(t *testing.T) {
	record := strings.Replace(skillRecord("acme/refunds", "a.md"), `"description":"d"`, `"description":"d", "x":1e3`, 1)
	c := start(t, Source{Upstream: skilled("crm", record)})
	items := do(t, c, call(mcp.MethodSkillsList, "")).List.Items
	want := strings.NewReplacer("skill://", "skill://crm/", `"name":"acme/refunds"`,
		`"name":"crm__acme/refunds"`).Replace(record)
	if len(items) != 1 || items[0].Name != "crm__acme/refunds" || string(items[0].Raw) != want {
		t.Errorf("got %+v, want %s", items, want)
	}
	if want := (mcp.Target{Kind: mcp.KindSkills, Upstream: "crm", Name: "acme/refunds",
		File: "skill://acme/refunds/SKILL.md"}); items[0].Target != want {
		t.Errorf("target %+v", items[0].Target)
	}
}

func TestRecordsThatAreWithheld(t *testing.T) {
	good := skillRecord("good")
	bad := map[string]string{
		"another name":      strings.Replace(skillRecord("a"), `"frontmatter":{"name":"a"`, `"frontmatter":{"name":"b"`, 1),
		"no URI of a skill": strings.ReplaceAll(skillRecord("b"), "/SKILL.md", "/skill.md"),
		"a file outside":    strings.Replace(skillRecord("c", "x"), "skill://c/x", "skill://d/x", 1),
		"a file twice":      skillRecord("d", "x", "x"),
		"no digest":         strings.Replace(skillRecord("e"), someDigest, "sha256:00", 1),
		"no SKILL.md": strings.Replace(skillRecord("f", "x"), `{"uri":"skill://f/SKILL.md","digest"`,
			`{"uri":"skill://f/y","digest"`, 1),
		"no resources":     strings.Replace(skillRecord("g"), `"resources"`, `"files"`, 1),
		"no frontmatter":   strings.Replace(skillRecord("h"), `"frontmatter"`, `"matter"`, 1),
		"two readings":     strings.Replace(skillRecord("i"), `{"name"`, `{"URI":"x","name"`, 1),
		"too large":        strings.Replace(skillRecord("j"), `"d"`, `"`+strings.Repeat("d", maxSkill)+`"`, 1),
		"a URI for a name": strings.Replace(skillRecord("k"), `"name":"k","uri"`, `"name":"skill://k","uri"`, 1),
	}
	for name, record := range bad {
		t.Run(name, func(t *testing.T) {
			if record == skillRecord("x") || strings.Contains(record, "\n") {
				t.Fatal("the test is wrong")
			}
			c := start(t, Source{Upstream: skilled("crm", good, record)})
			items := do(t, c, call(mcp.MethodSkillsList, "")).List.Items
			if len(items) != 1 || items[0].Name != "crm__good" {
				t.Errorf("got %v", items)
			}
			if w := c.Status()[0].Withheld; len(w) != 1 || w[0].List != "skills" {
				t.Errorf("withheld %v", w)
			}
		})
	}
}

// TestFilesBelongToTheirSkill: policy decides about a file of a skill as about the skill,
// however the file is named.
func TestFilesBelongToTheirSkill(t *testing.T) {
	dynamic := strings.Replace(skillRecord("dyn"), skillRecord("dyn")[strings.Index(skillRecord("dyn"), `"resources":`):],
		`"resources":"dynamic"}`, 1)
	s := skilled("crm", skillRecord("refunds", "a.md", "in/SKILL.md"), skillRecord("refunds/in", "b.md"), dynamic,
		strings.ReplaceAll(skillRecord("hub/r"), "skill://hub", "github://hub"))
	s.has(mcp.MethodResourcesList, resource("skill://refunds/SKILL.md"), resource("skill://refunds/in/b.md"),
		resource("skill://other/x"), resource("file:///a"))
	c := start(t, Source{Upstream: s}, Source{Upstream: newServer("doc")})
	file := func(key, uri string) mcp.Target {
		return mcp.Target{Kind: mcp.KindSkills, Upstream: "crm", Name: key, File: uri}
	}
	for public, want := range map[string]mcp.Target{
		"skill://crm/refunds/SKILL.md":       file("refunds", "skill://refunds/SKILL.md"),
		"skill://crm/refunds/not/listed":     file("refunds", "skill://refunds/not/listed"),
		"skill://crm/refunds":                file("refunds", "skill://refunds"),
		"skill://crm/refunds/in/b.md":        file("refunds/in", "skill://refunds/in/b.md"),
		"skill://crm/dyn/any":                file("dyn", "skill://dyn/any"),
		"crm+github://hub/r/x":               file("hub/r", "github://hub/r/x"),
		"skill://crm/refundsx/a.md":          {Kind: mcp.KindResources, Upstream: "crm", Name: "skill://refundsx/a.md"},
		"skill://crm/other/x":                {Kind: mcp.KindResources, Upstream: "crm", Name: "skill://other/x"},
		"crm+file:///a":                      {Kind: mcp.KindResources, Upstream: "crm", Name: "file:///a"},
		"skill://crm/REFUNDS/SKILL.md":       {},
		"skill://crm/%72efunds/SKILL.md":     {},
		"skill://crm/%2572efunds/SKILL.md":   {},
		"skill://crm//refunds/SKILL.md":      {},
		`skill://crm/refunds\SKILL.md`:       {},
		"skill://crm/refunds#/SKILL.md":      {},
		"crm+GitHub://hub/r/x":               {},
		"skill://crm/refunds/%69n/../b.md":   file("refunds", "skill://refunds/%69n/../b.md"), // policy refuses its spelling
		"skill://doc/refunds/SKILL.md":       {Kind: mcp.KindResources, Upstream: "doc", Name: "skill://refunds/SKILL.md"},
		"skill://crm/refunds?x=1":            {},
		"skill://crm/refunds/SKILL.md?x=1#y": file("refunds", "skill://refunds/SKILL.md?x=1#y"),
	} {
		if got, _ := resolve(t.Context(), c, &mcp.Call{}, mcp.KindResources, public); got != want {
			t.Errorf("%s is %+v, want %+v", public, got, want)
		}
	}
	for _, item := range do(t, c, call(mcp.MethodResourcesList, "")).List.Items {
		if got, ok := resolve(t.Context(), c, &mcp.Call{}, mcp.KindResources, item.Name); !ok || got != item.Target {
			t.Errorf("%s has target %+v and resolves to %+v", item.Name, item.Target, got)
		}
	}
	for public, want := range map[string]string{"crm__refunds": "refunds", "skill://crm/refunds/in/SKILL.md": "refunds/in",
		"skill://crm/unlisted/x/SKILL.md":  "unlisted/x",
		"skill://crm/refunds/new/SKILL.md": "refunds", "crm+github://hub/r/SKILL.md": "hub/r", "crm__none": "",
		"skill://crm/refunds/a.md": "", "skill://doc/a/SKILL.md": "", "skill://crm/Refunds/SKILL.md": ""} {
		got, ok := resolve(t.Context(), c, &mcp.Call{}, mcp.KindSkills, public)
		if ok != (want != "") || got.Name != want || ok && !strings.HasSuffix(got.File, "/SKILL.md") {
			t.Errorf("%s is %+v, want %q", public, got, want)
		}
	}
}

// TestTemplatesOfSkills: policy decides on a template of a skill's files as on the skill,
// in lists and in completions.
func TestTemplatesOfSkills(t *testing.T) {
	s := skilled("crm", skillRecord("refunds"))
	s.has(mcp.MethodResourceTemplatesList, `{"uriTemplate":"skill://refunds/{file}","name":"a"}`,
		`{"uriTemplate":"doc:///{id}","name":"b"}`, `{"uriTemplate":"skill://REFUNDS/{file}","name":"c"}`)
	c := start(t, Source{Upstream: s})
	items := do(t, c, call(mcp.MethodResourceTemplatesList, "")).List.Items
	want := map[string]mcp.Target{
		"skill://crm/refunds/{file}": {Kind: mcp.KindSkills, Upstream: "crm", Name: "refunds", File: "skill://refunds/{file}",
			Template: true},
		"crm+doc:///{id}": {Kind: mcp.KindResources, Upstream: "crm", Name: "doc:///{id}", Template: true},
	}
	if len(items) != len(want) {
		t.Errorf("listed are %v", items)
	}
	for _, item := range items {
		if got, ok := resolve(t.Context(), c, &mcp.Call{}, mcp.KindResources, item.Name); !ok ||
			item.Target != want[item.Name] || got != item.Target {
			t.Errorf("%s has target %+v and resolves to %+v, want %+v", item.Name, item.Target, got, want[item.Name])
		}
	}
	if got, ok := resolve(t.Context(), c, &mcp.Call{}, mcp.KindResources, "skill://crm/REFUNDS/{file}"); ok {
		t.Errorf("what could be read as a template of it is %+v", got)
	}
}

// TestIndexOfSkills: a list of skills that nobody decided on is not for clients.
func TestIndexOfSkills(t *testing.T) {
	s := skilled("crm", skillRecord("refunds"))
	s.has(mcp.MethodResourcesList, resource("skill://index.json"), resource("file:///a"))
	c := start(t, Source{Upstream: s})
	if items := do(t, c, call(mcp.MethodResourcesList, "")).List.Items; len(items) != 1 ||
		items[0].Name != "crm+file:///a" {
		t.Errorf("resources %v", items)
	}
	for _, uri := range []string{"skill://crm/index.json", "skill://crm/INDEX.json", "skill://crm/%69ndex.json",
		"skill://crm//index.json", "skill://crm/index.json?x"} {
		if got, ok := resolve(t.Context(), c, &mcp.Call{}, mcp.KindResources, uri); ok {
			t.Errorf("%s is %+v", uri, got)
		}
	}
}

// TestSkillsThatAreNotKnown: while the skills of an upstream are unknown, nothing passes
// that may be a file of one.
func TestSkillsThatAreNotKnown(t *testing.T) {
	s := skilled("crm").fails(mcp.MethodSkillsList, mcp.Errorf(failure.Internal, "no"))
	s.has(mcp.MethodResourcesList, resource("skill://refunds/SKILL.md"), resource("file:///a"))
	c := start(t, Source{Upstream: s})
	if got, ok := resolve(t.Context(), c, &mcp.Call{}, mcp.KindResources, "skill://crm/refunds/SKILL.md"); ok {
		t.Errorf("it is %+v", got)
	}
	if _, ok := resolve(t.Context(), c, &mcp.Call{}, mcp.KindResources, "crm+file:///a"); !ok {
		t.Error("what is no skill's file is not found either")
	}
	if items := do(t, c, call(mcp.MethodResourcesList, "")).List.Items; len(items) != 1 ||
		items[0].Name != "crm+file:///a" {
		t.Errorf("resources %v", items)
	}
}

func TestSkillsGetAtTheUpstream(t *testing.T) {
	record := strings.Replace(skillRecord("refunds"), `"resources"`,
		`"arguments":[{"name":"kind","required":true},{"name":"other"}],"resources"`, 1)
	s := skilled("crm", record).on(mcp.MethodSkillsGet, func(_ context.Context, call *mcp.Call) (*mcp.Reply, error) {
		if _, byURI := mcp.SkillKey(call.Params); byURI {
			uri, _ := call.Params.Member("uri")
			return &mcp.Reply{Result: mcp.Object("skill",
				mcp.Raw(strings.ReplaceAll(skillRecord("refunds"), "skill://refunds/SKILL.md", uri.Text())))}, nil
		}
		return &mcp.Reply{Result: mcp.Raw(`{"instructions":"see file:///a","dependencies":{"tools":["a","b.c"]},"files":[{"name":"a","uri":"file:///a"}]}`)}, nil
	})
	c := start(t, Source{Upstream: s})
	got := do(t, c, skillCall(t, c, "crm__refunds", `{"name":"crm__refunds","arguments":{"kind":"x"}}`)).Result
	if want := `{"instructions":"see file:///a","dependencies":{"tools":["crm__a","crm__b_c_`; /* a hash */ !strings.HasPrefix(string(got), want) ||
		!strings.HasSuffix(string(got), `"files":[{"name":"a","uri":"crm+file:///a"}]}`) {
		t.Errorf("got %s", got)
	}
	if last := s.last(t, mcp.MethodSkillsGet); last.Name != "refunds" ||
		string(last.Params) != `{"name":"refunds","arguments":{"kind":"x"}}` {
		t.Errorf("the upstream is asked %q with %s", last.Name, last.Params)
	}
	got = do(t, c, skillCall(t, c, "skill://crm/refunds/SKILL.md", `{"uri":"skill://crm/refunds/SKILL.md"}`)).Result
	if want := `{"skill":{"name":"crm__refunds","uri":"skill://crm/refunds/SKILL.md"`; !strings.HasPrefix(string(got),
		want) {
		t.Errorf("got %s", got)
	}
	for _, params := range []string{`{"name":"crm__refunds"}`,
		`{"name":"crm__refunds","arguments":{"other":"x","kind":null}}`} {
		_, err := c.Handle(t.Context(), skillCall(t, c, "crm__refunds", params))
		if e, ok := err.(*mcp.Error); !ok || e.Code != mcp.CodeInvalidParams {
			t.Errorf("%s: %v", params, err)
		}
	}
	undecided := call(mcp.MethodSkillsGet, "crm__refunds")
	undecided.Params = mcp.Raw(`{"name":"crm__refunds","arguments":{"kind":"x"}}`)
	if reply, err := c.Handle(t.Context(), undecided); err == nil {
		t.Errorf("without a decision: %s", reply.Result)
	}
}

// skillCall returns a call of skills/get that policy let through.
func skillCall(t *testing.T, c *Catalog, name, params string) *mcp.Call {
	t.Helper()
	to, ok := resolve(t.Context(), c, &mcp.Call{}, mcp.KindSkills, name)
	if !ok {
		t.Fatalf("%s does not resolve", name)
	}
	get := call(mcp.MethodSkillsGet, name)
	get.Params, get.Target = mcp.Raw(params), to
	return get
}

func TestDependenciesOfDirectories(t *testing.T) {
	record := strings.Replace(skillRecord("a"), `"resources"`,
		`"dependencies":{"tools":["crm/x","crm/gone","nobody/x","x"],"prompts":[{"type":"ref/prompt","name":"crm/ask"}],"resources":[{"type":"ref/resource","uri":"crm/file:///a"},{"type":"ref/resource","uri":"crm/doc:///{id}"}]},"resources"`, 1)
	crm := newServer("crm").tools("x").has(mcp.MethodPromptsList, `{"name":"ask"}`)
	c := start(t, Source{Upstream: crm}, Source{Upstream: skilled("pb", record), SkillDir: true})
	item := do(t, c, call(mcp.MethodSkillsList, "")).List.Items[0]
	got, _ := item.Raw.Member("dependencies")
	if want := `{"tools":["crm__x"],"prompts":[{"type":"ref/prompt","name":"crm__ask"}],"resources":[{"type":"ref/resource","uri":"crm+file:///a"},{"type":"ref/resource","uri":"crm+doc:///{id}"}]}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	reasons := fmt.Sprint(c.Status()[1].Withheld)
	for _, want := range []string{`tool "nobody/x"`, `tool "x"`, `tool "crm__gone"`} {
		if !strings.Contains(reasons, want) {
			t.Errorf("%s is not named to the operator: %s", want, reasons)
		}
	}
}

// TestDependenciesOnToolsOfEachUser: tools that upstreams list only to individual users are
// missing from the shared list, but not for the user; so there is nothing to warn about.
func TestDependenciesOnToolsOfEachUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record := strings.Replace(skillRecord("a"), `"resources"`,
			`"dependencies":{"tools":["crm/of-ann","nobody/x"]},"resources"`, 1)
		c := start(t, perUser(toolsOf(newServer("crm"))), Source{Upstream: skilled("pb", record), SkillDir: true})
		ann := do(t, c, by("ann", call(mcp.MethodSkillsList, ""))).List.Items[0]
		if got, _ := ann.Raw.Member("dependencies"); string(got) != `{"tools":["crm__of-ann"]}` {
			t.Errorf("who has the tool is told %s", got)
		}
		withheld := c.Status()[1].Withheld
		if len(withheld) != 1 || withheld[0].List != "dependencies of skills" ||
			!strings.Contains(withheld[0].Reason, "nobody/x") {
			t.Errorf("the operator is told %v, want of nobody/x alone, and not that the skill is withheld", withheld)
		}
	})
}

func FuzzLooseURI(f *testing.F) {
	for _, uri := range []string{"skill://a/b", "SKILL://a//b%2fc", "a%25%32%35", "%", "x?y#z", ""} {
		f.Add(uri)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		loose := looseURI(uri)
		x := newSkillIndex([]mcp.Item{{Name: "k", Raw: mcp.Object("uri", mcp.String(uri+"/SKILL.md"))}})
		if key, ok := x.find(uri + "/file"); len(x.keys) == 1 && x.keys[uri] == "k" && (key != "k" || !ok) {
			t.Errorf("%q is not found: %q, %v, %q", uri, key, ok, loose)
		}
	})
}
