package disclosure

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func manyNames(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("tool%d", i)
	}
	return strings.Join(names, ",")
}

func namesOf(items []mcp.Item) (names []string) {
	for _, item := range items {
		names = append(names, item.Name)
	}
	return names
}

// TestListIsMinimal: whatever the upstream says of a tool, the list shows only what
// is needed to choose the tool and to consent.
func TestListIsMinimal(t *testing.T) {
	r := progressive(t)
	items := r.list(t, alice, mcp.MethodToolsList)
	if got, want := namesOf(items), []string{ToolName, "crm__export", "crm__delete_all",
		"weather__now"}; !slices.Equal(got, want) {
		t.Fatalf("the list is %q, want %q", got, want)
	}
	for _, item := range items[1:] {
		item.Raw.Each(func(name string, value mcp.Raw) bool {
			switch name {
			case "name", "title", "annotations", "icons":
			case "description":
				if text := value.Text(); text == "" || len(text) > 4*longest {
					t.Errorf("%s is described by %q", item.Name, text)
				}
			case "inputSchema":
				if string(value) != minimalSchema {
					t.Errorf("%s has the schema %s", item.Name, value)
				}
			case "_meta":
				if string(value) != `{"ui":{"resourceUri":"ui://crm/page"},"anthropic/alwaysLoad":true}` {
					t.Errorf("%s has the _meta %s", item.Name, value)
				}
			default:
				t.Errorf("%s has the member %s", item.Name, name)
			}
			return true
		})
	}
	if annotations, _ := items[2].Raw.Member("annotations"); string(annotations) != `{"destructiveHint":true}` {
		t.Errorf("what users consent by is not there: %s", items[2].Raw)
	}
}

func TestResourceIsListed(t *testing.T) {
	for _, none := range []bool{false, true} { // whether upstreams have resources or not
		r := progressive(t)
		r.below.noLists = none
		items := r.list(t, alice, mcp.MethodResourcesList)
		if items[0].Name != URI || slices.Contains(namesOf(items[1:]), URI) {
			t.Fatalf("the list is %q", namesOf(items))
		}
		text, _ := items[0].Raw.Member("description")
		for _, point := range []string{"tools/list", "fetch its full description", URI + "?tools=TOOL_NAME",
			"?tools=TOOL_1,TOOL_2", "authorises", "refused with TOOL_DESCRIPTION_REQUIRED"} {
			if !strings.Contains(text.Text(), point) {
				t.Errorf("the workflow text lacks %q", point)
			}
		}
		if templates := r.list(t, alice, mcp.MethodResourceTemplatesList); templates[0].Name != Template {
			t.Errorf("the templates are %q", namesOf(templates))
		}
		if !none {
			continue
		}
		if _, err := r.h.Handle(t.Context(), alice.call(mcp.MethodResourcesList, "", `{"cursor":"x"}`)); !mcp.HasCode(err,
			mcp.CodeInvalidParams) {
			t.Errorf("a cursor that nobody gave: %v", err)
		}
	}
}

// TestSelectedToolsOnly: selected tools are described in full, and nothing else is
// returned.
func TestSelectedToolsOnly(t *testing.T) {
	tests := []struct {
		query string
		want  []string
	}{
		{"?tools=crm__export", []string{"crm__export"}},
		{"?tools=crm__export,weather__now", []string{"crm__export", "weather__now"}},
		{"?tools=crm__export%2Cweather__now", []string{"crm__export", "weather__now"}},
		{"?tools=crm__export%2cweather__now", []string{"crm__export", "weather__now"}},
		{"?tools=%63rm__export", []string{"crm__export"}},
		{"?tools=,crm__export,,crm__export", []string{"crm__export"}},
		{"?a=b&tools=crm__export&c", []string{"crm__export"}},
		{"?tools=crm__export&tools=weather__now", []string{"crm__export", "weather__now"}},
	}
	for _, tt := range tests {
		t.Run(tt.query, func(t *testing.T) {
			text := progressive(t).fetch(t, alice, tt.query)
			var got map[string]map[string]json.RawMessage
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, tt.want) {
				t.Fatalf("described are %q, want %q", keys, tt.want)
			}
			whole, _ := mcp.Raw(exportTool).Member("inputSchema")
			if one := got["crm__export"]; string(one["inputSchema"]) != string(whole) || string(one["name"]) != `"crm__export"` {
				t.Errorf("not in full: %s", text)
			}
		})
	}
}

func TestMissingSelection(t *testing.T) {
	r := progressive(t)
	for _, query := range []string{"", "?", "?tools", "?tools=", "?tools=,,", "?tools=%2C", "?Tools=crm__export",
		"?names=crm__export"} {
		var body struct {
			Error struct {
				Code, Message string
				Examples      []string
			}
		}
		if err := json.Unmarshal([]byte(r.fetch(t, alice, query)), &body); err != nil {
			t.Fatal(err)
		}
		if body.Error.Code != "MISSING_TOOL_SELECTION" || body.Error.Message != missingText || len(body.Error.Examples) != 2 {
			t.Errorf("%q: %+v", query, body)
		}
	}
	for _, arguments := range []string{`{}`, `{"names":[]}`, `{"names":[""]}`, `{"names":7}`, `null`, `{"tools":[]}`,
		`{"tool":"crm__export"}`} {
		if text := r.tool(t, alice, ToolName, arguments); !strings.Contains(text, "MISSING_TOOL_SELECTION") ||
			!strings.Contains(text, missingNamesText) || strings.Contains(text, "'tools'") {
			t.Errorf("%s: %s", arguments, text) // a caller that follows this must not get the same answer again
		}
	}
	if text := r.tool(t, alice, ToolName, `{"tools":["weather__now"]}`); strings.Contains(text, "MISSING") ||
		!strings.Contains(text, "weather__now") {
		t.Errorf("under the name that the resource has for it: %s", text)
	}
	if text := r.tool(t, alice, ToolName, `{"names":"crm__export,weather__now"}`); strings.Contains(text, "MISSING") ||
		!strings.Contains(text, "weather__now") {
		t.Errorf("names in one text: %s", text)
	}
}

// TestUnknownTool: a tool that this caller may not use is as unknown as one that
// does not exist, and is not listed as available.
func TestUnknownTool(t *testing.T) {
	r := progressive(t)
	entry := func(w who, name string) string {
		var got map[string]json.RawMessage
		if err := json.Unmarshal([]byte(r.fetch(t, w, "?tools="+name+",weather__now")), &got); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(got["weather__now"]), "inputSchema") {
			t.Errorf("the one that exists is not described: %s", got["weather__now"])
		}
		return strings.Replace(string(got[name]), "'"+name+"'", "'X'", 1)
	}
	const want = `{"error":"Tool 'X' not found","available_tools":["crm__export","crm__delete_all","weather__now"]}`
	for _, name := range []string{"crm__nothing", "crm__secret", "CRM__export", " crm__export", "export"} {
		if got := entry(alice, name); got != want {
			t.Errorf("%q: %s", name, got)
		}
	}
	if text := r.fetch(t, root, "?tools=crm__secret"); strings.Contains(text, "not found") {
		t.Errorf("who may use it is told %s", text)
	}
	completion := r.handle(t, alice.call(mcp.MethodComplete, Template,
		`{"ref":{"type":"ref/resource","uri":"`+Template+`"},"argument":{"name":"tools","value":"crm__s"}}`))
	if string(completion.Result) != `{"completion":{"values":[],"total":0,"hasMore":false}}` {
		t.Errorf("completion: %s", completion.Result)
	}
	for _, item := range r.list(t, alice, mcp.MethodToolsList) {
		if strings.Contains(string(item.Raw), "secret") {
			t.Errorf("the list: %s", item.Raw)
		}
	}
}

// TestCallBeforeFetching: the call is refused before anything reaches the stages
// below.
func TestCallBeforeFetching(t *testing.T) {
	for _, w := range []who{alice, modern} {
		r := progressive(t)
		reply := r.handle(t, w.call(mcp.MethodToolsCall, "crm__export", `{"name":"crm__export"}`))
		if isError, _ := reply.Result.Member("isError"); !isError.IsTrue() {
			t.Errorf("no error: %s", reply.Result)
		}
		if _, has := reply.Result.Member("structuredContent"); has {
			t.Errorf("with structured content: %s", reply.Result)
		}
		content, _ := reply.Result.Member("content")
		var blocks []struct{ Type, Text string }
		if err := json.Unmarshal(content, &blocks); err != nil || len(blocks) != 1 || blocks[0].Type != "text" {
			t.Fatalf("%v: %s", err, content)
		}
		const want = `{"code":"TOOL_DESCRIPTION_REQUIRED","message":"Tool 'crm__export' requires fetching its description before use.","resource_uri":"resource:///tool_descriptions?tools=crm__export"}`
		if got, _ := mcp.Raw(blocks[0].Text).Member("error"); string(got) != want {
			t.Errorf("the error is %s", got)
		}
		if got := r.below.calls(); got != nil {
			t.Errorf("%q got below", got)
		}
	}
}

func TestGrantIsTheSessions(t *testing.T) {
	fetches := map[string]func(*testing.T, *rig, who){
		"by the resource": func(t *testing.T, r *rig, w who) { r.fetch(t, w, "?tools=crm__export") },
		"by the tool":     func(t *testing.T, r *rig, w who) { r.tool(t, w, ToolName, `{"names":["crm__export"]}`) },
	}
	for name, fetch := range fetches {
		t.Run(name, func(t *testing.T) {
			r := progressive(t)
			fetch(t, r, alice)
			for range 3 {
				if text := r.tool(t, alice, "crm__export", `{}`); text != "called" {
					t.Fatalf("after the fetch: %s", text)
				}
			}
			for what, w := range map[string]who{"another session of the user": another, "a client without sessions": modern,
				"another user": root} {
				if text := r.tool(t, w, "crm__export", `{}`); !refuses(text) {
					t.Errorf("%s: %s", what, text)
				}
			}
			if text := r.tool(t, alice, "weather__now", `{}`); !refuses(text) {
				t.Errorf("another tool: %s", text)
			}
		})
	}
}

// TestFetchingGivesNoAccess: neither fetching a description nor an earlier grant
// gives access.
func TestFetchingGivesNoAccess(t *testing.T) {
	r := progressive(t)
	r.fetch(t, alice, "?tools=crm__secret")
	r.tool(t, alice, ToolName, `{"names":["crm__secret"]}`)
	say := func(w who, name string) string {
		_, err := r.h.Handle(t.Context(), w.call(mcp.MethodToolsCall, name, `{}`))
		if !mcp.HasCode(err, mcp.CodeInvalidParams) {
			t.Fatalf("%s: %v", name, err)
		}
		return strings.ReplaceAll(err.Error(), name, "X")
	}
	if got, want := say(alice, "crm__secret"), say(alice, "crm__nothing"); got != want {
		t.Errorf("told %q, and of none %q", got, want)
	}
	r.fetch(t, root, "?tools=crm__secret")
	if text := r.tool(t, root, "crm__secret", `{}`); text != "called" {
		t.Fatal(text)
	}
	r.below.hidden["crm__secret"] = "nobody"
	say(root, "crm__secret")
	for _, call := range r.below.calls()[1:] {
		t.Errorf("%s got below", call)
	}
	if text := r.tool(t, alice, ToolName, `{"names":["`+ToolName+`"]}`); !strings.Contains(text,
		`"name":"describe_tools"`) {
		t.Errorf("our tool of itself: %s", text)
	}
}

// TestStatelessGrant: a grant is bound to user and client and expires; a refused
// call returns the description and counts as the fetch; the list never changes.
func TestStatelessGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{Mode: ModeProgressive, Grant: time.Minute}, nil)
		before := r.handle(t, modern.call(mcp.MethodToolsList, "", `{}`)).List
		first := r.tool(t, modern, "crm__export", `{}`)
		if !refuses(first) || !strings.Contains(first, "tool_descriptions") || !strings.Contains(first, "Which rows") {
			t.Fatalf("the first call says %s", first)
		}
		if text := r.tool(t, modern, "crm__export", `{}`); text != "called" {
			t.Errorf("the second call says %s", text)
		}
		other := who{"alice", "a:~2", true}
		if text := r.tool(t, other, "crm__export", `{}`); !refuses(text) {
			t.Errorf("another client: %s", text)
		}
		after := r.handle(t, modern.call(mcp.MethodToolsList, "", `{}`)).List
		if !slices.EqualFunc(before.Items, after.Items, func(a, b mcp.Item) bool { return string(a.Raw) == string(b.Raw) }) {
			t.Error("the list has changed")
		}
		time.Sleep(time.Minute)
		if text := r.tool(t, modern, "crm__export", `{}`); !refuses(text) {
			t.Errorf("after its time: %s", text)
		}
		r.fetch(t, alice, "?tools=weather__now")
		time.Sleep(24 * time.Hour)
		if text := r.tool(t, alice, "weather__now", `{}`); text != "called" {
			t.Errorf("a session's grant has ended before it: %s", text)
		}
	})
}

func TestChangedDefinition(t *testing.T) {
	r := progressive(t)
	r.fetch(t, alice, "?tools=crm__export,crm__delete_all")
	r.below.redefine(strings.Replace(exportTool, `"Which rows"`, `"Which rows, in SQL"`, 1))
	if text := r.tool(t, alice, "crm__export", `{}`); !refuses(text) {
		t.Errorf("after the change: %s", text)
	}
	if text := r.tool(t, alice, "crm__delete_all", `{}`); text != "called" {
		t.Errorf("the other one: %s", text)
	}
	r.below.redefine(exportTool)
	if text := r.tool(t, alice, "crm__export", `{}`); !refuses(text) {
		t.Errorf("a change back is a change: %s", text)
	}
	r.fetch(t, alice, "?tools=crm__export")
	if text := r.tool(t, alice, "crm__export", `{}`); text != "called" {
		t.Errorf("after fetching anew: %s", text)
	}
}

// TestHeadersOfParameters: a caller that does not know the schema need not send these
// headers.
func TestHeadersOfParameters(t *testing.T) {
	r := newRig(t, Config{Mode: ModeProgressive}, func(d *Deps) { d.Upstreams["weather"] = Upstream{Mode: ModeFull} })
	r.fetch(t, modern, "?tools=crm__export")
	for _, name := range []string{"crm__export", "weather__now"} {
		c := modern.call(mcp.MethodToolsCall, name, `{"arguments":{"month":"2026-10"}}`)
		c.ParamHeaders = map[string]string{}
		r.handle(t, c)
	}
	if minimal, full := r.below.reached[0], r.below.reached[1]; minimal.ParamHeaders != nil || full.ParamHeaders == nil {
		t.Errorf("checked are %v and %v", minimal.ParamHeaders, full.ParamHeaders)
	}
}

// TestRoundsAreNotCheckedAgain: later rounds pass, whatever has become of the grant or the
// definition.
func TestRoundsAreNotCheckedAgain(t *testing.T) {
	tests := []struct {
		name   string
		change func(*mcp.Call)
		passes bool
	}{
		{"no round", func(*mcp.Call) {}, false},
		{"a state", func(c *mcp.Call) { c.Round = mcp.NewRound(mcp.FrameServer, "s") }, true},
		{"a state of a client without sessions",
			func(c *mcp.Call) { c.Round, c.Ephemeral = mcp.NewRound(mcp.FrameServer, "s"), true }, true},
		{"answers of a session", func(c *mcp.Call) { c.Answers = map[string]mcp.Raw{} }, true},
		{"let go", func(c *mcp.Call) { c.Refused = map[string]*mcp.Error{} }, true},
		{"answers that nobody asked for", func(c *mcp.Call) { c.Answers, c.Ephemeral = map[string]mcp.Raw{}, true }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := alice.call(mcp.MethodToolsCall, "crm__export", `{}`)
			tt.change(c)
			r := progressive(t)
			r.handle(t, c)
			if passes := r.below.calls() != nil; passes != tt.passes {
				t.Errorf("passes: %v", passes)
			}
		})
	}
}

// TestModes: the mode of a client overrides that of an upstream, which overrides the global
// mode.
func TestModes(t *testing.T) {
	tests := []struct {
		name               string
		all, crm, client   string
		wantCRM, wantOther bool // described briefly
	}{
		{"nothing said", "", "", "", false, false},
		{"all", ModeProgressive, "", "", true, true},
		{"an upstream", "", ModeProgressive, "", true, false},
		{"but an upstream", ModeProgressive, ModeFull, "", false, true},
		{"a client", "", "", ModeProgressive, true, true},
		{"but a client", ModeProgressive, "", ModeFull, false, false},
		{"a client beats an upstream", ModeFull, ModeFull, ModeProgressive, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{Mode: tt.all}, func(d *Deps) {
				d.Upstreams["crm"] = Upstream{Mode: tt.crm}
				d.Clients = []string{tt.client}
				d.Whose = func(c *mcp.Caller) int {
					if c.Subject == "alice" && tt.client != "" {
						return 0
					}
					return -1
				}
			})
			items := r.list(t, alice, mcp.MethodToolsList)
			short := func(name string) bool {
				i := slices.IndexFunc(items, func(item mcp.Item) bool { return item.Name == name })
				schema, _ := items[i].Raw.Member("inputSchema")
				return string(schema) == minimalSchema
			}
			if crm, other := short("crm__export"), short("weather__now"); crm != tt.wantCRM || other != tt.wantOther {
				t.Errorf("in short are crm %v, weather %v", crm, other)
			}
			any := tt.wantCRM || tt.wantOther
			if has := slices.Contains(namesOf(items), ToolName); has != any {
				t.Errorf("our tool is there: %v", has)
			}
			if has := slices.Contains(namesOf(r.list(t, alice, mcp.MethodResourcesList)[:1]), URI); !has && any {
				t.Errorf("our resource is there: %v", has)
			}
			if passes := r.tool(t, alice, "crm__delete_all", `{}`) == "called"; passes == tt.wantCRM {
				t.Errorf("a call passes: %v", passes)
			}
		})
	}
}

// TestFullIsNotThere: with mode full for everyone, the stage is not in the chain. For
// callers in mode full it costs nothing and adds nothing.
func TestFullIsNotThere(t *testing.T) {
	idle := newRig(t, Config{}, nil)
	if got, ok := idle.stage.(*below); !ok || got != idle.below {
		t.Error("the stage is in the way")
	}
	r := newRig(t, Config{}, func(d *Deps) {
		d.Clients, d.Whose = []string{ModeProgressive}, func(c *mcp.Caller) int {
			if c.Subject == "small" {
				return 0
			}
			return -1
		}
	})
	if items := r.list(t, alice, mcp.MethodToolsList); string(items[0].Raw) != exportTool {
		t.Errorf("listed is %s", items[0].Raw)
	}
	for _, c := range []*mcp.Call{alice.call(mcp.MethodResourcesRead, URI, `{}`),
		alice.call(mcp.MethodToolsCall, ToolName, `{}`)} {
		if _, err := r.h.Handle(t.Context(), c); !mcp.HasCode(err, mcp.CodeInvalidParams) {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	if list := r.handle(t, who{"small", "s:1", false}.call(mcp.MethodToolsList, "", `{}`)).List; !list.Private {
		t.Error("lists that differ by who asks are not private")
	}
}

// TestReserved: items of an upstream without a prefix that have our names are withheld.
func TestReserved(t *testing.T) {
	r := progressive(t)
	r.below.offer("weather", ToolName,
		`{"name":"describe_tools","description":"Hidden.","inputSchema":{"type":"object","properties":{"a":{}}}}`)
	if text := r.tool(t, alice, ToolName, `{"names":["crm__export"]}`); text == "called" {
		t.Error("the call got below")
	}
	for _, item := range r.list(t, alice, mcp.MethodToolsList)[1:] {
		if item.Name == ToolName {
			t.Errorf("listed is %s", item.Raw)
		}
	}
	if text := r.fetch(t, alice, "?tools="+ToolName+",none"); strings.Contains(text, "Hidden.") ||
		!strings.Contains(text, `"weather__now"]`) {
		t.Errorf("described is %s", text)
	}
	for _, uri := range []string{URI + "{?tools}", URI + "#a", URI + "?tools=a#b"} {
		if _, err := r.h.Handle(t.Context(), alice.call(mcp.MethodResourcesRead, uri, `{}`)); !mcp.HasCode(err,
			mcp.CodeInvalidParams) {
			t.Errorf("%s: %v", uri, err)
		}
	}
	if got := r.below.calls(); got != nil {
		t.Errorf("%q got below", got)
	}
	for _, uri := range []string{URI + "/a", URI + "s", "crm+" + URI, "RESOURCE:///tool_descriptions"} {
		_, _ = r.h.Handle(t.Context(), alice.call(mcp.MethodResourcesRead, uri, `{}`))
	}
	if got := r.below.calls(); len(got) != 4 {
		t.Errorf("only %q got below", got)
	}
}

// TestManyPages: tools are found on every page of the list, and ours are listed once.
func TestManyPages(t *testing.T) {
	r := progressive(t)
	r.below.pageSize = 1
	want := []string{ToolName, "crm__export", "crm__delete_all", "weather__now"}
	if got := namesOf(r.list(t, alice, mcp.MethodToolsList)); !slices.Equal(got, want) {
		t.Errorf("the list is %q", got)
	}
	r.fetch(t, alice, "?tools=weather__now,crm__export")
	for _, name := range []string{"weather__now", "crm__export"} {
		if text := r.tool(t, alice, name, `{}`); text != "called" {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestLargeDescriptions: an answer is bounded, and descriptions left out are not granted.
func TestLargeDescriptions(t *testing.T) {
	r := progressive(t)
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprintf("crm__t%d", i))
		r.below.offer("crm", names[i][5:], fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`,
			names[i], strings.Repeat("long ", 12<<10)))
	}
	text := r.fetch(t, alice, "?tools="+strings.Join(names, ","))
	if len(text) > maxBytes+64<<10 || !strings.Contains(text, "ask for 'crm__t29' in a request of its own") {
		t.Errorf("%d bytes", len(text))
	}
	if first, last := r.tool(t, alice, names[0], `{}`), r.tool(t, alice, names[29], `{}`); first != "called" ||
		!refuses(last) {
		t.Error("granted is not what was shown")
	}
}

// TestStoreDown: security does not depend on grants, so calls go on.
func TestStoreDown(t *testing.T) {
	r := newRig(t, Config{Mode: ModeProgressive}, func(d *Deps) { d.Grants = broken{} })
	if text := r.fetch(t, alice, "?tools=crm__export"); !strings.Contains(text, "inputSchema") {
		t.Error(text)
	}
	if text := r.tool(t, alice, "crm__export", `{}`); text != "called" {
		t.Error(text)
	}
}

// TestOurToolRunsAsNoTask (2025-11-25 basic/utilities/tasks).
func TestOurToolRunsAsNoTask(t *testing.T) {
	c := alice.call(mcp.MethodToolsCall, ToolName, `{}`)
	c.Task = mcp.Raw(`{}`)
	if _, err := progressive(t).h.Handle(t.Context(), c); !mcp.HasCode(err, mcp.CodeMethodNotFound) {
		t.Error(err)
	}
}
