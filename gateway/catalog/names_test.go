package catalog

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func namingFor(upstream string, prefix *string) naming {
	n, err := newNaming(Config{}.WithDefaults(), upstream, prefix)
	if err != nil {
		panic(err)
	}
	return n
}

var modelName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

func TestToolNames(t *testing.T) {
	none, custom := "", "x-"
	tests := []struct {
		name     string
		upstream string
		prefix   *string
		native   string
		want     string // "" withheld
	}{
		{"default prefix", "crm", nil, "export", "crm__export"},
		{"own prefix", "crm", &custom, "export", "x-export"},
		{"no prefix: identity", "crm", &none, "a.b/c", "a.b/c"},
		{"no prefix: long too", "crm", &none, strings.Repeat("a", 200), strings.Repeat("a", 200)},
		{"a dot is replaced, and closed by the hash", "crm", nil, "admin.export", "crm__admin_export_b61329"},
		{"so is a slash", "crm", nil, "admin/export", "crm__admin_export_1f3802"},
		{"over-long", "crm", nil, strings.Repeat("a", 60), "crm__" + strings.Repeat("a", 36) + "_bdc8c7"},
		{"just fits", "crm", nil, strings.Repeat("a", 43), "crm__" + strings.Repeat("a", 43)},
		{"a space", "crm", nil, "a b", "crm__a_b_a53088"},
		{"a space without prefix", "crm", &none, "a.b c", "a.b_c_09c903"},
		{"letters outside of ASCII", "crm", nil, "größe", "crm__gr__e_ec3757"},
		{"empty", "crm", nil, "", ""},
		{"emoji", "crm", nil, "a😀", "crm__a__3cd5db"},
		{"an emoji of several parts", "crm", nil, "👩‍🔧", "crm______b5c8ea"},
		{"half an emoji", "crm", nil, "a\ufffd", ""},
		{"right-to-left override", "crm", nil, "a\u202eb", ""},
		{"zero width", "crm", nil, "a\u200bb", ""},
		{"unprintable without prefix too", "crm", &none, "a\tb", ""},
		{"a new line", "crm", nil, "a\nb", ""},
		{"a Cyrillic letter that looks like a Latin one", "crm", nil, "\u0455ecret", ""},
		{"another form of a Latin letter", "crm", nil, "\uff53ecret", ""},
		{"words of two scripts", "crm", nil, "создать issue", "crm__________issue_aa0247"},
		{"a tag", "crm", nil, "a\U000e0041", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := namingFor(tt.upstream, tt.prefix).tool(tt.native)
			if (err != nil) != (tt.want == "") || got != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	t.Run("prompts keep characters that cannot be taken for others", func(t *testing.T) {
		n := namingFor("crm", nil)
		if got, err := n.prompt("ask größe"); err != nil || got != "crm__ask_gr__e_307615" {
			t.Errorf("got %q, %v", got, err)
		}
		if got, err := n.prompt("a\u200bb"); err == nil {
			t.Errorf("got %q", got)
		}
		if got, err := n.prompt("a.b/c"); err != nil || got != "crm__a.b/c" {
			t.Errorf("got %q, %v", got, err)
		}
		long := strings.Repeat("p", 100)
		got, err := n.prompt(long)
		if tool, _ := n.tool(long); err != nil || got != tool || len(got) != defaultMaxLength {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestNamesThatModelsAccept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		upstream := rapid.StringMatching(`[A-Za-z][A-Za-z0-9]{0,15}`).Draw(t, "upstream")
		names := rapid.StringMatching(`[ -~à-ĭ一-三]{1,80}|[ -@А-я一-三]{1,80}`)
		a, b := names.Draw(t, "a"), names.Draw(t, "b")
		n := namingFor(upstream, nil)
		publicA, errA := n.tool(a)
		publicB, errB := n.tool(b)
		if errA != nil || errB != nil {
			t.Fatalf("%v, %v", errA, errB)
		}
		if !modelName.MatchString(publicA) || len(publicA) > defaultMaxLength {
			t.Errorf("%q became %q", a, publicA)
		}
		if a != b && publicA == publicB {
			t.Errorf("%q and %q both became %q", a, b, publicA)
		}
		if again, _ := namingFor(upstream, nil).tool(a); again != publicA {
			t.Errorf("%q became %q and %q", a, publicA, again)
		}
	})
}

func FuzzToolName(f *testing.F) {
	f.Add("crm", "export")
	f.Add("crm", "a/b c\x00é")
	f.Add("a", strings.Repeat("/", 300))
	f.Fuzz(func(t *testing.T, upstream, native string) {
		n, err := newNaming(Config{}.WithDefaults(), upstream, nil)
		if err != nil {
			return
		}
		for _, k := range []func(string) (string, error){n.tool, n.prompt} {
			public, err := k(native)
			if err == nil && native == "" || err != nil && native != "" &&
				!strings.ContainsFunc(native, func(r rune) bool { return !printable(r) }) {
				t.Fatalf("%q: %v", native, err)
			}
			if err == nil && (len(public) > defaultMaxLength ||
				strings.ContainsFunc(public, func(r rune) bool { return !printable(r) }) || !strings.HasPrefix(public, n.prefix)) {
				t.Fatalf("%q became %q", native, public)
			}
		}
	})
}

func TestMeetingNames(t *testing.T) {
	item := func(s string) mcp.Item { return mcp.Item{Name: s, Raw: mcp.Raw(tool(s))} }
	t.Run("one name at two upstreams: two names", func(t *testing.T) {
		a, b := newServer("a").tools("same", "Same"), newServer("b").tools("same")
		c := start(t, sourcesOf([]*server{a, b})...)
		wantNames(t, c, mcp.MethodToolsList, "a__Same", "a__same", "b__same")
		wantResult(t, do(t, c, call(mcp.MethodToolsCall, "a__same")), `{"from":"a","name":"same"}`)
		wantResult(t, do(t, c, call(mcp.MethodToolsCall, "a__Same")), `{"from":"a","name":"Same"}`)
		wantResult(t, do(t, c, call(mcp.MethodToolsCall, "b__same")), `{"from":"b","name":"same"}`)
	})
	t.Run("a name belongs to the longest prefix", func(t *testing.T) {
		short, long := "a__", "a__b__"
		a, b := newServer("a").tools("b__c", "own"), newServer("b").tools("c", "own")
		c := start(t, Source{Upstream: a, Prefix: &short}, Source{Upstream: b, Prefix: &long})
		wantNames(t, c, mcp.MethodToolsList, "a__own", "a__b__c", "a__b__own")
		wantResult(t, do(t, c, call(mcp.MethodToolsCall, "a__b__c")), `{"from":"b","name":"c"}`)
		view := c.Status()[0]
		if len(view.Withheld) != 1 || view.Withheld[0].Name != "b__c" || view.Tools != 1 ||
			view.Withheld[0].Reason != `"a__b__c" begins like the names of upstream b` {
			t.Errorf("status of a: %+v", view)
		}
	})
	t.Run("nobody takes the place of an upstream that lacks the name or is down", func(t *testing.T) {
		none := ""
		a, b := newServer("a").tools("x"), newServer("b").tools("a__y", "a__x", "gone__t", "z")
		gone := newServer("gone").tools("t")
		gone.unreachable(true)
		c := start(t, Source{Upstream: a}, Source{Upstream: b, Prefix: &none}, Source{Upstream: gone})
		wantNames(t, c, mcp.MethodToolsList, "a__x", "z")
		wantResult(t, do(t, c, call(mcp.MethodToolsCall, "a__x")), `{"from":"a","name":"x"}`)
		refused(t, c, call(mcp.MethodToolsCall, "a__y"), mcp.CodeInvalidParams)
		refused(t, c, call(mcp.MethodToolsCall, "gone__t"), mcp.CodeUpstreamUnreachable)
	})
	t.Run("an item that comes twice is listed once", func(t *testing.T) {
		s := newPublicList(&plan{}, namingFor("crm", nil), tools, fetched{items: []mcp.Item{item("a"), item("b"), item("a")}})
		if len(s.entries) != 2 || len(s.withheld) != 0 {
			t.Errorf("%d entries, %v", len(s.entries), s.withheld)
		}
	})
	t.Run("two definitions of one name are withheld", func(t *testing.T) {
		other := mcp.Item{Name: "a", Raw: mcp.Raw(`{"name":"a","description":"evil"}`)}
		s := newPublicList(&plan{}, namingFor("crm", nil), tools, fetched{items: []mcp.Item{item("a"), item("b"), other}})
		if len(s.entries) != 1 || s.entries[0].native != "b" || len(s.withheld) != 2 {
			t.Errorf("%v, %v", s.entries, s.withheld)
		}
	})
	t.Run("a definition that reads two ways is withheld", func(t *testing.T) {
		for _, raw := range []string{`{"name":"a","name":"b"}`, `{"name":"a","Name":"b"}`,
			`{"name":"a","nam\u0065":"b"}`, `[]`, `null`} {
			s := newPublicList(&plan{}, namingFor("crm", nil), tools, fetched{items: []mcp.Item{{Name: "a", Raw: mcp.Raw(raw)}}})
			if len(s.entries) != 0 || len(s.withheld) != 1 || s.withheld[0].Reason == "" {
				t.Errorf("%s: %v, %v", raw, s.entries, s.withheld)
			}
		}
	})
}
