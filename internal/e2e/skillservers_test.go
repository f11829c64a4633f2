package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// skillForms are the ways in which servers offer a skill "refunds": as a primitive
// (SEP-2076), by the extension (SEP-2640), as an ordinary resource, and as one that an
// index and a manifest describe.
var skillForms = []string{"primitive", "extension", "plain", "indexed"}

const serverSkill = "---\nname: refunds\ndescription: Give money back.\nmetadata: {version: \"3\"}\n---\nRefund it.\n"

func digestText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// serveSkill gives a scripted server the skill.
func serveSkill(t *testing.T, s *mcptest.Server, form string) {
	t.Helper()
	files := map[string]string{"skill://refunds/SKILL.md": serverSkill, "skill://refunds/a.md": "A", "file:///rules": "R"}
	if form == "indexed" {
		files["skill://index.json"] = `{"skills":[{"name":"refunds","type":"skill-md","description":"x","url":"skill://refunds/SKILL.md"},{"name":"x","url":"https://example.com/SKILL.md"}]}`
		files["skill://refunds/_manifest"] = fmt.Sprintf(`{"skill":"refunds","files":[{"path":"SKILL.md","size":%d,"hash":%q},{"path":"a.md","size":1,"hash":%q}]}`,
			len(serverSkill), digestText(serverSkill), digestText("A"))
	}
	s.Offers(`{"resources":{"listChanged":true}}`)
	s.On("resources/read", func(c *mcptest.Call) {
		var uri string
		c.Param("uri", &uri)
		text, ok := files[uri]
		if !ok || form == "primitive" && uri != "file:///rules" {
			c.Error(-32602, "Resource not found")
			return
		}
		c.Result(fmt.Sprintf(`{"contents":[{"uri":%q,"text":%s}]}`, uri, quoted(text)))
	})
	entry := fmt.Sprintf(`{"uri":"skill://refunds/SKILL.md","frontmatter":{"name":"refunds","description":"Give money back.","metadata":{"version":"3"}},"resources":[
		{"uri":"skill://refunds/SKILL.md","digest":%q,"size":%d},{"uri":"skill://refunds/a.md","digest":%q,"size":1}]}`,
		digestText(serverSkill), len(serverSkill), digestText("A"))
	switch form {
	case "plain":
		s.On("resources/list", func(c *mcptest.Call) {
			c.Result(`{"resources":[{"uri":"skill://refunds/SKILL.md","name":"refunds"},{"uri":"skill://refunds/a.md","name":"a"},{"uri":"file:///rules","name":"r"}]}`)
		})
	case "indexed":
		s.On("resources/list", func(c *mcptest.Call) {
			c.Result(`{"resources":[{"uri":"skill://index.json","name":"index"},{"uri":"skill://refunds/_manifest","name":"manifest"},{"uri":"file:///rules","name":"r"}]}`)
		})
	case "extension":
		s.Offers(`{"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}}}`)
		s.On("skills/list", func(c *mcptest.Call) { c.Result(`{"skills":[` + entry + `]}`) })
		s.On("skills/get", func(c *mcptest.Call) {
			var uri string
			if c.Param("uri", &uri); uri != "skill://refunds/SKILL.md" {
				c.Error(-32602, "no such skill")
				return
			}
			c.Result(`{"skill":` + entry + `}`)
		})
		s.On("resources/directory/read", func(c *mcptest.Call) {
			var uri, cursor string
			c.Param("uri", &uri)
			if c.Param("cursor", &cursor); uri != "skill://refunds" {
				c.Error(-32602, "no such directory")
				return
			} else if cursor == "" {
				c.Result(`{"resources":[{"uri":"skill://refunds/SKILL.md","name":"SKILL.md"}],"nextCursor":"2"}`)
				return
			}
			c.Result(`{"resources":[{"uri":"skill://refunds/a.md","name":"a.md"},{"uri":"skill://other/b.md","name":"b.md"}]}`)
		})
	case "primitive":
		s.Offers(`{"skills":{"listChanged":true}}`)
		s.Tools("refund")
		s.On("skills/list", func(c *mcptest.Call) {
			c.Result(`{"skills":[{"name":"refunds","title":"Refunds","description":"Give money back.","version":"3","arguments":[{"name":"country"}],"dependencies":{"tools":["refund","gone"]}},
				{"name":"With_Arguments","description":"x\u2028y","arguments":[{"name":"country","description":"where","required":true}]}]}`)
		})
		s.On("skills/get", func(c *mcptest.Call) {
			var name, country string
			c.Param("name", &name)
			if c.Param("arguments|country", &country); name != "refunds" && country == "" {
				c.Error(-32602, "country is missing")
				return
			}
			c.Result(`{"instructions":"Refund it.\n` + country +
				`","dependencies":{"tools":["refund"]},"files":[{"name":"rules","uri":"file:///rules"}]}`)
		})
	}
}

func quoted(text string) string {
	out, _ := json.Marshal(text) // a string always marshals
	return string(out)
}

// TestSkillsOfServers: whatever form a server uses, clients get both forms, and policy
// decides.
func TestSkillsOfServers(t *testing.T) {
	t.Parallel()
	for _, form := range skillForms {
		for _, server := range []string{statefulServer, stateless} {
			s := scripted(t, server)
			serveSkill(t, s, form)
			g := guard(t, gateway.Config{
				Policy: policy.Config{Rules: []policy.Rule{
					{Name: "all", Who: policy.Who{Groups: []string{"all"}}, Allow: []string{"*:*"}},
					{Name: "resources", Allow: []string{"resources:*"}},
				}},
				Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
			})
			for _, revision := range eras {
				t.Run(form+" of "+server+" for "+revision, func(t *testing.T) {
					c := g.raw(t, revision, g.issuer.Token(claims{"groups": "all"}))
					var skill, needy object
					for _, one := range allSkills(t, c) {
						checkSkill(t, one)
						checkEntry(t, one)
						readFile(t, c, one["uri"].(string))
						if one["name"] == "up__With_Arguments" {
							needy = one
						}
						if one["name"] == "up__refunds" {
							skill = one
						}
					}
					if skill == nil || skill["uri"] != "skill://up/refunds/SKILL.md" || skill["version"] != "3" ||
						skill["description"] != "Give money back." {
						t.Fatalf("the skill is %v", skill)
					}
					get := result(t, c, "skills/get", `{"name":"up__refunds"}`)
					if get["instructions"] != "Refund it.\n" {
						t.Errorf("instructions %q", get["instructions"])
					}
					for _, f := range objects(get, "files") {
						readFile(t, c, f["uri"].(string))
					}
					entry, _ := result(t, c, "skills/get", `{"uri":"skill://up/refunds/SKILL.md"}`)["skill"].(object)
					if fmt.Sprint(entry) != fmt.Sprint(skill) {
						t.Errorf("by its URI it is %v, in the list %v", entry, skill)
					}
					if got, want := len(objects(skill, "resources")), map[string]int{"extension": 2, "indexed": 2}[form]; got != want {
						t.Errorf("%d files, want %d", got, want)
					}
					text := string(readFile(t, c, "skill://up/refunds/SKILL.md"))
					if form != "primitive" && text != serverSkill || !strings.HasSuffix(text, "---\nRefund it.\n") {
						t.Errorf("SKILL.md is %q", text)
					}
					for _, f := range objects(skill, "resources") {
						if got := readFile(t, c, f["uri"].(string)); f["digest"] != digestText(string(got)) {
							t.Errorf("%v has another digest", f)
						}
					}
					refused(t, c, "skills/get", `{"name":"up__none"}`, -32602)
					refused(t, c, "skills/get", `{"uri":"skill://up/none/SKILL.md"}`, -32602)
					children := []string{"skill://up/refunds/SKILL.md"}
					if form != "primitive" {
						children = append(children, "skill://up/refunds/a.md")
					}
					for i, child := range objects(result(t, c, "resources/directory/read", `{"uri":"skill://up/refunds"}`),
						"resources") {
						if i >= len(children) || child["uri"] != children[i] {
							t.Errorf("child %v, want %q", child, children)
						}
						readFile(t, c, child["uri"].(string))
					}
					refused(t, c, "resources/directory/read", `{"uri":"skill://up/refunds/none"}`, -32602)
					if names := fmt.Sprint(get["files"]); form == "plain" &&
						names != "[map[mimeType:text/markdown name:a.md uri:skill://up/refunds/a.md]]" {
						t.Errorf("the files that the server lists are %s", names)
					}
					if form == "primitive" {
						if text := string(readFile(t, c, needy["uri"].(string))); !strings.Contains(text,
							"- `country` (required): where\n") {
							t.Errorf("the SKILL.md of a skill that needs arguments is %q", text)
						}
						if got := fmt.Sprint(skill["dependencies"]); got != "map[tools:[up__refund]]" {
							t.Errorf("dependencies %s", got)
						}
						refused(t, c, "skills/get", `{"name":"up__With_Arguments"}`, -32602)
						if got := result(t, c, "skills/get",
							`{"name":"up__refunds","arguments":{"country":"NZ"}}`)["instructions"]; got != "Refund it.\nNZ" {
							t.Errorf("instructions with arguments: %q", got)
						}
					}

					// Permission to read resources is not permission to read the skill.
					other := g.raw(t, revision, g.issuer.Token(claims{"sub": "other"}))
					if got := allSkills(t, other); len(got) != 0 {
						t.Errorf("it is shown: %v", got)
					}
					readFile(t, other, "up+file:///rules")
					for _, uri := range []string{"skill://up/refunds/SKILL.md", "skill://up/refunds/a.md",
						"skill://up/Refunds/SKILL.md", "skill://up/%72efunds/SKILL.md",
						"skill://up/refunds/_manifest", "skill://up/index.json", "skill://up/INDEX.json"} {
						m, _, err := other.Call(deadline(t), "resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
						if err != nil || m.Error == nil {
							t.Errorf("%s is read: %s, %v", uri, m.Text, err)
						}
					}
					for _, r := range objects(result(t, other, "resources/list", "{}"), "resources") {
						if strings.HasPrefix(r["uri"].(string), "skill://") {
							t.Errorf("%s is in the list of resources", r["uri"])
						}
					}
				})
			}
		}
	}
}
