package catalog

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// startViews is start with views, and two items on a page.
func startViews(t *testing.T, views []view.Config, sources ...Source) *Catalog {
	t.Helper()
	key, err := seal.NewRandom("cursor")
	if err != nil {
		t.Fatal(err)
	}
	deps := Deps{Log: slog.New(slog.DiscardHandler), Seal: key, Tasks: key,
		Views: make(map[string]*view.View), PageSize: 2}
	for _, cfg := range views {
		if deps.Views[cfg.Name], err = view.New(cfg); err != nil {
			t.Fatal(err)
		}
	}
	c, err := New(Config{Instructions: "Operator."}, sources, deps)
	if err != nil {
		t.Fatal(err)
	}
	running(t, c)
	c.WaitFirst(t.Context())
	return c
}

// at makes a call come to the endpoint of a view.
func at(view string, c *mcp.Call) *mcp.Call {
	c.Caller.View = view
	return c
}

func wantView(t *testing.T, c *Catalog, call *mcp.Call, want string) {
	t.Helper()
	var names []string
	for page, err := range mcp.Pages(t.Context(), c, call, 100) {
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			names = append(names, item.Name)
		}
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s at %s: got %s, want %s", call.Method, call.Caller.View, got, want)
	}
}

func TestViewNames(t *testing.T) {
	crm := newServer("crm").tools("find", "export").has(mcp.MethodPromptsList, `{"name":"find"}`)
	erp := newServer("erp").tools("find", "bill")
	c := startViews(t, []view.Config{
		{Name: "both", Show: []string{"*:*"}, DropPrefixes: true, Order: []string{"tools:erp/*"}},
		{Name: "crm", Show: []string{"*:crm/*"}, DropPrefixes: true, Instructions: "Only sell."},
		{Name: "long", Show: []string{"tools:crm/*"}},
	}, sourcesOf([]*server{crm, erp})...)
	wantView(t, c, call(mcp.MethodToolsList, ""), "crm__export crm__find erp__bill erp__find")
	wantView(t, c, at("both", call(mcp.MethodToolsList, "")), "bill erp__find export crm__find")
	wantView(t, c, at("crm", call(mcp.MethodToolsList, "")), "export find")
	wantView(t, c, at("crm", call(mcp.MethodPromptsList, "")), "find")
	wantView(t, c, at("long", call(mcp.MethodToolsList, "")), "crm__export crm__find")
	for _, tt := range []struct{ view, name, want string }{
		{"both", "bill", "erp/bill"}, {"both", "erp__bill", "erp/bill"}, {"both", "erp__find", "erp/find"},
		{"both", "find", ""},
		{"crm", "find", "crm/find"}, {"crm", "crm__find", "crm/find"}, {"crm", "bill", ""}, {"long", "find", ""},
		{"", "find", ""},
	} {
		call := at(tt.view, call(mcp.MethodToolsCall, tt.name))
		to, ok := resolve(t.Context(), c, call, mcp.KindTools, tt.name)
		if got := strings.TrimPrefix(to.String(), "tools:"); ok && got != tt.want || !ok && tt.want != "" {
			t.Errorf("%s at %s resolves to %s, %t; want %s", tt.name, tt.view, got, ok, tt.want)
			continue
		}
		if tt.want == "" {
			if e := refused(t, c, call, mcp.CodeInvalidParams); e.Message != "Unknown tool: "+tt.name {
				t.Errorf("%s at %s: %s", tt.name, tt.view, e.Message)
			}
			continue
		}
		from, own, _ := strings.Cut(tt.want, "/")
		wantResult(t, do(t, c, call), `{"from":"`+from+`","name":"`+own+`"}`)
		if c.For(call).Schema(t.Context(), tt.name) == nil {
			t.Errorf("%s at %s has no schema", tt.name, tt.view)
		}
	}
	wantResult(t, do(t, c, at("crm", call(mcp.MethodComplete, "find", `{"ref":{"type":"ref/prompt","name":"find"}}`))),
		`{"completion":{"values":["crm","find"]}}`)

	cursor := do(t, c, at("both", call(mcp.MethodToolsList, ""))).List.Next
	if cursor == nil {
		t.Fatal("one page")
	}
	refused(t, c, call(mcp.MethodToolsList, "", `{"cursor":"`+*cursor+`"}`), mcp.CodeInvalidParams)
}

func TestViewInstructions(t *testing.T) {
	crm := newServer("crm")
	crm.text = "Use export."
	c := startViews(t, []view.Config{
		{Name: "own", Show: []string{"*:*"}, Instructions: " Only sell. "},
		{Name: "short", Show: []string{"*:*"}, DropPrefixes: true},
		{Name: "same", Show: []string{"*:*"}},
	}, Source{Upstream: crm})
	said := func(view string) string {
		discover := at(view, call(mcp.MethodDiscover, ""))
		discover.Preface = "Preface."
		text, _ := do(t, c, discover).Result.Member("instructions")
		return text.Text()
	}
	if got := said("own"); got != "Only sell.\n\nPreface." {
		t.Errorf("got %q", got)
	}
	if got := said("short"); !strings.Contains(got, "Operator.\n\nPreface.\n\n") ||
		!strings.Contains(got, "Here a name that several servers have") || !strings.Contains(got, "Use export.") {
		t.Errorf("got %q", got)
	}
	if got := said("same"); got != said("") || !strings.Contains(got, "here each name has its server's prefix") {
		t.Errorf("got %q", got)
	}
}

// TestViewNamesPerUser: a short name of a per-user upstream is known before its user has listed.
func TestViewNamesPerUser(t *testing.T) {
	crm := toolsOf(newServer("crm"))
	c := startViews(t, []view.Config{{Name: "v", Show: []string{"tools:crm/*"}, DropPrefixes: true}}, perUser(crm),
		Source{Upstream: newServer("doc").tools("of-ann")})
	for _, user := range []string{"ann", "bob"} {
		wantResult(t, do(t, c, at("v", by(user, call(mcp.MethodToolsCall, "of-"+user)))),
			`{"from":"crm","name":"of-`+user+`"}`)
	}
	refused(t, c, at("v", by("ann", call(mcp.MethodToolsCall, "of-bob"))), mcp.CodeInvalidParams)
}

// TestViewNamesOfClasses: clients of all classes see the same short names.
func TestViewNamesOfClasses(t *testing.T) {
	prefix := "a_"
	one, other := Source{Upstream: newServer("one").tools("ask"), Prefix: &prefix}, classed(byClass(newServer("other")))
	other.Prefix = &prefix
	c := startViews(t, []view.Config{{Name: "v", Show: []string{"tools:*/ask"}, DropPrefixes: true}}, one, other,
		Source{Upstream: newServer("doc").tools("ask")})
	for _, caps := range []string{"{}", `{"elicitation":{}}`} { // two upstreams have a_ask, so nobody sees it
		wantView(t, c, declares(caps, at("v", call(mcp.MethodToolsList, ""))), "ask")
	}
}

// TestViewNamesStay: a server that is away loses its lists, but no other server gets its names.
func TestViewNamesStay(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		crm, erp := newServer("crm").tools("find", "export"), newServer("erp").tools("find")
		c := startViews(t, []view.Config{{Name: "v", Show: []string{"*:*"}, DropPrefixes: true}},
			sourcesOf([]*server{crm, erp})...)
		wantView(t, c, at("v", call(mcp.MethodToolsList, "")), "export crm__find erp__find")
		crm.unreachable(true)
		crm.open(false)[0].end <- errors.New("gone")
		after(2 * keepLists)
		wantView(t, c, at("v", call(mcp.MethodToolsList, "")), "erp__find")
		refused(t, c, at("v", call(mcp.MethodToolsCall, "find")), mcp.CodeInvalidParams)
		refused(t, c, at("v", call(mcp.MethodToolsCall, "export")), mcp.CodeUpstreamUnreachable)
		crm.unreachable(false)
		crm.tools("export")
		after(keepLists)
		wantView(t, c, at("v", call(mcp.MethodToolsList, "")), "export find")
	})
}
