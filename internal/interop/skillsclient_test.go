//go:build interop

package interop

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

const (
	someDigest = "sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
	// goodText is the SKILL.md of a server that also has bad entries.
	goodText = "---\nname: good\ndescription: Good.\n---\nGood.\n"
)

// badEntries returns entries of which each one makes a strict client refuse the whole list.
func badEntries() string {
	entry := func(root, frontmatter, files string) string {
		return fmt.Sprintf(`{"uri":"%s/SKILL.md","frontmatter":%s,"resources":%s}`, root, frontmatter, files)
	}
	file := func(uri string) string { return fmt.Sprintf(`{"uri":%q,"digest":%q,"size":1}`, uri, someDigest) }
	files := func(root string, more ...string) string {
		return "[" + strings.Join(append([]string{file(root + "/SKILL.md")}, more...), ",") + "]"
	}
	fine := func(name string) string { return fmt.Sprintf(`{"name":%q,"description":"d"}`, name) }
	return strings.Join([]string{
		entry("skill://dots", fine("dots"), files("skill://dots", file("skill://dots/../good/SKILL.md"))),
		entry("skill://about", `{"name":"about"}`, files("skill://about")),
		entry("skill://Upper", fine("Upper"), files("skill://Upper")),
		entry("skill://size", fine("size"), fmt.Sprintf(`[{"uri":"skill://size/SKILL.md","digest":%q}]`, someDigest)),
		entry("skill://spaced", fine("spaced"), files("skill://spaced", file("skill://spaced/a?b"))),
		entry("skill://twice", fine("twice"), files("skill://twice", file("skill://twice/Q&A.md"),
			file("skill://twice/Q%26A.md"))),
		entry("skill://meta", `{"name":"meta","description":"d","metadata":{"version":1.0}}`, files("skill://meta")),
		entry("skill://static", fine("static"), `"static"`),
		`{"uri":"skill://none/SKILL.md","frontmatter":` + fine("none") + `}`,
		entry("skill://x/%C3%A4/same", fine("same"), `"dynamic"`),
		entry("skill://x/ä/same", fine("same"), `"dynamic"`),
		`7`, `null`, `{"uri":7}`,
		fmt.Sprintf(`{"uri":"skill://good/SKILL.md","frontmatter":{"name":"good","description":"Good."},"resources":[{"uri":"skill://good/SKILL.md","digest":%q,"size":%d}]}`,
			fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(goodText))), len(goodText)),
	}, ",")
}

// badServer is a server of the extension whose skills mostly break the rules.
func badServer(t *testing.T) *mcptest.Server {
	s := mcptest.NewServer(wire.Lookup(stateless))
	t.Cleanup(s.Close)
	s.Offers(`{"resources":{},"extensions":{"io.modelcontextprotocol/skills":{}}}`)
	s.On("resources/list", func(c *mcptest.Call) { c.Result(`{"resources":[]}`) })
	s.On("resources/templates/list", func(c *mcptest.Call) { c.Result(`{"resourceTemplates":[]}`) })
	s.On("skills/list", func(c *mcptest.Call) { c.Result(`{"skills":[` + badEntries() + `]}`) })
	s.On("skills/get", func(c *mcptest.Call) {
		entries := badEntries()
		c.Result(`{"skill":` + entries[strings.LastIndex(entries, `{"uri":"skill://good/SKILL.md","frontmatter"`):] + `}`)
	})
	s.On("resources/read", func(c *mcptest.Call) {
		text, _ := json.Marshal(goodText) // a string always marshals
		c.Result(`{"contents":[{"uri":"skill://good/SKILL.md","text":` + string(text) + `}]}`)
	})
	return s
}

// oldServer is a server of SEP-2076 with a good skill, one that needs an argument, one
// whose name cannot be that of a directory, and some of wrong types.
func oldServer(t *testing.T) *mcptest.Server {
	s := mcptest.NewServer(wire.Lookup(stateful))
	t.Cleanup(s.Close)
	s.Offers(`{"skills":{}}`)
	s.On("skills/list", func(c *mcptest.Call) {
		c.Result(`{"skills":[{"name":"plain","description":"d"},{"name":"needs","description":"d","arguments":[{"name":"region","required":true}]},
			{"name":"Quarterly Report (v2)","description":"d"},{"name":"types","description":7,"tags":"no-list"},{"description":"no name"}]}`)
	})
	s.On("skills/get", func(c *mcptest.Call) { c.Result(`{"instructions":"Do it.\n"}`) })
	return s
}

// TestSkillsClient: in both eras, the skills client of the TypeScript SDK lists all good
// skills, whatever bad ones there are, and reads all their files.
func TestSkillsClient(t *testing.T) {
	l := nodeLab(t)
	dir := t.TempDir()
	for name, text := range bundle {
		write(t, filepath.Join(dir, "mail", "triage", filepath.FromSlash(name)), text)
	}
	write(t, filepath.Join(dir, "numbers", "SKILL.md"),
		"---\nname: numbers\ndescription: Odd.\nversion: 1.5\nflag: yes\nmetadata:\n  version: \"2.0\"\n---\n")
	write(t, filepath.Join(dir, "null", "SKILL.md"),
		"---\nname: \"null\"\ndescription: Breaks the format.\nmetadata:\n---\n")
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	g, err := rig.StartGateway(ctx, rig.GatewayConfig{Binary: l.gateway, Dir: t.TempDir(), Sections: fmt.Sprintf(
		"skills: {load_tool: true}\nupstreams:\n  - {name: playbooks, skills: %q}\n  - {name: inspector, skills: %q}\n  - {name: router, skills: %q}\n  - {name: bad, url: %q}\n  - {name: old, url: %q}\n",
		dir, l.node.Module("@modelcontextprotocol", "inspector", "skills"),
		l.node.Module("@tanstack", "router-core", "skills"), badServer(t).URL, oldServer(t).URL)})
	if err != nil {
		t.Fatal(err)
	}
	l.own(t, "the gateway", g.Process)
	if err := g.WaitTools(ctx, "load_skill"); err != nil {
		t.Fatal(err)
	}
	for mode, version := range map[string]string{"legacy": stateful, stateless: stateless} {
		t.Run(version, func(t *testing.T) {
			var report struct {
				Version       string
				DirectoryRead bool
				Skills        []struct {
					URI             string
					Files, Children []string
				}
				Failures []string
			}
			if err := json.Unmarshal(l.script(t, "skills.mjs", mode, g.URL), &report); err != nil {
				t.Fatal(err)
			}
			for _, failure := range report.Failures {
				t.Error(failure)
			}
			if report.Version != version || !report.DirectoryRead {
				t.Errorf("negotiated %s, directories can be read: %t", report.Version, report.DirectoryRead)
			}
			var uris []string
			for _, s := range report.Skills {
				if !strings.HasPrefix(s.URI, "skill://router/router-core/") || s.URI == "skill://router/router-core/SKILL.md" {
					uris = append(uris, s.URI) // their author decides how many skills another skill contains
				}
				if len(s.Children) == 0 {
					t.Errorf("%s has no children", s.URI)
				}
				if s.URI == triage+"/SKILL.md" && len(s.Files) != len(bundle) {
					t.Errorf("of the bundle %q are verified", s.Files)
				}
			}
			slices.Sort(uris)
			want := []string{"skill://bad/good/SKILL.md", "skill://inspector/mcpdo/SKILL.md", "skill://old/needs/SKILL.md",
				"skill://old/plain/SKILL.md", "skill://router/router-core/SKILL.md"}
			for _, uri := range want {
				if !slices.Contains(uris, uri) {
					t.Errorf("%s is not listed", uri)
				}
			}
			if len(uris) != len(want)+3 { // the two of the directory, and the report
				t.Errorf("listed are %q", uris)
			}
		})
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// script runs a script with the pinned Node and returns its output.
func (l *lab) script(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.node.Binary, append([]string{l.node.File(name)}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		failed := new(exec.ExitError)
		errors.As(err, &failed)
		t.Fatalf("%v\n%s", err, failed.Stderr)
	}
	return out
}
