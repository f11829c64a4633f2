package skills

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/skillmd"
)

// server answers a method, or a method and a name behind it, with a result; of a list
// method with the list that the member of it says.
type server map[string]string

func (s server) Handle(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
	name := c.Name
	if c.Method == mcp.MethodSkillsGet {
		key, _ := mcp.SkillKey(c.Params)
		name = key.Text()
	}
	text, ok := s[c.Method]
	if !ok {
		text, ok = s[c.Method+" "+name]
	}
	if !ok {
		return nil, mcp.ErrUnknown(c.Method, name)
	}
	member := mcp.ListMember(c.Method)
	if member == "" {
		return &mcp.Reply{Result: mcp.Raw(text)}, nil
	}
	list := &mcp.List{}
	items, _ := mcp.Raw(text).Member(member)
	items.Elements(func(item mcp.Raw) bool {
		uri, _ := item.Member("uri")
		list.Items = append(list.Items, mcp.Item{Name: uri.Text(), Raw: item})
		return true
	})
	return &mcp.Reply{List: list}, nil
}

// through makes calls at a server whose capabilities are asked for first.
func through(t *testing.T, s server) (skills *Skills, do func(c mcp.Call) *mcp.Reply) {
	t.Helper()
	skills = New(false)
	h := skills.Middleware(s)
	do = func(c mcp.Call) *mcp.Reply {
		t.Helper()
		c.Notify = func(mcp.Event) {}
		reply, err := h.Handle(t.Context(), &c)
		if err != nil {
			t.Fatalf("%s %s %s: %v", c.Method, c.Name, c.Params, err)
		}
		return reply
	}
	caps, _ := do(mcp.Call{Method: mcp.MethodDiscover}).Result.Member("capabilities")
	if _, has := caps.Member("resources"); !has {
		t.Errorf("capabilities %s: skills are read as resources", caps)
	}
	return skills, do
}

func byURI(uri string) mcp.Raw { return mcp.Object("uri", mcp.String(uri)) }

// isSkill checks what is listed.
func isSkill(t *testing.T, items []mcp.Item, key string, members map[string]string) {
	t.Helper()
	if len(items) != 1 || items[0].Name != key {
		t.Fatalf("listed %v, want %s", items, key)
	}
	for member, want := range members {
		if got, _ := items[0].Raw.Member(member); string(got) != want {
			t.Errorf("%s is %s, want %s", member, got, want)
		}
	}
}

// fileOf is the text of a SKILL.md.
func fileOf(t *testing.T, reply *mcp.Reply) (text string) {
	t.Helper()
	contents, _ := reply.Result.Member("contents")
	contents.Elements(func(content mcp.Raw) bool {
		value, _ := content.Member("text")
		text = value.Text()
		return false
	})
	return text
}

// TestSkillsWithNamesAlone get a URI, and a SKILL.md that says what their frontmatter says.
func TestSkillsWithNamesAlone(t *testing.T) {
	_, do := through(t, server{
		mcp.MethodDiscover:                           `{"capabilities":{"skills":{}}}`,
		mcp.MethodSkillsList:                         `{"skills":[{"name":"Monthly Report","title":"What it is for","version":"2"}]}`,
		mcp.MethodSkillsGet + " " + "Monthly Report": `{"instructions":"Do it."}`,
	})
	uri := madeURI("Monthly Report")
	items := do(mcp.Call{Method: mcp.MethodSkillsList}).List.Items
	isSkill(t, items, "Monthly Report", map[string]string{"uri": string(mcp.String(uri)), "resources": `"dynamic"`})
	if got, _ := do(mcp.Call{Method: mcp.MethodSkillsGet, Name: "Monthly Report",
		Params: byURI(uri)}).Result.Member("skill"); string(got) != string(items[0].Raw) {
		t.Errorf("the entry is %s, want %s", got, items[0].Raw)
	}
	target := mcp.Target{Kind: mcp.KindSkills, Name: "Monthly Report"}
	read, err := skillmd.Read([]byte(fileOf(t, do(mcp.Call{Method: mcp.MethodResourcesRead, Name: uri, Target: target}))))
	want, _ := items[0].Raw.Member("frontmatter")
	if err != nil || string(read.Frontmatter) != string(want) || read.Body != "Do it." ||
		read.Description != "What it is for" {
		t.Errorf("the file says %s and %q, %v, want %s", read.Frontmatter, read.Body, err, want)
	}
}

// TestSkillsThatNeedArguments have a SKILL.md that names them.
func TestSkillsThatNeedArguments(t *testing.T) {
	_, do := through(t, server{
		mcp.MethodDiscover:   `{"capabilities":{"skills":{}}}`,
		mcp.MethodSkillsList: `{"skills":[{"name":"a","description":"d","arguments":[{"name":"region","description":"Whose.","required":true},{"name":"month"}]}]}`,
	})
	text := fileOf(t, do(mcp.Call{Method: mcp.MethodResourcesRead, Name: madeURI("a"),
		Target: mcp.Target{Kind: mcp.KindSkills, Name: "a"}}))
	if !strings.Contains(text, "- `region` (required): Whose.\n- `month`\n") {
		t.Errorf("the file says %q", text)
	}
}

// TestSkillsWithURIs get a key, the members of the other form, and instructions by it.
func TestSkillsWithURIs(t *testing.T) {
	const entry = `{"uri":"skill://acme/a/SKILL.md","frontmatter":{"name":"a","description":"d","metadata":{"version":"1.10"}},"resources":[{"uri":"skill://acme/a/SKILL.md"},{"uri":"skill://acme/a/b.md"}]}`
	_, do := through(t, server{
		mcp.MethodDiscover:   `{"capabilities":{"extensions":{"` + mcp.SkillsExtension + `":{}}}}`,
		mcp.MethodSkillsList: `{"skills":[` + entry + `]}`,
		mcp.MethodSkillsGet + " skill://acme/a/SKILL.md": `{"skill":` + entry + `}`,
		mcp.MethodResourcesRead +
			" skill://acme/a/SKILL.md": `{"contents":[{"text":"---\nname: a\ndescription: d\n---\nDo it."}]}`,
	})
	isSkill(t, do(mcp.Call{Method: mcp.MethodSkillsList}).List.Items, "acme/a",
		map[string]string{"name": `"acme/a"`, "description": `"d"`, "version": `"1.10"`})
	got := do(mcp.Call{Method: mcp.MethodSkillsGet, Name: "acme/a", Params: mcp.Raw(`{"name":"acme/a"}`)}).Result
	if want := `{"description":"d","instructions":"Do it.","files":[{"name":"b.md","uri":"skill://acme/a/b.md","mimeType":"text/markdown"}]}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestSkillsAmongResources are found, and of what is none it is told why.
func TestSkillsAmongResources(t *testing.T) {
	skills, do := through(t, server{
		mcp.MethodDiscover:      `{"capabilities":{"resources":{}}}`,
		mcp.MethodResourcesList: `{"resources":[{"uri":"skill://a/SKILL.md"},{"uri":"skill://a/b.md"},{"uri":"file:///c.md"},{"uri":"skill://broken/SKILL.md"},{"uri":"skill://gone/SKILL.md"}]}`,
		mcp.MethodResourcesRead +
			" skill://a/SKILL.md": `{"contents":[{"blob":"LS0tCm5hbWU6IGEKZGVzY3JpcHRpb246IGQKLS0tCkRvIGl0Lg=="}]}`,
		mcp.MethodResourcesRead + " skill://broken/SKILL.md": `{"contents":[{"text":"no frontmatter"}]}`,
	})
	isSkill(t, do(mcp.Call{Method: mcp.MethodSkillsList}).List.Items, "a",
		map[string]string{"uri": `"skill://a/SKILL.md"`, "resources": `"dynamic"`})
	skipped := skills.Skipped()
	if len(skipped) != 2 ||
		skipped["skill://broken/SKILL.md"] != "SKILL.md: it does not begin with a line of three dashes" ||
		skipped["skill://gone/SKILL.md"] != "it cannot be read" {
		t.Errorf("skipped %q", skipped)
	}
	got := do(mcp.Call{Method: mcp.MethodSkillsGet, Name: "a", Params: mcp.Raw(`{"name":"a"}`)}).Result
	if want := `{"description":"d","instructions":"Do it.","files":[{"name":"b.md","uri":"skill://a/b.md","mimeType":"text/markdown"}]}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestSkillsOfSessions: each client reads of a skill what its own session shows, whatever others were shown.
func TestSkillsOfSessions(t *testing.T) {
	s := server{
		mcp.MethodDiscover:              `{"capabilities":{"skills":{}}}`,
		mcp.MethodSkillsList:            `{"skills":[{"name":"a","description":"of all"}]}`,
		mcp.MethodSkillsGet + " " + "a": `{"instructions":"Do it."}`,
	}
	_, do := through(t, s)
	about := func(session string) string {
		call := mcp.Call{Method: mcp.MethodSkillsGet, Name: "a", Params: byURI(madeURI("a")), Session: session}
		return do(call).Result.At("skill", "description").Text()
	}
	do(mcp.Call{Method: mcp.MethodSkillsList})
	for session, description := range map[string]string{"u:1": "of session 1", "u:2": "of session 2"} {
		s[mcp.MethodSkillsList] = `{"skills":[{"name":"a","description":"` + description + `"}]}`
		do(mcp.Call{Method: mcp.MethodSkillsList, Session: session})
		if got := about(session); got != description {
			t.Errorf("session %s reads %q, want %q", session, got, description)
		}
	}
	s[mcp.MethodSkillsList] = `{"skills":[{"name":"a","description":"of all"}]}`
	if got := about("u:3"); got != "of all" {
		t.Errorf("another session reads %q", got)
	}
}

// TestSkillsOfOneKey: sessions, and users with credentials of their own, may have different skills of the
// same key. Each gets its own, and what is remembered of a session ends with it.
func TestSkillsOfOneKey(t *testing.T) {
	const both = `{"capabilities":{"skills":{},"extensions":{"` + mcp.SkillsExtension + `":{}}}}`
	entry := func(scheme, name string) string {
		return `{"skills":[{"name":"` + name + `","uri":"` + scheme +
			`://a/SKILL.md","frontmatter":{"name":"a","description":"d"},"resources":[{"uri":"` + scheme + `://a/SKILL.md"}]}]}`
	}
	file := func(text string) string {
		return `{"contents":[{"text":"---\nname: a\ndescription: d\n---\n` + text + `"}]}`
	}
	session := func(n string) mcp.Call { return mcp.Call{Session: "u:" + n} }
	user := func(name string) mcp.Call {
		return mcp.Call{Caller: mcp.NewCaller(mcp.Caller{Issuer: "i", Subject: name})}
	}
	for _, tt := range []struct {
		name     string
		perUser  bool
		one, two mcp.Call
	}{
		{"sessions", false, session("1"), session("2")},
		{"a session and all", false, mcp.Call{}, session("2")},
		{"users", true, user("ann"), user("bob")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := server{
				mcp.MethodDiscover:         both,
				mcp.MethodSkillsGet + " A": `{"instructions":"of A"}`,
				mcp.MethodSkillsGet + " B": `{"instructions":"of B"}`,
				mcp.MethodSkillsGet +
					" skill://a/SKILL.md": `{"skill":{"uri":"skill://a/SKILL.md","frontmatter":{},"resources":[]}}`,
				mcp.MethodSkillsGet +
					" demo://a/SKILL.md": `{"skill":{"uri":"demo://a/SKILL.md","frontmatter":{},"resources":[]}}`,
				mcp.MethodResourcesRead + " skill://a/SKILL.md": file("in skill"),
				mcp.MethodResourcesRead + " demo://a/SKILL.md":  file("in demo"),
			}
			skills, do := through(t, s)
			skills.perUser = tt.perUser
			as := func(c mcp.Call, method, name string, params mcp.Raw) *mcp.Reply {
				c.Method, c.Name, c.Params = method, name, params
				return do(c)
			}
			lists := func(one, two string) {
				s[mcp.MethodSkillsList] = one
				as(tt.one, mcp.MethodSkillsList, "", nil)
				s[mcp.MethodSkillsList] = two
				as(tt.two, mcp.MethodSkillsList, "", nil)
				delete(s, mcp.MethodSkillsList) // what follows is from memory
			}
			wants := func(c mcp.Call, want string) {
				t.Helper()
				if got := as(c, mcp.MethodSkillsGet, "a", mcp.Raw(`{"name":"a"}`)).Result.At("instructions").Text(); got != want {
					t.Errorf("it says %q, want %q", got, want)
				}
			}
			lists(entry("skill", "A"), entry("skill", "B"))
			wants(tt.one, "of A")
			wants(tt.two, "of B")
			lists(entry("skill", ""), entry("demo", ""))
			wants(tt.one, "in skill")
			wants(tt.two, "in demo")
			skills.End(tt.two.Session)
			if tt.two.Session != "" {
				if left := skills.own.Len(); left != 0 && tt.one.Session == "" || left > 1 {
					t.Errorf("%d skills are remembered of sessions", left)
				}
			}
		})
	}
}

// TestForgottenSkillsOfSessions: what is remembered of sessions is bounded, and no more than differs from
// what all see. What was forgotten is listed again, and not taken from another session.
func TestForgottenSkillsOfSessions(t *testing.T) {
	s := server{
		mcp.MethodDiscover:                              `{"capabilities":{"extensions":{"` + mcp.SkillsExtension + `":{}}}}`,
		mcp.MethodSkillsList:                            `{"skills":[{"uri":"skill://a/SKILL.md"}]}`,
		mcp.MethodSkillsGet + " demo://a/SKILL.md":      `{"skill":{"uri":"demo://a/SKILL.md"}}`,
		mcp.MethodResourcesRead + " skill://a/SKILL.md": `{"contents":[{"text":"of all"}]}`,
		mcp.MethodResourcesRead + " demo://a/SKILL.md":  `{"contents":[{"text":"of the session"}]}`,
	}
	skills, do := through(t, s)
	for _, session := range []string{"", "u:0"} {
		do(mcp.Call{Method: mcp.MethodSkillsList, Session: session})
	}
	if n := skills.own.Len(); n != 0 {
		t.Errorf("%d skills are remembered that are the same for all", n)
	}
	s[mcp.MethodSkillsList] = `{"skills":[{"uri":"demo://a/SKILL.md"}]}`
	for i := range maxOwn + 1 {
		do(mcp.Call{Method: mcp.MethodSkillsList, Session: fmt.Sprint("u:", i)})
	}
	if n := skills.own.Len(); n != maxOwn {
		t.Errorf("%d skills are remembered of sessions", n)
	}
	get := mcp.Call{Method: mcp.MethodSkillsGet, Name: "a", Params: mcp.Raw(`{"name":"a"}`), Session: "u:0",
		Target: mcp.Target{Kind: mcp.KindSkills, Name: "a", File: "demo://a/SKILL.md"}}
	if got := do(get).Result.At("instructions").Text(); got != "of the session" {
		t.Errorf("it says %q", got)
	}
}

// TestSkippedSkillsOfSessions: operators are told of what is wrong with what all see.
func TestSkippedSkillsOfSessions(t *testing.T) {
	s := server{mcp.MethodDiscover: `{"capabilities":{"resources":{}}}`, mcp.MethodResourcesList: `{"resources":[]}`}
	skills, do := through(t, s)
	do(mcp.Call{Method: mcp.MethodSkillsList})
	s[mcp.MethodResourcesList] = `{"resources":[{"uri":"skill://gone/SKILL.md"}]}`
	do(mcp.Call{Method: mcp.MethodSkillsList, Session: "u:1"})
	if skipped := skills.Skipped(); len(skipped) != 0 {
		t.Errorf("skipped %q", skipped)
	}
	do(mcp.Call{Method: mcp.MethodSkillsList})
	if skipped := skills.Skipped(); len(skipped) != 1 {
		t.Errorf("skipped %q", skipped)
	}
}
