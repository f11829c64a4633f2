package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

var updateGolden = flag.Bool("update", false, "write the golden files of skills anew")

const declaresSkills = `{"extensions":{"io.modelcontextprotocol/skills":{}}}`

const refundsSkill = `---
name: refunds
description: When and how to give money back.
license: Apache-2.0
metadata:
  version: "1.2"
  tags: money support
  gatehouse.tools: up/open up/secret up/nothing nobody/open
  gatehouse.prompts: up/ask
  gatehouse.resources: up/file:///docs/open up/doc:///open/{id}
---
# Refunds

See [the rules](references/rules.md).
`

// skillFiles are two skills: one three directories deep, one with a binary file.
var skillFiles = map[string]string{
	"refunds/SKILL.md":            refundsSkill,
	"refunds/references/rules.md": "grüße\r\n\u2028",
	"refunds/assets/stamp.png":    "\x89PNG\r\n\x1a\n\x00\xff",
	"acme/ops/restart/SKILL.md":   "---\nname: restart\ndescription: How to restart.\n---\nTurn it off and on.\n",
}

func skillsDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// playbooks is a gateway with a directory of skills "pb" and a server "up", whose tools,
// prompts and resources the skills depend on.
func playbooks(t *testing.T, rules policy.Config) *guarded {
	t.Helper()
	up := secretive(t, stateless)
	up.On("prompts/list", func(c *mcptest.Call) { c.Result(`{"prompts":[{"name":"ask"}]}`) })
	return guard(t, gateway.Config{Policy: rules, Upstreams: []upstream.Config{
		{Name: "up", URL: up.URL}, {Name: "pb", Skills: skillsDir(t, skillFiles)},
	}})
}

type object = map[string]any

// result decodes the result of a call that must succeed.
func result(t *testing.T, c *mcptest.Client, method, params string) object {
	t.Helper()
	var out object
	if err := json.Unmarshal(mustCall(t, c, method, params).Result, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// allSkills reads all pages of skills/list.
func allSkills(t *testing.T, c *mcptest.Client) (skills []object) {
	t.Helper()
	params := "{}"
	for {
		page := result(t, c, "skills/list", params)
		for _, s := range page["skills"].([]any) {
			skills = append(skills, s.(object))
		}
		next, ok := page["nextCursor"].(string)
		if !ok {
			return skills
		}
		params = fmt.Sprintf(`{"cursor":%q}`, next)
	}
}

// typed checks the members of an object: by name "string", "boolean", "object", "number",
// "[]string" or "any"; a ! at the end marks a required member.
func typed(t *testing.T, what string, of object, members map[string]string) {
	t.Helper()
	for name, kind := range members {
		kind, required := strings.CutSuffix(kind, "!")
		value, ok := of[name]
		if !ok {
			if required {
				t.Errorf("%s has no %s: %v", what, name, of)
			}
			continue
		}
		switch kind {
		case "string":
			_, ok = value.(string)
		case "boolean":
			_, ok = value.(bool)
		case "number":
			_, ok = value.(float64)
		case "object":
			_, ok = value.(object)
		case "[]string":
			var list []any
			list, ok = value.([]any)
			ok = ok && !slices.ContainsFunc(list, func(v any) bool { _, text := v.(string); return !text })
		}
		if !ok {
			t.Errorf("%s: %s is no %s: %v", what, name, kind, value)
		}
	}
}

func objects(of object, member string) (all []object) {
	list, _ := of[member].([]any)
	for _, one := range list {
		o, _ := one.(object)
		all = append(all, o)
	}
	return all
}

func checkDependencies(t *testing.T, of object) {
	t.Helper()
	deps, ok := of["dependencies"].(object)
	if !ok {
		return
	}
	typed(t, "SkillDependencies", deps, map[string]string{"tools": "[]string"})
	for _, ref := range objects(deps, "prompts") {
		typed(t, "PromptReference", ref, map[string]string{"type": "string!", "name": "string!"})
	}
	for _, ref := range objects(deps, "resources") {
		typed(t, "ResourceTemplateReference", ref, map[string]string{"type": "string!", "uri": "string!"})
	}
}

// checkSkill checks an entry against Skill of SEP-2076.
func checkSkill(t *testing.T, s object) {
	t.Helper()
	typed(t, "Skill", s, map[string]string{"name": "string!", "title": "string", "description": "string",
		"version": "string", "tags": "[]string", "_meta": "object"})
	for _, a := range objects(s, "arguments") {
		typed(t, "SkillArgument", a, map[string]string{"name": "string!", "title": "string", "description": "string",
			"required": "boolean"})
	}
	checkDependencies(t, s)
}

var sha = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// checkEntry checks an entry against that of SEP-2640.
func checkEntry(t *testing.T, s object) {
	t.Helper()
	typed(t, "entry", s, map[string]string{"uri": "string!", "frontmatter": "object!", "resources": "any!"})
	uri, _ := s["uri"].(string)
	frontmatter, _ := s["frontmatter"].(object)
	typed(t, "frontmatter", frontmatter, map[string]string{"name": "string!", "description": "string!"})
	root, ok := strings.CutSuffix(uri, "/SKILL.md")
	if !ok || root[strings.LastIndex(root, "/")+1:] != frontmatter["name"] {
		t.Errorf("%s is not that of %v", uri, frontmatter["name"])
	}
	if s["resources"] == "dynamic" {
		return
	}
	seen := map[any]bool{}
	for _, f := range objects(s, "resources") {
		typed(t, "resources", f, map[string]string{"uri": "string!", "digest": "string!", "size": "number!"})
		if !strings.HasPrefix(f["uri"].(string), root+"/") || seen[f["uri"]] || !sha.MatchString(f["digest"].(string)) {
			t.Errorf("resource %v of %s", f, uri)
		}
		seen[f["uri"]] = true
	}
	if !seen[uri] {
		t.Errorf("%s is not among its resources", uri)
	}
}

// readFile reads a resource and returns its bytes.
func readFile(t *testing.T, c *mcptest.Client, uri string) []byte {
	t.Helper()
	contents := objects(result(t, c, "resources/read", fmt.Sprintf(`{"uri":%q}`, uri)), "contents")
	if len(contents) != 1 || contents[0]["uri"] != uri {
		t.Fatalf("%s: contents %v", uri, contents)
	}
	if text, ok := contents[0]["text"].(string); ok {
		return []byte(text)
	}
	blob, err := base64.StdEncoding.DecodeString(contents[0]["blob"].(string))
	if err != nil {
		t.Fatal(err)
	}
	return blob
}

// refused makes a call that must fail with a code.
func refused(t *testing.T, c *mcptest.Client, method, params string, code int) {
	t.Helper()
	m, _, err := c.Call(deadline(t), method, params)
	if err != nil || m.Error == nil || m.Error.Code != code {
		t.Errorf("%s %s: got %s, %v, want %d", method, params, m.Text, err, code)
	}
}

func TestSkills(t *testing.T) {
	t.Parallel()
	g := playbooks(t, policy.Config{Default: policy.DefaultAllow})
	for _, revision := range eras {
		t.Run(revision, func(t *testing.T) {
			c := g.raw(t, revision, g.issuer.Token(nil))
			short := g.rawWith(t, revision, g.issuer.Token(nil), declaresSkills)
			skills := allSkills(t, c)
			if len(skills) != 2 {
				t.Fatalf("skills %v", skills)
			}
			for _, s := range skills {
				t.Run(s["uri"].(string), func(t *testing.T) {
					checkSkill(t, s)
					checkEntry(t, s)
				})
				for _, f := range objects(s, "resources") {
					bytes := readFile(t, c, f["uri"].(string))
					sum := sha256.Sum256(bytes)
					if f["digest"] != "sha256:"+hex.EncodeToString(sum[:]) || f["size"] != float64(len(bytes)) {
						t.Errorf("%v: %d bytes with another digest", f, len(bytes))
					}
				}
				get := result(t, c, "skills/get", fmt.Sprintf(`{"name":%q}`, s["name"]))
				typed(t, "GetSkillResult", get, map[string]string{"instructions": "string!", "description": "string"})
				checkDependencies(t, get)
				for _, f := range objects(get, "files") {
					typed(t, "SkillFile", f, map[string]string{"name": "string!", "uri": "string!", "title": "string",
						"description": "string", "mimeType": "string", "required": "boolean"})
					readFile(t, c, f["uri"].(string))
				}
				byURI := result(t, c, "skills/get", fmt.Sprintf(`{"uri":%q}`, s["uri"]))
				if got, want := fmt.Sprint(byURI["skill"]), fmt.Sprint(s); got != want {
					t.Errorf("by its URI it is\n%s\nin the list\n%s", got, want)
				}
			}
			for _, s := range allSkills(t, short) {
				checkEntry(t, s)
				if len(s) != 3 {
					t.Errorf("a client of the extension is told %v", s)
				}
			}
			golden(t, "list-"+revision, mustCall(t, c, "skills/list", "{}").Result)
			golden(t, "list-extension-"+revision, mustCall(t, short, "skills/list", "{}").Result)
			golden(t, "get-name-"+revision, mustCall(t, c, "skills/get", `{"name":"pb__refunds"}`).Result)
			golden(t, "get-uri-"+revision, mustCall(t, c, "skills/get", `{"uri":"skill://pb/refunds/SKILL.md"}`).Result)

			if revision == stateless {
				page := result(t, c, "skills/list", "{}")
				typed(t, "skills", page, map[string]string{"ttlMs": "number!", "cacheScope": "string!", "resultType": "string!"})
			}
			for _, params := range []string{`{"name":"pb__nothing"}`, `{"name":"refunds"}`,
				`{"uri":"skill://pb/nothing/SKILL.md"}`, `{"uri":"skill://pb/Refunds/SKILL.md"}`,
				`{"uri":"skill://pb/refunds"}`, `{"uri":"skill://pb/refunds/references/rules.md"}`,
				`{"uri":"skill://up/refunds/SKILL.md"}`, `{}`,
				`{"name":"pb__refunds","uri":"skill://pb/refunds/SKILL.md"}`, `{"name":7}`, `{"uri":null}`} {
				refused(t, c, "skills/get", params, -32602)
			}
			if got := string(readFile(t, c, "skill://pb/refunds/SKILL.md")); got != refundsSkill {
				t.Errorf("SKILL.md is %q", got)
			}
		})
	}
}

// golden compares a result with the golden file of that name.
func golden(t *testing.T, name string, result json.RawMessage) {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, result, "", "  "); err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`"ttlMs": \d+`).ReplaceAllString(pretty.String(), `"ttlMs": 0`) + "\n"
	file := filepath.Join("testdata", "skills", name+".json")
	if *updateGolden {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("%s (go test -update writes it anew): %v\ngot\n%s", file, err, got)
	}
}

func TestSkillsInCapabilitiesAndResources(t *testing.T) {
	g := playbooks(t, policy.Config{Default: policy.DefaultAllow})
	for _, revision := range eras {
		c := g.raw(t, revision, g.issuer.Token(nil))
		caps := capabilities(t, c)
		if got := fmt.Sprint(caps["skills"],
			caps["extensions"]); got != "map[listChanged:true] map[io.modelcontextprotocol/skills:map[directoryRead:true]]" {
			t.Errorf("%s: capabilities %v", revision, caps)
		}
		var listed []string
		for _, r := range objects(result(t, c, "resources/list", "{}"), "resources") {
			if uri := r["uri"].(string); strings.HasPrefix(uri, "skill://") {
				listed = append(listed, fmt.Sprint(uri, " ", r["name"], " ", r["mimeType"]))
			}
		}
		if want := []string{"skill://pb/acme/ops/restart/SKILL.md restart text/markdown",
			"skill://pb/refunds/SKILL.md refunds text/markdown"}; !slices.Equal(listed, want) {
			t.Errorf("%s: resources %q, want %q", revision, listed, want)
		}
	}
}

// capabilities returns what the gateway declares to a client.
func capabilities(t *testing.T, c *mcptest.Client) (caps object) {
	t.Helper()
	if !c.Revision.Stateful {
		return result(t, c, "server/discover", "{}")["capabilities"].(object)
	}
	x, err := c.Post(deadline(t), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+
		c.Revision.Name+`","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	m, err := x.Response()
	if err != nil || !m.Value("capabilities", &caps) {
		t.Fatalf("initialize: %s, %v", m.Text, err)
	}
	return caps
}

func TestDirectoriesOfSkills(t *testing.T) {
	t.Parallel()
	g := playbooks(t, policy.Config{Default: policy.DefaultAllow})
	for _, revision := range eras {
		c := g.raw(t, revision, g.issuer.Token(nil))
		children := func(uri string) (all []string) {
			for _, r := range objects(result(t, c, "resources/directory/read", fmt.Sprintf(`{"uri":%q}`, uri)), "resources") {
				typed(t, "Resource", r, map[string]string{"uri": "string!", "name": "string!", "mimeType": "string!"})
				all = append(all, fmt.Sprint(r["uri"], " ", r["name"], " ", r["mimeType"]))
			}
			return all
		}
		if got, want := children("skill://pb/refunds"), []string{"skill://pb/refunds/SKILL.md SKILL.md text/markdown",
			"skill://pb/refunds/assets assets inode/directory",
			"skill://pb/refunds/references references inode/directory"}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", revision, got, want)
		}
		if got, want := children("skill://pb/refunds/references"), []string{"skill://pb/refunds/references/rules.md rules.md text/markdown"}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", revision, got, want)
		}
		for _, uri := range []string{"skill://pb/refunds/SKILL.md", "skill://pb/refunds/", "skill://pb/refunds/none",
			"skill://pb", "skill://pb/acme", "skill://pb/acme/ops", "up+file:///docs", "skill://nobody/x"} {
			refused(t, c, "resources/directory/read", fmt.Sprintf(`{"uri":%q}`, uri), -32602)
		}
	}
	without := scripted(t, stateless)
	without.Tools("a")
	without.OffersOnly(`{"tools":{}}`)
	none := guard(t, gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: without.URL}}})
	for _, revision := range eras {
		c := none.raw(t, revision, none.issuer.Token(nil))
		for _, method := range []string{"resources/directory/read", "skills/list", "skills/get"} {
			refused(t, c, method, `{"uri":"skill://up/a/SKILL.md"}`, -32601)
		}
	}
}

// TestSkillsObeyPolicy: a denied skill looks as if it did not exist, on every path, and the
// visible dependencies of a skill are listed.
func TestSkillsObeyPolicy(t *testing.T) {
	t.Parallel()
	g := playbooks(t, policy.Config{Rules: []policy.Rule{
		{Name: "all", Who: policy.Who{Groups: []string{"admin"}}, Allow: []string{"*:*"}},
		{Name: "some", Who: policy.Who{Groups: []string{"some"}},
			Allow: []string{"skills:pb/refunds", "tools:up/open", "resources:*"}},
		{Name: "but not", Who: policy.Who{Groups: []string{"some"}}, Deny: []string{"resources:pb/skill://refunds/assets/*"}},
		{Name: "files only", Who: policy.Who{Groups: []string{"files"}}, Allow: []string{"resources:*", "tools:*"}},
	}})
	for _, revision := range eras {
		t.Run(revision, func(t *testing.T) {
			all := g.raw(t, revision, g.issuer.Token(claims{"sub": "all", "groups": "admin"}))
			some := g.raw(t, revision, g.issuer.Token(claims{"sub": "some", "groups": "some"}))
			files := g.raw(t, revision, g.issuer.Token(claims{"sub": "files", "groups": "files"}))
			if got := len(allSkills(t, all)); got != 2 {
				t.Errorf("who may see all sees %d", got)
			}
			deps := func(c *mcptest.Client) string {
				var out []string
				for _, of := range []object{allSkills(t, c)[0], result(t, c, "skills/get", `{"name":"pb__refunds"}`),
					result(t, c, "skills/get", `{"uri":"skill://pb/refunds/SKILL.md"}`)["skill"].(object)} {
					if of["name"] == "pb__acme/ops/restart" {
						of = allSkills(t, c)[1]
					}
					text, _ := json.Marshal(of["dependencies"])
					out = append(out, string(text))
				}
				if out = slices.Compact(out); len(out) != 1 {
					t.Errorf("dependencies differ: %q", out)
				}
				return out[0]
			}
			if got, want := deps(all), `{"prompts":[{"name":"up__ask","type":"ref/prompt"}],"resources":[{"type":"ref/resource","uri":"up+file:///docs/open"},{"type":"ref/resource","uri":"up+doc:///open/{id}"}],"tools":["up__open","up__secret"]}`; got != want {
				t.Errorf("dependencies\n%s, want\n%s", got, want)
			}
			if got, want := deps(some), `{"resources":[{"type":"ref/resource","uri":"up+file:///docs/open"},{"type":"ref/resource","uri":"up+doc:///open/{id}"}],"tools":["up__open"]}`; got != want {
				t.Errorf("dependencies\n%s, want\n%s", got, want)
			}
			readFile(t, some, "skill://pb/refunds/references/rules.md")

			// A denied name gets the answer of one that does not exist.
			same := func(c *mcptest.Client, method, denied, missing string) {
				t.Helper()
				got := wholeCall(t, c, method, denied)
				want := wholeCall(t, c, method, missing)
				plain := func(s string) string {
					return strings.NewReplacer("acme/ops/restart", "X", "no/such/one", "X", "stamp.png", "Y", "nothing.p", "Y",
						"refunds", "Z", "nothing", "Z", "Content-Length", "").Replace(s)
				}
				if a, b := regexp.MustCompile(`\[\d+\]`).ReplaceAllString(plain(got),
					""), regexp.MustCompile(`\[\d+\]`).ReplaceAllString(plain(want), ""); a != b {
					t.Errorf("%s %s answers\n%s\nand %s\n%s", method, denied, got, missing, want)
				}
			}
			same(some, "skills/get", `{"name":"pb__acme/ops/restart"}`, `{"name":"pb__no/such/one"}`)
			same(some, "skills/get", `{"uri":"skill://pb/acme/ops/restart/SKILL.md"}`,
				`{"uri":"skill://pb/no/such/one/SKILL.md"}`)
			same(some, "resources/read", `{"uri":"skill://pb/acme/ops/restart/SKILL.md"}`,
				`{"uri":"skill://pb/no/such/one/SKILL.md"}`)
			same(some, "resources/directory/read", `{"uri":"skill://pb/acme/ops/restart"}`, `{"uri":"skill://pb/no/such/one"}`)
			same(some, "resources/read", `{"uri":"skill://pb/refunds/assets/stamp.png"}`,
				`{"uri":"skill://pb/refunds/assets/nothing.p"}`)
			same(files, "resources/read", `{"uri":"skill://pb/refunds/SKILL.md"}`, `{"uri":"skill://pb/nothing/SKILL.md"}`)
			if got := allSkills(t, files); len(got) != 0 {
				t.Errorf("who may use resources alone sees skills: %v", got)
			}
			for _, c := range []*mcptest.Client{some, files} {
				for _, r := range objects(result(t, c, "resources/list", "{}"), "resources") {
					uri := r["uri"].(string)
					if strings.HasPrefix(uri, "skill://") && (c == files || uri != "skill://pb/refunds/SKILL.md") {
						t.Errorf("%s is in the list of resources", uri)
					}
				}
			}
			for _, uri := range []string{"skill://pb/acme/ops/%72estart/SKILL.md", "skill://pb/acme//ops/restart/SKILL.md",
				"skill://pb/ACME/ops/restart/SKILL.md", "skill://pb/acme/ops/restart/SKILL.md#x",
				"SKILL://pb/acme/ops/restart/SKILL.md", "skill://pb/refunds/../acme/ops/restart/SKILL.md",
				"pb+skill://acme/ops/restart/SKILL.md", "skill://acme/ops/restart/SKILL.md"} {
				m, _, err := some.Call(deadline(t), "resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
				if err != nil || m.Error == nil {
					t.Errorf("%s is read: %s, %v", uri, m.Text, err)
				}
			}
		})
	}
}

// TestChangedSkillsAreAnnounced: changes are announced to everybody who sees them.
func TestChangedSkillsAreAnnounced(t *testing.T) {
	t.Parallel()
	const changed = "notifications/skills/list_changed"
	for _, revision := range eras {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			dir := skillsDir(t, skillFiles)
			g := guard(t, gateway.Config{Upstreams: []upstream.Config{{Name: "pb", Skills: dir}}})
			c := g.raw(t, revision, g.issuer.Token(nil))
			var stream *mcptest.Exchange
			var err error
			if revision == stateless {
				stream, err = c.Send(deadline(t), "subscriptions/listen", `{"notifications":{"skillsListChanged":true}}`)
			} else {
				stream, err = c.Get(deadline(t), "")
			}
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			if revision == stateless {
				ack, err := stream.Next()
				if err != nil || !strings.Contains(ack.Text, `"skillsListChanged":true`) {
					t.Fatalf("acknowledged %s, %v", ack.Text, err)
				}
			}
			before := fmt.Sprint(allSkills(t, c))
			if err := os.WriteFile(filepath.Join(dir, "refunds/references/rules.md"), []byte("other"), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Until(changed); err != nil {
				t.Fatal(err)
			}
			if after := fmt.Sprint(allSkills(t, c)); after == before {
				t.Error("the digests are the same")
			}
		})
	}
}

// TestDependenciesThatCome: a skill looks different when a tool appears on which it
// depends. Clients that see this are told, and no others.
func TestDependenciesThatCome(t *testing.T) {
	t.Parallel()
	const changed = "notifications/skills/list_changed"
	const filter = `{"notifications":{"skillsListChanged":true,"promptsListChanged":true}}`
	rules := policy.Config{Rules: []policy.Rule{
		{Name: "all", Allow: []string{"*:*"}},
		{Name: "not these", Who: policy.Who{Groups: []string{"guests"}}, Deny: []string{"tools:up/secret"}},
	}}
	for _, revision := range eras {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			up := secretive(t, revision)
			up.Tools("other")
			dir := skillsDir(t,
				map[string]string{"a/SKILL.md": "---\nname: a\ndescription: A.\nmetadata:\n  gatehouse.tools: up/open, up/secret\n---\n"})
			g := guard(t, gateway.Config{Policy: rules, Upstreams: []upstream.Config{{Name: "up", URL: up.URL},
				{Name: "pb", Skills: dir}}})
			hear := func(c *mcptest.Client) (x *mcptest.Exchange) {
				var err error
				if revision != stateless {
					x, err = c.Get(deadline(t), "")
				} else if x, err = c.Send(deadline(t), "subscriptions/listen", filter); err == nil {
					_, err = x.Until("notifications/subscriptions/acknowledged")
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(x.Close)
				if revision != stateless { // answered once the session listens
					mustCall(t, c, "resources/subscribe", `{"uri":"up+file:///docs/open"}`)
				}
				return x
			}
			some, guest := g.raw(t, revision, g.issuer.Token(nil)),
				g.raw(t, revision, g.issuer.Token(claims{"groups": "guests"}))
			heardSome, heardGuest := hear(some), hear(guest)
			if err := up.AwaitGETStreams(deadline(t), 1); err != nil {
				t.Fatal(err)
			}
			depends := func(c *mcptest.Client, want string) {
				t.Helper()
				if got := fmt.Sprint(allSkills(t, c)[0]["dependencies"]); got != want {
					t.Errorf("depends on %s, want %s", got, want)
				}
			}
			come := func(x *mcptest.Exchange, note string, tools ...string) {
				t.Helper()
				up.Tools(tools...)
				up.Push(note, "{}")
				if _, err := x.Until(changed); err != nil {
					t.Fatal(err)
				}
			}
			depends(some, "<nil>")
			come(heardSome, "notifications/tools/list_changed", "secret")
			depends(some, "map[tools:[up__secret]]")
			depends(guest, "<nil>")
			come(heardGuest, "notifications/tools/list_changed", "secret", "open")
			depends(guest, "map[tools:[up__open]]")
			up.On("prompts/list", func(c *mcptest.Call) { c.Result(`{"prompts":[]}`) })
			up.Push("notifications/prompts/list_changed", "{}")
			if _, err := heardGuest.Until("notifications/prompts/list_changed"); err != nil {
				t.Fatal(err)
			}
			for _, m := range heardGuest.Before {
				if m.Method == changed {
					t.Errorf("the guest heard of a tool that is hidden")
				}
			}
		})
	}
}
