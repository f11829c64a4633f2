package view

import (
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// listOf makes a list of tools, written upstream/name. Upstream p has no prefix.
func listOf(names ...string) (items []mcp.Item) {
	for _, name := range names {
		up, own, _ := strings.Cut(name, "/")
		public := prefixOf(up) + own
		items = append(items, mcp.Item{Name: public, Target: mcp.Target{Kind: mcp.KindTools, Upstream: up, Name: own},
			Raw: mcp.Object("name", mcp.String(public), "description", mcp.String("of "+name), "_meta",
				mcp.Raw(`{ "as":"is" }`))})
	}
	return items
}

func prefixOf(upstream string) string {
	if upstream == "p" {
		return ""
	}
	return upstream + "__"
}

func namesOf(items []mcp.Item) string {
	var names []string
	for _, item := range items {
		name, _ := item.Raw.Member("name")
		if name.Text() != item.Name {
			return item.Name + " is written as " + string(name)
		}
		names = append(names, item.Name)
	}
	return strings.Join(names, " ")
}

func TestArrange(t *testing.T) {
	for _, tt := range []struct {
		name        string
		cfg         Config
		items, gone []string
		want, kept  string
	}{
		{"selects", Config{Show: []string{"tools:a/*"}}, []string{"a/x", "b/x"}, nil, "a__x", ""},
		{"shortens", Config{Show: []string{"tools:a/*"}, DropPrefixes: true}, []string{"a/x", "a/y", "b/x"}, nil, "x y", ""},
		{"keeps the prefixes of equal names", Config{Show: []string{"*:*"}, DropPrefixes: true},
			[]string{"a/x", "a/y", "b/x"}, nil, "a__x y b__x", "a__x b__x"},
		{"an upstream without a prefix has its names", Config{Show: []string{"*:*"}, DropPrefixes: true},
			[]string{"a/x", "p/x", "p/y"}, nil, "a__x x y", "a__x"},
		{"unless it is not shown", Config{Show: []string{"*:a/*"}, DropPrefixes: true}, []string{"a/x", "p/x"}, nil, "x", ""},
		{"the full name of another", Config{Show: []string{"*:*"}, DropPrefixes: true}, []string{"a/b__x", "b/x"}, nil,
			"a__b__x x", "a__b__x"},
		{"what could be the full name of another", Config{Show: []string{"*:*"}, DropPrefixes: true},
			[]string{"a/b__y", "b/x"}, nil, "a__b__y x", "a__b__y"},
		{"the gateway's own", Config{Show: []string{"*:*"}, DropPrefixes: true}, []string{"a/own", "b/x"}, nil,
			"a__own x", "a__own"},
		{"a server that is away keeps its names", Config{Show: []string{"*:*"}, DropPrefixes: true}, []string{"a/x", "a/y"},
			[]string{"b/x"}, "a__x y", "a__x"},
		{"but not those that the view hides", Config{Show: []string{"*:a/*"}, DropPrefixes: true}, []string{"a/x"},
			[]string{"b/x"}, "x", ""},
		{"orders", Config{Show: []string{"*:*"}, Order: []string{"tools:b/*", "tools:*/z"}},
			[]string{"a/x", "a/z", "b/x", "b/y"}, nil, "b__x b__y a__z a__x", ""},
	} {
		v, err := New(tt.cfg, "own")
		if err != nil {
			t.Fatal(err)
		}
		l := List{Items: listOf(tt.items...), Gone: listOf(tt.gone...), Prefix: prefixOf,
			Prefixes: []string{"a__", "b__", ""}, NameIn: "name"}
		before := namesOf(l.Items)
		a := v.Arrange(l)
		if got := namesOf(a.Items); got != tt.want || strings.Join(a.Kept, " ") != tt.kept {
			t.Errorf("%s: got %s, kept %s; want %s, kept %s", tt.name, got, a.Kept, tt.want, tt.kept)
		}
		for short, full := range a.Full {
			if !strings.HasSuffix(full, "__"+short) {
				t.Errorf("%s: %s stands for %s", tt.name, short, full)
			}
		}
		if namesOf(l.Items) != before {
			t.Errorf("%s: the list that it was made from has changed", tt.name)
		}
	}
}

// TestArrangeRewritesLittle: everything but names and overridden descriptions stays byte for
// byte.
func TestArrangeRewritesLittle(t *testing.T) {
	v, err := New(Config{Show: []string{"*:*"}, DropPrefixes: true,
		Descriptions: map[string]string{"tools:a/x": "Finds \"it\"."}})
	if err != nil {
		t.Fatal(err)
	}
	a := v.Arrange(List{Items: listOf("a/x", "a/y", "p/z"), Prefix: prefixOf, NameIn: "name"})
	want := []string{
		`{"name":"x","description":"Finds \"it\".","_meta":{ "as":"is" }}`,
		`{"name":"y","description":"of a/y","_meta":{ "as":"is" }}`,
		`{"name":"z","description":"of p/z","_meta":{ "as":"is" }}`,
	}
	for i, item := range a.Items {
		if string(item.Raw) != want[i] {
			t.Errorf("got %s, want %s", item.Raw, want[i])
		}
	}
}

// TestFilesOfSkillsAreDescribed: in lists of resources they are resources, and a skill keeps its
// description.
func TestFilesOfSkillsAreDescribed(t *testing.T) {
	file := func(key, uri string, template bool) mcp.Item {
		return mcp.Item{Name: uri, Raw: mcp.Object("uri", mcp.String(uri)),
			Target: mcp.Target{Kind: mcp.KindSkills, Upstream: "a", Name: key, File: uri, Template: template}}
	}
	v, err := New(Config{Show: []string{"*:*"}, Descriptions: map[string]string{"resources:a/skill://x/b.md": "B.",
		"resources:a/skill://x/SKILL.md": "X.", "resources:a/skill://x/{f}": "Any."}})
	if err != nil {
		t.Fatal(err)
	}
	items := []mcp.Item{file("x", "skill://x/SKILL.md", false), file("x", "skill://x/b.md", false),
		file("x", "skill://x/{f}", true), file("x", "skill://x/c.md", false)}
	for nameIn, want := range map[string][]string{"uri": {"X.", "B.", "Any.", ""}, "uriTemplate": {"X.", "B.", "Any.", ""},
		"name": {"", "", "", ""}} {
		for i, item := range v.Arrange(List{Items: items, NameIn: nameIn}).Items {
			if got := item.Raw.At("description").Text(); got != want[i] {
				t.Errorf("%s in a list by %s is described as %q, want %q", item.Name, nameIn, got, want[i])
			}
		}
	}
}

func TestValidate(t *testing.T) {
	good := Config{Name: "a", Show: []string{"tools:a/*"}}
	for _, tt := range []struct {
		change func(*Config)
		want   string // "" for no error
	}{
		{func(*Config) {}, ""},
		{func(c *Config) { c.Name = strings.Repeat("a", 41) }, "name: "},
		{func(c *Config) { c.Show = nil }, "show: is needed"},
		{func(c *Config) { c.Who = policy.Who{Users: []string{"*"}} }, "who: users[0]: "},
		{func(c *Config) { c.Instructions = strings.Repeat("a", 5000) }, "instructions: 5000 bytes"},
		{func(c *Config) { c.Order = []string{"tools"} }, "order[0]: "},
		{func(c *Config) { c.Descriptions = map[string]string{"tools:a/*": "x"} }, "descriptions[tools:a/*]: "},
		{func(c *Config) { c.Descriptions = map[string]string{"a__x": "x"} }, "descriptions[a__x]: "},
		{func(c *Config) { c.Descriptions = map[string]string{"skills:a/x": "x"} },
			"descriptions[skills:a/x]: clients compare the description of a skill with its SKILL.md: change it there"},
		{func(c *Config) { c.Descriptions = map[string]string{"tools:a/x": " "} }, "descriptions[tools:a/x]: is empty"},
		{func(c *Config) { c.Descriptions = map[string]string{"resources:a/f:///*": "x", "prompts:a/y": "x"} }, ""},
	} {
		cfg := good
		tt.change(&cfg)
		got := ""
		if err := cfg.Validate(); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
