package skilldir

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/skillmd"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// writeSkills writes files below a new directory; names that end in / are directories.
func writeSkills(t testing.TB, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		writeFile(t, dir, name, content)
	}
	return dir
}

func writeFile(t testing.TB, dir, name, content string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(name, "/") {
		if err := os.MkdirAll(file, 0o755); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func skillMD(name, more string) string {
	return "---\nname: " + name + "\ndescription: What " + name + " is for.\n" + more + "---\n# " + name + "\n\nDo it.\n"
}

func newSkillDir(t testing.TB, dir string) *Dir {
	t.Helper()
	d, err := New(upstream.Config{Name: "pb", Skills: dir}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func ask(t testing.TB, d *Dir, method, name, params string) (*mcp.Reply, error) {
	t.Helper()
	return d.Handle(t.Context(), &mcp.Call{Method: method, Name: name, Params: mcp.Raw(params),
		Notify: func(mcp.Event) {}})
}

// keysOf are the keys of the skills that are listed.
func keysOf(t testing.TB, d *Dir) (keys []string) {
	t.Helper()
	reply, err := ask(t, d, mcp.MethodSkillsList, "", "{}")
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range reply.List.Items {
		keys = append(keys, item.Name)
	}
	return keys
}

// content reads a file back from what resources/read answers.
func content(t testing.TB, reply *mcp.Reply) (media string, bytes []byte) {
	t.Helper()
	contents, _ := reply.Result.Member("contents")
	contents.Elements(func(c mcp.Raw) bool {
		kind, _ := c.Member("mimeType")
		media = kind.Text()
		if text, ok := c.Member("text"); ok {
			bytes = []byte(text.Text())
			return false
		}
		blob, _ := c.Member("blob")
		var err error
		if bytes, err = base64.StdEncoding.DecodeString(blob.Text()); err != nil {
			t.Fatal(err)
		}
		return false
	})
	return media, bytes
}

func TestFilesAreTheBytesOfTheirDigests(t *testing.T) {
	binary := "\x89PNG\r\n\x1a\n\x00\xff\xfe"
	files := map[string]string{
		"refunds/SKILL.md":                    skillMD("refunds", ""),
		"refunds/references/a b ü.md":         "grüße\u2028\r\n\x01\ufeff",
		"refunds/assets/logo.png":             binary,
		"refunds/scripts/run":                 "#!/bin/sh\n",
		"refunds/data.bin":                    "a\x00b",
		"refunds/empty.txt":                   "",
		"refunds/.hidden":                     "no",
		"refunds/nested/SKILL.md":             skillMD("nested", ""),
		"acme/billing/chargebacks/SKILL.md":   "---\r\nname: chargebacks\r\ndescription: d\r\n---\r\nBody\r\n",
		"acme/billing/chargebacks/notes.yaml": "a: 1\n",
	}
	d := newSkillDir(t, writeSkills(t, files))
	if got, want := keysOf(t, d), []string{"acme/billing/chargebacks", "refunds",
		"refunds/nested"}; !slices.Equal(got, want) {
		t.Fatalf("skills %q, want %q: a SKILL.md within a skill is one, too", got, want)
	}
	reply, err := ask(t, d, mcp.MethodSkillsList, "", "{}")
	if err != nil {
		t.Fatal(err)
	}
	read := make(map[string]bool)
	for _, item := range reply.List.Items {
		resources, _ := item.Raw.Member("resources")
		resources.Elements(func(f mcp.Raw) bool {
			uri, _ := f.Member("uri")
			digest, _ := f.Member("digest")
			size, _ := f.Member("size")
			reply, err := ask(t, d, mcp.MethodResourcesRead, uri.Text(), "{}")
			if err != nil {
				t.Errorf("%s: %v", uri, err)
				return true
			}
			_, got := content(t, reply)
			sum := sha256.Sum256(got)
			if want := "sha256:" + hex.EncodeToString(sum[:]); digest.Text() != want || string(size) != fmt.Sprint(len(got)) {
				t.Errorf("%s has %s and %s, its bytes %s and %d", uri, digest, size, want, len(got))
			}
			read[uri.Text()] = true
			return true
		})
	}
	for name, want := range files {
		uri := fileURI(name)
		if name == "refunds/.hidden" {
			if read[uri] {
				t.Error("what is hidden is listed")
			}
			continue
		}
		reply, err := ask(t, d, mcp.MethodResourcesRead, uri, "{}")
		if err != nil || !read[uri] {
			t.Errorf("%s: listed %t, %v", uri, read[uri], err)
			continue
		}
		if _, got := content(t, reply); string(got) != want {
			t.Errorf("%s: %q, want %q", uri, got, want)
		}
	}
	for uri, want := range map[string]string{
		"skill://refunds/SKILL.md": "text/markdown", "skill://refunds/assets/logo.png": "image/png",
		"skill://refunds/data.bin": "application/octet-stream", "skill://refunds/scripts/run": "text/plain",
	} {
		reply, err := ask(t, d, mcp.MethodResourcesRead, uri, "{}")
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := content(t, reply); got != want {
			t.Errorf("%s is %s, want %s", uri, got, want)
		}
	}
}

func TestNoPathLeavesTheDirectory(t *testing.T) {
	outside := writeSkills(t, map[string]string{"secret.txt": "secret", "evil/SKILL.md": skillMD("evil", "")})
	dir := writeSkills(t, map[string]string{
		"good/SKILL.md": skillMD("good", ""), "good/a.txt": "a", "other/SKILL.md": skillMD("other", ""), "loose.txt": "x",
	})
	links := map[string]string{
		"linked": filepath.Join(outside, "evil"), "good/secret.txt": filepath.Join(outside, "secret.txt"), "good/up": "../..",
		"good/absolute.txt": filepath.Join(dir, "good", "a.txt"), "good/dir": outside, "up": "..", "good/loop": "loop",
		"good/nothing": "none",
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, dir, "hard/", "")
	if err := os.Symlink(filepath.Join(outside, "evil", "SKILL.md"), filepath.Join(dir, "hard", "SKILL.md")); err != nil {
		t.Fatal(err)
	}
	if err := mkfifo(filepath.Join(dir, "good", "pipe")); err != nil {
		t.Fatal(err)
	}
	d := newSkillDir(t, dir)
	if got, want := keysOf(t, d), []string{"good", "other"}; !slices.Equal(got, want) {
		t.Errorf("skills %q, want %q", got, want)
	}
	skipped := d.Status().SkippedSkills
	for _, name := range []string{"linked", "good/secret.txt", "good/up", "good/absolute.txt", "good/dir", "up", "hard",
		"good/pipe", "good/loop", "good/nothing"} {
		if skipped[name] == "" {
			t.Errorf("nobody is told that %s is left out: %q", name, skipped)
		}
	}
	for _, uri := range []string{
		"skill://good/secret.txt", "skill://good/../loose.txt", "skill://good/%2e%2e/loose.txt", "skill://loose.txt",
		"skill://good/up/good/a.txt",
		"skill://good//a.txt", "skill://good/./a.txt", "skill://GOOD/a.txt", "skill://good/A.TXT", "skill://good/%61.txt",
		"skill:///good/a.txt",
		"file://" + dir + "/good/a.txt", dir + "/good/a.txt", "good/a.txt", "skill://good", "skill://good/",
		"skill://linked/SKILL.md",
		"skill://hard/SKILL.md", "skill://good/pipe", "skill://good/a.txt?x", "skill://good/a.txt#x",
		"skill://good/a.txt\x00",
	} {
		if reply, err := ask(t, d, mcp.MethodResourcesRead, uri, "{}"); err == nil {
			t.Errorf("%q is read: %s", uri, reply.Result)
		}
		if reply, err := ask(t, d, mcp.MethodSkillsGet, uri, string(mcp.Object("uri", mcp.String(uri)))); err == nil {
			t.Errorf("%q is a skill: %s", uri, reply.Result)
		}
	}
}

// TestReadingWhatWasSwapped: a file that becomes a link after it was listed is not read.
func TestReadingWhatWasSwapped(t *testing.T) {
	outside := writeSkills(t, map[string]string{"a.txt": "a"})
	dir := writeSkills(t, map[string]string{"good/SKILL.md": skillMD("good", ""), "good/a.txt": "a",
		"good/sub/b.txt": "b"})
	d := newSkillDir(t, dir)
	keysOf(t, d)
	swap := func(name, to string) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	swap("good/a.txt", filepath.Join(outside, "a.txt")) // the same bytes, even
	swap("good/sub", outside)
	for _, uri := range []string{"skill://good/a.txt", "skill://good/sub/b.txt"} {
		if reply, err := ask(t, d, mcp.MethodResourcesRead, uri, "{}"); err == nil {
			t.Errorf("%s is read: %s", uri, reply.Result)
		}
	}
}

func TestBrokenSkillsHideNoOthers(t *testing.T) {
	deep := strings.Repeat("[", 5000)
	broken := map[string]string{
		"no-dashes":      "name: no-dashes\n",
		"no-end":         "---\nname: no-end\ndescription: d\n",
		"no-name":        "---\ndescription: d\n---\n",
		"no-description": "---\nname: no-description\n---\n",
		"other-name":     skillMD("another", ""),
		"Upper":          skillMD("Upper", ""),
		"double--dash":   skillMD("double--dash", ""),
		"number":         "---\nname: 123\ndescription: d\n---\n",
		"long":           "---\nname: long\ndescription: " + strings.Repeat("x", 1025) + "\n---\n",
		"empty":          "---\nname: empty\ndescription: \"  \"\n---\n",
		"bad-utf8":       skillMD("bad-utf8", "") + "\xff",
		"alias":          "---\nname: alias\ndescription: &a d\nmetadata: {x: *a}\n---\n",
		"bomb":           "---\nname: bomb\ndescription: d\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b]\n---\n",
		"merge":          "---\nname: merge\ndescription: d\n<<: {license: x}\n---\n",
		"tagged":         "---\nname: tagged\ndescription: !!str d\n---\n",
		"twice":          "---\nname: twice\ndescription: d\nmetadata: {a: 1, a: 2}\n---\n",
		"deep":           "---\nname: deep\ndescription: d\nx: " + deep + "\n---\n",
		"nested": "---\nname: nested\ndescription: d\nx: " +
			strings.Repeat("[", 9) + strings.Repeat("]", 9) + "\n---\n",
		"documents":  "---\nname: documents\ndescription: d\n...\na: b\n---\n",
		"keys":       "---\nname: keys\ndescription: d\n1: 2\n---\n",
		"not-finite": "---\nname: not-finite\ndescription: d\nx: .inf\n---\n",
		"list":       "---\n- name: list\n---\n",
		"metadata":   "---\nname: metadata\ndescription: d\nmetadata: {a: {b: c}}\n---\n",
		"compat":     "---\nname: compat\ndescription: d\ncompatibility: " + strings.Repeat("x", 501) + "\n---\n",
		"wide":       "---\nname: wide\ndescription: d\nx: [" + strings.Repeat("1,", 3000) + "1]\n---\n",
		"huge-head":  "---\nname: huge-head\ndescription: d\nx: " + strings.Repeat("x", 64<<10) + "\n---\n",
		"huge":       skillMD("huge", "") + strings.Repeat("x", skillmd.MaxText),
		"binary":     "\x00\x01\x02",
		"tabs":       "---\nname: tabs\n\tdescription: d\n---\n",
		"nothing":    "",
	}
	files := map[string]string{"good/SKILL.md": skillMD("good", ""), "lower/skill.md": skillMD("lower", ""),
		"SKILL.md": skillMD("root", ""), "100%/x/SKILL.md": skillMD("x", "")}
	for name, text := range broken {
		files[name+"/SKILL.md"] = text
	}
	dir := writeSkills(t, files)
	var log bytes.Buffer
	d, err := New(upstream.Config{Name: "pb", Skills: dir}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if got := keysOf(t, d); !slices.Equal(got, []string{"good"}) {
		t.Errorf("skills %q, want good alone", got)
	}
	skipped := d.Status().SkippedSkills
	for _, name := range append(slices.Collect(maps.Keys(broken)), "lower/skill.md", "SKILL.md", "100%") {
		if skipped[name] == "" {
			t.Errorf("nobody is told that %s is left out", name)
		}
		if why := skipped[name]; strings.Contains(why, dir) || len(why) > 300 {
			t.Errorf("%s: %q", name, why)
		}
	}
	if !strings.Contains(log.String(), "skill or file left out") ||
		!strings.Contains(log.String(), "more skills or files left out") {
		t.Errorf("the log says %s", log.String())
	}
}

func TestBoundsOfASkill(t *testing.T) {
	files := map[string]string{"good/SKILL.md": skillMD("good", ""), "many/SKILL.md": skillMD("many", ""),
		"large/SKILL.md": skillMD("large", ""), "down/SKILL.md": skillMD("down", ""), "odd/SKILL.md": skillMD("odd", "")}
	for i := range skillmd.MaxFiles {
		files[fmt.Sprintf("many/f%d", i)] = ""
	}
	for i := range 3 {
		files[fmt.Sprintf("large/f%d", i)] = strings.Repeat("x", 6<<20)
	}
	files["down/"+strings.Repeat("d/", maxDepth+1)+"x"] = "x"
	files["odd/100%.txt"], files["odd/bad\xff.txt"], files["odd/new\nline"] = "", "", ""
	d := newSkillDir(t, writeSkills(t, files))
	if got := keysOf(t, d); !slices.Equal(got, []string{"good", "odd"}) {
		t.Errorf("skills %q", got)
	}
	skipped := d.Status().SkippedSkills
	for name, want := range map[string]string{"many": "512 files", "large": "bytes together", "down": "directories deep",
		"odd/100%.txt": "its name has"} {
		if !strings.Contains(skipped[name], want) {
			t.Errorf("%s: %q, want %q in it", name, skipped[name], want)
		}
	}
}

func TestTenThousandSkills(t *testing.T) {
	mcptest.Long(t)
	files := make(map[string]string)
	name := func(i int) string { return fmt.Sprintf("s%05d", i) }
	for i := range maxSkills {
		files[name(i)+"/SKILL.md"] = skillMD(name(i), "")
	}
	dir := writeSkills(t, files)
	for i := maxSkills; i < 10_000; i++ { // one file, which is quicker to write
		if err := os.Mkdir(filepath.Join(dir, name(i)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(filepath.Join(dir, name(0), "SKILL.md"), filepath.Join(dir, name(i), "SKILL.md")); err != nil {
			t.Fatal(err)
		}
	}
	d := newSkillDir(t, dir)
	if got := len(keysOf(t, d)); got != maxSkills {
		t.Errorf("%d skills, want %d", got, maxSkills)
	}
	skipped := d.Status().SkippedSkills
	if want := "6000 more skills or files are left out"; len(skipped) != maxSkipped+1 || skipped["(more)"] != want {
		t.Errorf("%d are named, and %q; want %d and %q", len(skipped), skipped["(more)"], maxSkipped, want)
	}
}

func TestSkillRecord(t *testing.T) {
	d := newSkillDir(t, writeSkills(t, map[string]string{"refunds/SKILL.md": `---
name: refunds
description: "Refunds: when and how"
license: Apache-2.0
allowed-tools: Bash(git:*) Read
metadata:
  version: "2.1.0"
  tags: money, support
  owner: billing
  gatehouse.tools: crm/refund ops/notify
  gatehouse.prompts: crm/ask
  gatehouse.resources: crm/file:///rules.md
since: 2026-01-02
count: 3
ratio: 0.5
flags: [true, null, ~]
---
Refund it.
`, "refunds/a.md": "x"}))
	reply, err := ask(t, d, mcp.MethodSkillsList, "", "{}")
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"refunds","description":"Refunds: when and how","version":"2.1.0","tags":["money","support"],` +
		`"dependencies":{"tools":["crm/refund","ops/notify"],"prompts":[{"type":"ref/prompt","name":"crm/ask"}],"resources":[{"type":"ref/resource","uri":"crm/file:///rules.md"}]},` +
		`"uri":"skill://refunds/SKILL.md","frontmatter":{"name":"refunds","description":"Refunds: when and how","license":"Apache-2.0","allowed-tools":"Bash(git:*) Read",` +
		`"metadata":{"version":"2.1.0","tags":"money, support","owner":"billing","gatehouse.tools":"crm/refund ops/notify","gatehouse.prompts":"crm/ask","gatehouse.resources":"crm/file:///rules.md"},` +
		`"since":"2026-01-02","count":3,"ratio":0.5,"flags":[true,null,null]},"resources":[`
	if got := string(reply.List.Items[0].Raw); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	byName, err := ask(t, d, mcp.MethodSkillsGet, "refunds", `{"name":"refunds"}`)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"description":"Refunds: when and how","instructions":"Refund it.\n","dependencies":{"tools":[`; !strings.HasPrefix(string(byName.Result), want) ||
		!strings.HasSuffix(string(byName.Result),
			`"files":[{"name":"a.md","uri":"skill://refunds/a.md","mimeType":"text/markdown"}]}`) {
		t.Errorf("got %s", byName.Result)
	}
	byURI, err := ask(t, d, mcp.MethodSkillsGet, "refunds", `{"uri":"skill://refunds/SKILL.md"}`)
	if err != nil || string(byURI.Result) != `{"skill":`+string(reply.List.Items[0].Raw)+`}` {
		t.Errorf("got %s, %v", byURI.Result, err)
	}
	for name, params := range map[string]string{"none": `{"name":"none"}`, "refunds": `{"uri":"skill://refunds/a.md"}`} {
		if _, err := ask(t, d, mcp.MethodSkillsGet, name, params); err == nil ||
			err.(*mcp.Error).Code != mcp.CodeInvalidParams {
			t.Errorf("%s: %v", params, err)
		}
	}
}

func TestEditsAreNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := writeSkills(t, map[string]string{"refunds/SKILL.md": skillMD("refunds", ""), "refunds/a.md": "one"})
		d := newSkillDir(t, dir)
		var mu sync.Mutex
		var heard []string
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = d.Handle(ctx, &mcp.Call{Method: mcp.MethodListen,
				Params: mcp.Raw(`{"notifications":{"skillsListChanged":true,"resourcesListChanged":true,"toolsListChanged":true}}`), Notify: func(e mcp.Event) {
					mu.Lock()
					defer mu.Unlock()
					heard = append(heard, e.Method)
					if _, other := e.Params.Member("toolsListChanged"); other {
						t.Error("it promises what it has not")
					}
				}})
		}()
		defer func() { cancel(); <-done }()
		wait := func() (got []string) {
			time.Sleep(2 * pollEvery)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			got, heard = heard, nil
			slices.Sort(got)
			return got
		}
		if got := wait(); !slices.Equal(got, []string{mcp.NoteAcknowledged}) {
			t.Errorf("heard %q before anything changed", got)
		}
		digest := func() string {
			reply, err := ask(t, d, mcp.MethodSkillsGet, "refunds", `{"uri":"skill://refunds/SKILL.md"}`)
			if err != nil {
				t.Fatal(err)
			}
			return string(reply.Result)
		}
		both := []string{mcp.NoteResourcesListChanged, mcp.NoteSkillsListChanged}
		for _, change := range []func(){
			func() { writeFile(t, dir, "refunds/a.md", "two") }, // as long as before
			func() { writeFile(t, dir, "refunds/b.md", "new") },
			func() { writeFile(t, dir, "refunds/SKILL.md", skillMD("refunds", "license: MIT\n")) },
			func() { writeFile(t, dir, "more/SKILL.md", skillMD("more", "")) },
			func() { os.RemoveAll(filepath.Join(dir, "more")) },
		} {
			before := digest() + fmt.Sprint(keysOf(t, d))
			change()
			if got := wait(); !slices.Equal(got, both) {
				t.Errorf("heard %q, want %q", got, both)
			}
			if digest()+fmt.Sprint(keysOf(t, d)) == before {
				t.Error("the entry is the same")
			}
		}
		writeFile(t, dir, "refunds/.hidden", "x")
		if got := wait(); got != nil {
			t.Errorf("heard %q of what is not shown", got)
		}
		// What is read between two looks is what the entry will say, or nothing.
		writeFile(t, dir, "refunds/a.md", "three")
		reply, err := ask(t, d, mcp.MethodResourcesRead, "skill://refunds/a.md", "{}")
		if err != nil {
			t.Fatal(err)
		}
		if _, got := content(t, reply); string(got) != "three" || !strings.Contains(digest(), skillmd.Digest(got)) {
			t.Errorf("read %q, which the entry does not know", got)
		}
	})
}

func TestSkillDirIsGone(t *testing.T) {
	dir := writeSkills(t, map[string]string{"a/SKILL.md": skillMD("a", "")})
	d := newSkillDir(t, dir)
	keysOf(t, d)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, err := ask(t, d, mcp.MethodSkillsList, "", "{}")
	if e, ok := err.(*mcp.Error); !ok || e.Code != mcp.CodeUpstreamUnreachable || strings.Contains(e.Message, dir) {
		t.Errorf("got %v", err)
	}
	if got := d.Status(); got.State != upstream.StateDown || got.Last.Error == "" {
		t.Errorf("status %+v", got)
	}
}
