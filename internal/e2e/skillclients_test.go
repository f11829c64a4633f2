package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// The messages about skills as a go-sdk program would declare them: go-sdk has no types for
// them.
type (
	skillParams struct {
		sdk.ParamsBase
		URI    string `json:"uri,omitempty"`
		Name   string `json:"name,omitempty"`
		Cursor string `json:"cursor,omitempty"`
	}
	skillFile struct {
		URI      string `json:"uri"`
		Name     string `json:"name"`
		MIMEType string `json:"mimeType"`
		Digest   string `json:"digest"`
		Size     int    `json:"size"`
	}
	skillEntry struct {
		URI         string         `json:"uri"`
		Name        string         `json:"name"`
		Frontmatter map[string]any `json:"frontmatter"`
		Resources   []skillFile    `json:"resources"`
	}
	skillsResult struct {
		sdk.ResultBase
		Skills []skillEntry `json:"skills"`
	}
	skillResult struct {
		sdk.ResultBase
		Skill        skillEntry  `json:"skill"`
		Instructions string      `json:"instructions"`
		Files        []skillFile `json:"files"`
	}
	childrenResult struct {
		sdk.ResultBase
		Resources []skillFile `json:"resources"`
	}
)

// TestSkillsWithTheGoSDK: a host with go-sdk's client finds skills, in both forms, verifies
// the digest of each file, and walks through their directories.
func TestSkillsWithTheGoSDK(t *testing.T) {
	t.Parallel()
	g := playbooks(t, policy.Config{Default: policy.DefaultAllow})
	for _, declares := range []bool{false, true} {
		for _, revision := range eras {
			t.Run(fmt.Sprintf("%s, declares the extension: %t", revision, declares), func(t *testing.T) {
				caps := &sdk.ClientCapabilities{}
				if declares {
					caps.AddExtension("io.modelcontextprotocol/skills", map[string]any{})
				}
				impl := sdk.NewClient(&sdk.Implementation{Name: "host", Version: "1"}, &sdk.ClientOptions{Capabilities: caps})
				for _, err := range []error{
					sdk.AddSendingCustomMethod[*skillParams, *skillsResult](impl, "skills/list"),
					sdk.AddSendingCustomMethod[*skillParams, *skillResult](impl, "skills/get"),
					sdk.AddSendingCustomMethod[*skillParams, *childrenResult](impl, "resources/directory/read"),
				} {
					if err != nil {
						t.Fatal(err)
					}
				}
				session, err := impl.Connect(deadline(t), g.transport(t, g.issuer.Token(nil)),
					&sdk.ClientSessionOptions{ProtocolVersion: revision})
				if err != nil {
					t.Fatal(err)
				}
				defer session.Close()
				if got, _ := json.Marshal(session.InitializeResult().Capabilities.Extensions["io.modelcontextprotocol/skills"]); string(got) != `{"directoryRead":true}` {
					t.Errorf("the extension is %s", got)
				}
				list, err := sdk.CallCustomMethod[*skillParams, *skillsResult](deadline(t), session, "skills/list", &skillParams{})
				if err != nil || len(list.Skills) != 2 {
					t.Fatalf("skills/list: %+v, %v", list, err)
				}
				for _, skill := range list.Skills {
					if named := skill.Name != ""; named == declares {
						t.Errorf("the entry has the name %q", skill.Name)
					}
					for _, f := range skill.Resources {
						read, err := session.ReadResource(deadline(t), &sdk.ReadResourceParams{URI: f.URI})
						if err != nil || len(read.Contents) != 1 {
							t.Fatalf("%s: %v", f.URI, err)
						}
						content := read.Contents[0].Blob
						if content == nil {
							content = []byte(read.Contents[0].Text)
						}
						sum := sha256.Sum256(content)
						if f.Digest != "sha256:"+hex.EncodeToString(sum[:]) || f.Size != len(content) {
							t.Errorf("%s has %d bytes and another digest", f.URI, len(content))
						}
					}
					one, err := sdk.CallCustomMethod[*skillParams, *skillResult](deadline(t), session, "skills/get",
						&skillParams{URI: skill.URI})
					if err != nil || one.Skill.URI != skill.URI || !slices.Equal(one.Skill.Resources, skill.Resources) ||
						one.Skill.Frontmatter["name"] != skill.Frontmatter["name"] {
						t.Errorf("by URI: %+v, %v", one, err)
					}
				}
				one, err := sdk.CallCustomMethod[*skillParams, *skillResult](deadline(t), session, "skills/get",
					&skillParams{Name: "pb__refunds"})
				if err != nil || !strings.HasPrefix(one.Instructions, "# Refunds") || len(one.Files) != 2 ||
					one.Files[0].MIMEType != "image/png" {
					t.Errorf("by name: %+v, %v", one, err)
				}
				children, err := sdk.CallCustomMethod[*skillParams, *childrenResult](deadline(t), session,
					"resources/directory/read", &skillParams{URI: "skill://pb/refunds"})
				if err != nil || len(children.Resources) != 3 || children.Resources[1].MIMEType != "inode/directory" {
					t.Errorf("%+v, %v", children, err)
				}
				_, err = sdk.CallCustomMethod[*skillParams, *skillResult](deadline(t), session, "skills/get",
					&skillParams{Name: "pb__nothing"})
				wantCode(t, "an unknown skill", err, -32602)
				_, err = sdk.CallCustomMethod[*skillParams, *childrenResult](deadline(t), session, "resources/directory/read",
					&skillParams{URI: "skill://pb/refunds/SKILL.md"})
				wantCode(t, "a file", err, -32602)
			})
		}
	}
}

// TestSkillsOfEachUser: no user learns what a server says of a skill to another user, on
// any path.
func TestSkillsOfEachUser(t *testing.T) {
	t.Parallel()
	for _, server := range []string{statefulServer, stateless} {
		t.Run("server "+server, func(t *testing.T) {
			e := newExchanging(t, server)
			e.door.Offers(`{"skills":{}}`)
			e.door.On("skills/list", func(c *mcptest.Call) {
				c.Result(fmt.Sprintf(`{"skills":[{"name":"The_plan","description":"The plan of %s."}]}`, subjectOf(c.Received)))
			})
			e.door.On("skills/get", func(c *mcptest.Call) {
				c.Result(fmt.Sprintf(`{"instructions":"What %s does."}`, subjectOf(c.Received)))
			})
			for range 2 {
				for _, revision := range eras {
					for _, user := range []string{"alice", "bob"} {
						c := e.raw(t, revision, e.issuer.Token(claims{"sub": user}))
						wantTools(t, c, "up__all", "up__of-"+user, "plain__do")
						skills := allSkills(t, c)
						for ctx := deadline(t); len(skills) == 0 && ctx.Err() == nil; { // its lists arrive one after the other
							skills = allSkills(t, c)
						}
						if len(skills) != 1 || skills[0]["description"] != "The plan of "+user+"." {
							t.Fatalf("%s is told %v", user, skills)
						}
						get := mustCall(t, c, "skills/get", fmt.Sprintf(`{"uri":%q}`, skills[0]["uri"])).Text
						if !strings.Contains(get, "The plan of "+user) {
							t.Errorf("by its URI %s is told %s", user, get)
						}
						text := string(readFile(t, c, skills[0]["uri"].(string)))
						if !strings.Contains(text, "The plan of "+user) || !strings.HasSuffix(text, "What "+user+" does.") {
							t.Errorf("%s reads %s", user, text)
						}
						if get := result(t, c, "skills/get", fmt.Sprintf(`{"name":%q}`,
							skills[0]["name"])); get["instructions"] != "What "+user+" does." {
							t.Errorf("by its name %s is told %v", user, get)
						}
					}
				}
			}
		})
	}
}

// TestFilesOfSkillsObeyPolicy: a denied file is in no list of files. Of a skill whose
// SKILL.md is denied or needs approval, nothing is revealed in other ways.
func TestFilesOfSkillsObeyPolicy(t *testing.T) {
	t.Parallel()
	up := scripted(t, stateless)
	serveSkill(t, up, "primitive")
	files := map[string]string{"refunds/inner/SKILL.md": "---\nname: inner\ndescription: d\n---\nInner.\n",
		"other/SKILL.md": "---\nname: other\ndescription: d\n---\nOther.\n"}
	for name, text := range skillFiles {
		files[name] = text
	}
	cfg := gateway.Config{
		Policy: policy.Config{Rules: []policy.Rule{
			{Name: "all", Who: policy.Who{Groups: []string{"all"}}, Allow: []string{"*:*"}},
			{Name: "some", Who: policy.Who{Groups: []string{"some"}}, Allow: []string{"skills:*", "tools:*"},
				Deny: []string{"resources:pb/skill://refunds/assets/*", "resources:pb/skill://other/SKILL.md"}},
		}},
		Upstreams: []upstream.Config{{Name: "pb", Skills: skillsDir(t, files)}, {Name: "up", URL: up.URL}},
	}
	g := guard(t, cfg)
	cfg.Upstreams = cfg.Upstreams[:1] // all files of all its skills are known
	directories := guard(t, cfg)
	for _, revision := range eras {
		t.Run(revision, func(t *testing.T) {
			uris := func(of object, member string) (all []string) {
				for _, f := range objects(of, member) {
					all = append(all, strings.TrimPrefix(f["uri"].(string), "skill://pb/"))
				}
				return all
			}
			for group, want := range map[string]struct{ names, files, children, linked []string }{
				"all": {
					[]string{"pb__acme/ops/restart", "pb__other", "pb__refunds", "pb__refunds/inner",
						"up__With_Arguments", "up__refunds"},
					[]string{"refunds/SKILL.md", "refunds/assets/stamp.png", "refunds/inner/SKILL.md", "refunds/references/rules.md"},
					[]string{"refunds/assets/stamp.png"}, []string{"up+file:///rules"},
				},
				"some": {
					[]string{"pb__acme/ops/restart", "pb__refunds", "pb__refunds/inner", "up__With_Arguments", "up__refunds"},
					[]string{"refunds/SKILL.md", "refunds/inner/SKILL.md", "refunds/references/rules.md"},
					nil, nil,
				},
			} {
				c := g.raw(t, revision, g.issuer.Token(claims{"sub": group, "groups": group}))
				var names []string
				for _, s := range allSkills(t, c) {
					names = append(names, s["name"].(string))
					for _, f := range objects(s, "resources") {
						readFile(t, c, f["uri"].(string))
					}
					if s["name"] == "pb__refunds" {
						if got := uris(s, "resources"); !slices.Equal(got, want.files) {
							t.Errorf("%s: its files are %q, want %q", group, got, want.files)
						}
					}
				}
				if !slices.Equal(names, want.names) {
					t.Errorf("%s sees %q, want %q", group, names, want.names)
				}
				byURI := result(t, c, "skills/get", `{"uri":"skill://pb/refunds/SKILL.md"}`)["skill"].(object)
				if got := uris(byURI, "resources"); !slices.Equal(got, want.files) {
					t.Errorf("%s: by its URI its files are %q, want %q", group, got, want.files)
				}
				if got := uris(result(t, c, "skills/get", `{"name":"pb__refunds"}`), "files"); !slices.Equal(got, want.files[1:]) {
					t.Errorf("%s: by its name its files are %q, want %q", group, got, want.files[1:])
				}
				d := directories.raw(t, revision, directories.issuer.Token(claims{"sub": group, "groups": group}))
				const assets = `{"uri":"skill://pb/refunds/assets"}`
				if want.children == nil { // of no file in it the user may know
					refused(t, d, "resources/directory/read", assets, -32602)
				} else if got := uris(result(t, d, "resources/directory/read", assets), "resources"); !slices.Equal(got,
					want.children) {
					t.Errorf("%s: in the directory are %q, want %q", group, got, want.children)
				}
				if got := uris(result(t, c, "skills/get", `{"name":"up__refunds"}`), "files"); !slices.Equal(got, want.linked) {
					t.Errorf("%s: the server's skill has the files %q, want %q", group, got, want.linked)
				}
				if group == "some" {
					for _, params := range []string{`{"name":"pb__other"}`, `{"uri":"skill://pb/other/SKILL.md"}`} {
						refused(t, c, "skills/get", params, -32602)
					}
				}
			}
		})
	}
}
