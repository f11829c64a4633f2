package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// fullRecord is a record with every member that either document knows.
const fullRecord = `{"name":"acme/full","title":"Full","icons":[{"src":"https://x/i.png","mimeType":"image/png","sizes":["48x48"],"theme":"dark"}],"description":"d","version":"1.0",` +
	`"tags":["a","b"],"arguments":[{"name":"n","title":"N","description":"d","required":true}],` +
	`"dependencies":{"tools":["t"],"prompts":[{"type":"ref/prompt","name":"p","title":"P"}],"resources":[{"type":"ref/resource","uri":"x:y"}]},"_meta":{"k":1},` +
	`"uri":"skill://acme/full/SKILL.md","frontmatter":{"name":"full","description":"d","license":"MIT","compatibility":"c","metadata":{"version":"1.0"},"allowed-tools":"Read","other":[1,null]},` +
	`"resources":[{"uri":"skill://acme/full/SKILL.md","digest":"sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a","size":3},` +
	`{"uri":"skill://acme/full/a%20b/c.md","digest":"sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a","size":16}]}`

// TestEntriesThatAClientWouldRefuse: each invalid entry is withheld, with its reason, and
// the other entries of the same server stay.
func TestEntriesThatAClientWouldRefuse(t *testing.T) {
	for _, tt := range []struct{ change, reason string }{
		{`full/a%20b/c.md=>full/../full/c.md`, "stands for another directory"},
		{`full/a%20b/c.md=>full/%2e%2E/full/c.md`, "stands for another directory"},
		{`full/a%20b/c.md=>full/a%2Fc.md`, "stands for another directory"},
		{`full/a%20b/c.md=>full/a%5Cc.md`, "stands for another directory"},
		{`full/a%20b/c.md=>full/a%00.md`, "stands for another directory"},
		{`full/a%20b/c.md=>full/`, "empty segment"},
		{`full/a%20b/c.md=>full/a b`, "RFC 3986"},
		{`full/a%20b/c.md=>full/100%`, "RFC 3986"},
		{`full/a%20b/c.md=>full/%FF`, "RFC 3986"},
		{`full/a%20b/c.md=>full/a?b`, "RFC 3986"},
		{`full/a%20b/c.md=>full/a#b`, "RFC 3986"},
		{`full/a%20b/c.md=>full/SKILL%2Emd`, "listed twice"},
		{`full/a%20b/c.md=>fuller/c.md`, "not in the skill's directory"},
		{`"size":16=>"more":16`, "size"},
		{`"size":16=>"size":-1`, "size"},
		{`"size":16=>"size":1.5`, "size"},
		{`"size":16=>"size":"16"`, "size"},
		{`"size":16=>"size":9007199254740992`, "size"},
		{`"size":16=>"size":16777214`, "more than 512 files or 16777216 bytes"},
		{`"resources":[{"uri"=>"files":[{"uri"`, "neither"},
		{`"resources":[{"uri"=>"resources":"static","files":[{"uri"`, "neither"},
		{`full/SKILL.md","digest":=>full/skill.md","digest":`, "lack its SKILL.md"},
		{`"name":"full"=>"name":"other"`, "last directory"},
		{`"description":"d","license"=>"license"`, "description is missing"},
		{`"description":"d","license"=>"description":7,"license"`, "description is no text"},
		{`"description":"d","license"=>"description":" ","license"`, "description is no text of"},
		{`"description":"d","license"=>"description":"` + strings.Repeat("ü", 1025) + `","license"`,
			"description is no text of"},
		{`"compatibility":"c"=>"compatibility":7`, "compatibility"},
		{`"license":"MIT"=>"license":["MIT"]`, "license"},
		{`"license":"MIT"=>"license":null`, "is null"},
		{`"metadata":{"version":"1.0"}=>"metadata":null`, "is null"},
		{`"allowed-tools":"Read"=>"allowed-tools":["Read"]`, "allowed-tools"},
		{`"metadata":{"version":"1.0"}=>"metadata":{"version":1.0}`, "version is no text"},
		{`"metadata":{"version":"1.0"}=>"metadata":[]`, "metadata is no mapping"},
		{`"other":=>"__proto__":`, "__proto__"},
		{`"license":"MIT"=>"name":"x"`, "two ways"},
		{`"frontmatter":{=>"frontmatter":"x","matter":{`, "frontmatter"},
		{`"frontmatter":{=>"matter":{`, "no frontmatter"},
		{`"title":"Full"=>"title":7`, "title is no text"},
		{`"description":"d","version"=>"description":7,"version"`, "description is no text"},
		{`"version":"1.0","tags"=>"version":1.0,"tags"`, "version is no text"},
		{`["a","b"]=>"no-list"`, "tags is no list"},
		{`["a","b"]=>["a",7]`, "tags has an element that is no text"},
		{`"required":true=>"required":1`, "arguments"},
		{`"arguments":[{"name":"n",=>"arguments":[{`, "arguments"},
		{`"arguments":[{=>"arguments":[7,{`, "arguments"},
		{`"src":"https://x/i.png"=>"url":"x"`, "icons"},
		{`"theme":"dark"=>"theme":"blue"`, "icons"},
		{`"_meta":{"k":1}=>"_meta":[]`, "_meta is no object"},
	} {
		was, is, _ := strings.Cut(tt.change, "=>")
		if !strings.Contains(fullRecord, was) {
			t.Fatalf("the record has no %s", was)
		}
		c := start(t, Source{Upstream: skilled("crm", skillRecord("good"), strings.Replace(fullRecord, was, is, 1))})
		if items := do(t, c, call(mcp.MethodSkillsList, "")).List.Items; len(items) != 1 || items[0].Name != "crm__good" {
			t.Errorf("%s: listed are %v", tt.change, items)
		}
		if w := c.Status()[0].Withheld; len(w) < 1 || w[0].List != "skills" || w[0].Name != "acme/full" ||
			!strings.Contains(w[0].Reason, tt.reason) {
			t.Errorf("%s: withheld %+v, want for %q", tt.change, w, tt.reason)
		}
	}
	null := strings.NewReplacer(`"title":"Full"`, `"title":null`, `"arguments":[`,
		`"arguments":[null,`).Replace(fullRecord)
	c := start(t, Source{Upstream: skilled("crm", null)})
	if items := do(t, c, call(mcp.MethodSkillsList, "")).List.Items; len(items) != 1 ||
		strings.Count(string(items[0].Raw), "null") != 1 || strings.Contains(string(items[0].Raw), "title\":null") {
		t.Errorf("with null members: listed are %v", items)
	}
	upper := strings.NewReplacer("acme/full", "acme/Full", `"name":"full"`, `"name":"Full"`).Replace(fullRecord)
	c = start(t, Source{Upstream: skilled("crm", fullRecord, upper)})
	if items := do(t, c, call(mcp.MethodSkillsList, "")).List.Items; len(items) != 1 || items[0].Name != "crm__acme/full" {
		t.Errorf("listed are %v", items)
	}
}

// TestOneURIOfTwoSkills: a client that meets a URI twice refuses the list.
func TestOneURIOfTwoSkills(t *testing.T) {
	twin := strings.Replace(strings.ReplaceAll(skillRecord("ü/a"), "skill://ü", "skill://%C3%BC"), `{"name":"ü/a"`,
		`{"name":"other"`, 1)
	c := start(t, Source{Upstream: skilled("crm", skillRecord("good"), skillRecord("ü/a"), twin)})
	if items := do(t, c, call(mcp.MethodSkillsList, "")).List.Items; len(items) != 1 || items[0].Name != "crm__good" {
		t.Errorf("listed are %v", items)
	}
	if w := c.Status()[0].Withheld; len(w) != 2 || w[0].Reason != "another skill has the same URI" {
		t.Errorf("withheld %+v", w)
	}
}

// TestNamesOfSkills: SEP-2076 does not restrict their characters.
func TestNamesOfSkills(t *testing.T) {
	named := func(name string) string {
		return strings.Replace(skillRecord("a"), `{"name":"a"`, `{"name":`+string(mcp.String(name)), 1)
	}
	for _, tt := range []struct{ native, want string }{
		{"acme/refunds", "crm__acme/refunds"},
		{"Quarterly Report (v2)", "crm__Quarterly_Report_(v2)_"},
		{"退款", "crm_____"},
		{"", ""}, {"a\nb", ""},
	} {
		c := start(t, Source{Upstream: skilled("crm", named(tt.native))})
		items := do(t, c, call(mcp.MethodSkillsList, "")).List.Items
		if tt.want == "" {
			if len(items) != 0 || len(c.Status()[0].Withheld) != 1 {
				t.Errorf("%q is listed as %v", tt.native, items)
			}
			continue
		}
		if len(items) != 1 || !strings.HasPrefix(items[0].Name, tt.want) ||
			strings.ContainsFunc(items[0].Name, func(r rune) bool { return !printable(r) }) {
			t.Errorf("%q is listed as %v, want %s", tt.native, items, tt.want)
			continue
		}
		if to, ok := resolve(t.Context(), c, &mcp.Call{}, mcp.KindSkills, items[0].Name); !ok || to.Name != tt.native {
			t.Errorf("%q resolves to %+v, want %q", items[0].Name, to, tt.native)
		}
	}
}

// TestInstructionsThatCannotBeShown: the answer is an error that names the upstream.
func TestInstructionsThatCannotBeShown(t *testing.T) {
	for _, result := range []string{`{}`, `{"instructions":42}`, `{"instructions":"i","description":7}`,
		`{"instructions":"i","files":7}`, `{"instructions":"i","files":[{"name":"n"}]}`,
		`{"instructions":"i","files":[{"uri":"x:y"}]}`,
		`{"instructions":"i","files":[{"name":"n","uri":"x:y","mimeType":1}]}`, `{"instructions":"i","_meta":1}`,
		`{"instructions":"i","instructions":42}`,
		`{"skill":7}`, `{"skill":{}}`} {
		s := skilled("crm", skillRecord("a"))
		c := start(t, Source{Upstream: s})
		s.on(mcp.MethodSkillsGet, answers(result))
		_, err := c.Handle(t.Context(), skillCall(t, c, "crm__a", `{"name":"crm__a"}`))
		if e, ok := err.(*mcp.Error); !ok || e.Code != mcp.CodeUpstreamBadAnswer || !strings.Contains(e.Message, "crm") {
			t.Errorf("%s: %v", result, err)
		}
	}
	s := skilled("crm", skillRecord("a"))
	c := start(t, Source{Upstream: s})
	s.on(mcp.MethodSkillsGet,
		answers(`{"instructions":"i","dependencies":{"tools":7,"prompts":[{"type":5,"name":"p"}],"resources":[{"type":"ref/resource"}]}}`))
	if got := string(do(t, c, skillCall(t, c, "crm__a",
		`{"name":"crm__a"}`)).Result); got != `{"instructions":"i","dependencies":{"tools":[],"prompts":[],"resources":[]}}` {
		t.Errorf("got %s", got)
	}
}

func answers(result string) mcp.HandlerFunc {
	return func(context.Context, *mcp.Call) (*mcp.Reply, error) { return &mcp.Reply{Result: mcp.Raw(result)}, nil }
}

// schemaOf returns a definition of the documents' schemas, which the end-to-end tests hold.
func schemaOf(t testing.TB, document, definition string) *jsonschema.Resolved {
	t.Helper()
	content, err := os.ReadFile("../../internal/e2e/testdata/skills/schema/" + document + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(content, &schema); err != nil {
		t.Fatal(err)
	}
	schema.Ref = "#/$defs/" + definition
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// conformity checks one entry as a server may send it: whatever is listed of it validates
// against both documents.
func conformity(t testing.TB) func(record string) (listed bool, err error) {
	skill, extended := schemaOf(t, "sep-2076", "Skill"), schemaOf(t, "sep-2640", "SkillEntry")
	n := naming{upstream: "crm", prefix: "crm__", max: 64}
	p := &plan{namings: []naming{n}, tagged: map[string]int{"crm": 0}}
	return func(record string) (bool, error) {
		name, _ := mcp.Raw(record).Member("name")
		list := newPublicList(p, n, skills, fetched{items: []mcp.Item{{Name: name.Text(), Raw: mcp.Raw(record)}}})
		for _, e := range list.entries {
			var value any
			if err := json.Unmarshal(e.item.Raw, &value); err != nil {
				return true, fmt.Errorf("%w: %s", err, e.item.Raw)
			}
			for _, schema := range []*jsonschema.Resolved{skill, extended} {
				if err := schema.Validate(value); err != nil {
					return true, fmt.Errorf("%w\nlisted  %s\nfor     %s", err, e.item.Raw, record)
				}
			}
		}
		return len(list.entries) > 0, nil
	}
}

// TestWhateverIsListedConforms tries entries with one to three wrong values.
func TestWhateverIsListedConforms(t *testing.T) {
	conforms := conformity(t)
	if ok, err := conforms(fullRecord); !ok || err != nil {
		t.Fatalf("the record itself is listed: %t, %v", ok, err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	listed := 0
	for range 5000 {
		var value any
		if err := json.Unmarshal([]byte(fullRecord), &value); err != nil {
			t.Fatal(err)
		}
		for range 1 + random.IntN(3) {
			value = spoil(random, value)
		}
		record, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		ok, err := conforms(string(record))
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			listed++
		}
	}
	if listed == 0 || listed == 5000 {
		t.Errorf("%d of 5000 are listed", listed)
	}
}

// spoil replaces one value within a value by another.
func spoil(random *rand.Rand, value any) any {
	if random.IntN(4) > 0 {
		switch of := value.(type) {
		case map[string]any:
			if len(of) > 0 {
				name := slices.Sorted(maps.Keys(of))[random.IntN(len(of))]
				of[name] = spoil(random, of[name])
				return of
			}
		case []any:
			if len(of) > 0 {
				at := random.IntN(len(of))
				of[at] = spoil(random, of[at])
				return of
			}
		}
	}
	others := []any{nil, true, 7, -1, 1.5, 1e300, "", " ", "x", "Upper", "../x", "a\u0000b", strings.Repeat("x", 2000),
		[]any{}, []any{nil}, []any{"x"}, map[string]any{}, map[string]any{"name": 1}, fmt.Sprint(value) + "/SKILL.md"}
	return others[random.IntN(len(others))]
}

// FuzzSkillEntries checks conformity for any JSON.
func FuzzSkillEntries(f *testing.F) {
	f.Add(fullRecord)
	f.Add(skillRecord("a", "b"))
	f.Add(`{"name":"x","uri":"skill://x/SKILL.md","frontmatter":{"name":"x","description":"d","description":7},"resources":"dynamic"}`)
	conforms := conformity(f)
	f.Fuzz(func(t *testing.T, record string) {
		m, err := wire.ScanUpstream([]byte(`{"jsonrpc":"2.0","method":"m","params":{"r":` + record + `}}`))
		if err != nil {
			return // no upstream passes this on
		}
		item, _ := m.Params.Member("r")
		if _, err := conforms(string(item)); err != nil {
			t.Error(err)
		}
	})
}
