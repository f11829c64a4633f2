//go:build interop

package interop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// bundle is a typical skill: instructions, a text, a script, a picture, and a tool of
// another upstream that it needs.
var bundle = map[string]string{
	"SKILL.md": "---\nname: triage\ndescription: Sorts what came in. Use it before anything is answered.\nlicense: MIT\n" +
		"metadata:\n  version: \"2.0\"\n  tags: mail, support\n  gatehouse.tools: everything/echo everything/no-such-tool\n---\n# Triage\n\nRead [the order](references/order.md) first.\n",
	"references/order.md": "1. grüße 😀\r\n2. bugs\n",
	"scripts/count.sh":    "#!/bin/sh\nwc -l \"$@\"\n",
	"assets/seal.png":     "\x89PNG\r\n\x1a\n\x00\x00\xff\xfe",
}

// skillEntry is an entry of skills/list.
type skillEntry struct {
	URI, Name    string
	Frontmatter  map[string]any
	Resources    []skillFile
	Dependencies struct{ Tools []string }
}

type skillFile struct {
	URI, Name, Digest, MimeType string
	Size                        int
}

// trySkills has the TypeScript and Python SDKs read a skill from a directory, from the list
// to the bytes of its last file.
func (l *lab) trySkills(t *testing.T, upstreams []upstream) {
	dir := t.TempDir()
	for name, text := range bundle {
		file := filepath.Join(dir, "mail", "triage", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	i := slices.IndexFunc(upstreams, func(u upstream) bool { return u.name == "everything" })
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	g, err := rig.StartGateway(ctx, rig.GatewayConfig{
		Binary: l.gateway, Dir: t.TempDir(), Sections: upstreamsSection(t,
			upstreams[i:i+1]) + fmt.Sprintf("  - {name: playbooks, skills: %q}\n", dir),
	})
	if err != nil {
		t.Fatal(err)
	}
	l.own(t, "the gateway", g.Process)
	if err := g.WaitTools(ctx, "everything__echo"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []client{
		{name: "TypeScript SDK v1", sdk: "v1", mode: "legacy", version: stateful},
		{name: "TypeScript SDK v2 legacy", sdk: "v2", mode: "legacy", version: stateful},
		{name: "TypeScript SDK v2 pinned", sdk: "v2", mode: stateless, version: stateless},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := l.run(t, c, g.URL, skillSteps())
			if r.Version != c.version || r.Capabilities["skills"] == nil && r.Capabilities["extensions"] == nil {
				t.Errorf("negotiated %q with %s", r.Version, r.Capabilities)
			}
			l.checkSkills(t, r)
		})
	}
	for name, python := range map[string]string{"Python SDK v1": l.python1, "Python SDK v2": l.python2} {
		t.Run(name, func(t *testing.T) { l.checkSkills(t, l.runPython(t, python, g.URL, skillSteps())) })
	}
}

const triage = "skill://playbooks/mail/triage"

// skillSteps returns the steps of a host, in order.
func skillSteps() []step {
	steps := []step{
		{Method: "skills/list"},
		{Method: "skills/get", Params: map[string]any{"uri": triage + "/SKILL.md"}},
		{Method: "skills/get", Params: map[string]any{"name": "playbooks__mail/triage"}},
		{Method: "resources/directory/read", Params: map[string]any{"uri": triage}},
		{Method: "skills/get", Params: map[string]any{"name": "playbooks__nothing"}},
	}
	for _, name := range bundleNames() {
		steps = append(steps, step{Method: "resources/read", Params: map[string]any{"uri": triage + "/" + name}})
	}
	return steps
}

func bundleNames() (names []string) {
	for name := range bundle {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// checkSkills checks the outcomes of skillSteps.
func (l *lab) checkSkills(t *testing.T, r report) {
	t.Helper()
	for i, o := range r.Outcomes {
		if i != 4 {
			o.noError(t)
		}
	}
	list := r.Outcomes[0].Result
	if len(list.Skills) != 1 {
		t.Fatalf("listed are %+v", list.Skills)
	}
	skill := list.Skills[0]
	if skill.URI != triage+"/SKILL.md" || skill.Name != "playbooks__mail/triage" ||
		skill.Frontmatter["name"] != "triage" || skill.Frontmatter["license"] != "MIT" ||
		!slices.Equal(skill.Dependencies.Tools, []string{"everything__echo"}) {
		t.Errorf("the skill is %+v", skill)
	}
	var files []string
	digests := map[string]skillFile{}
	for _, f := range skill.Resources {
		files = append(files, strings.TrimPrefix(f.URI, triage+"/"))
		digests[f.URI] = f
	}
	if slices.Sort(files); !slices.Equal(files, bundleNames()) {
		t.Errorf("its files are %q, want %q", files, bundleNames())
	}
	if got := r.Outcomes[1].Result.Skill; got.URI != skill.URI || !slices.Equal(got.Resources, skill.Resources) {
		t.Errorf("by its URI it is %+v", got)
	}
	if got := r.Outcomes[2].Result; !strings.HasPrefix(got.Instructions, "# Triage\n") || len(got.Files) != len(bundle)-1 {
		t.Errorf("by its name it is %+v", got)
	}
	if got := r.Outcomes[3].Result.Resources; len(got) != 4 || got[1].Name != "assets" ||
		got[1].MimeType != "inode/directory" {
		t.Errorf("the directory has %+v", got)
	}
	r.Outcomes[4].wantError(t, -32602)
	for i, name := range bundleNames() {
		contents := r.Outcomes[5+i].Result.Contents
		if len(contents) != 1 {
			t.Fatalf("%s: %+v", name, contents)
		}
		content := []byte(contents[0].Text)
		if contents[0].Blob != "" {
			var err error
			if content, err = base64.StdEncoding.DecodeString(contents[0].Blob); err != nil {
				t.Fatal(err)
			}
		}
		sum := sha256.Sum256(content)
		f := digests[triage+"/"+name]
		if string(content) != bundle[name] || f.Digest != "sha256:"+hex.EncodeToString(sum[:]) || f.Size != len(content) {
			t.Errorf("%s is %q, listed as %+v", name, content, f)
		}
	}
}

// runPython runs a client of the Python SDK, internal/interop/python/client.py.
func (l *lab) runPython(t *testing.T, python, url string, steps []step) (r report) {
	t.Helper()
	input, err := json.Marshal(steps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-B", l.checkout.Path("internal", "interop", "python", "client.py"), url)
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	if err := json.Unmarshal(out, &r); err != nil || len(r.Outcomes) != len(steps) {
		t.Fatalf("the client wrote %q: %v", out, err)
	}
	return r
}
