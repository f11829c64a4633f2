package skilldir

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// link makes links of files below dir.
func link(t testing.TB, dir string, links map[string]string) {
	t.Helper()
	for name, to := range links {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
}

// filesOf are the paths of the files of a skill, as its record has them.
func filesOf(t testing.TB, d *Dir, key string) (paths []string) {
	t.Helper()
	reply, err := ask(t, d, mcp.MethodSkillsList, "", "{}")
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range reply.List.Items {
		if item.Name != key {
			continue
		}
		files, _ := item.Raw.Member("resources")
		files.Elements(func(f mcp.Raw) bool {
			uri, _ := f.Member("uri")
			paths = append(paths, strings.TrimPrefix(uri.Text(), "skill://"+key+"/"))
			return true
		})
	}
	return paths
}

// TestSkillsWithinSkills: each has an entry, its files are files of those around it, and
// what is wrong with the one is not wrong with the other.
func TestSkillsWithinSkills(t *testing.T) {
	d := newSkillDir(t, writeSkills(t, map[string]string{
		"outer/SKILL.md": skillMD("outer", ""), "outer/a.md": "a", "outer/lib/inner/SKILL.md": skillMD("inner", ""),
		"outer/lib/inner/b.md":          "b",
		"outer/lib/inner/deep/SKILL.md": skillMD("deep", ""),
		"broken/SKILL.md":               "no frontmatter", "broken/good/SKILL.md": skillMD("good", ""),
		"maker/SKILL.md": skillMD("maker", ""), "maker/template/SKILL.md": skillMD("your-name-here", ""),
		"maker/template/c.md": "c",
	}))
	reply, err := ask(t, d, mcp.MethodSkillsList, "", "{}")
	if err != nil {
		t.Fatal(err)
	}
	var listed, withheld []string
	for _, item := range reply.List.Items {
		if _, ok := item.Raw.Member("frontmatter"); ok {
			listed = append(listed, item.Name)
		} else {
			withheld = append(withheld, item.Name)
		}
	}
	if want := []string{"broken/good", "maker", "outer", "outer/lib/inner",
		"outer/lib/inner/deep"}; !slices.Equal(listed, want) {
		t.Errorf("listed %q, want %q", listed, want)
	}
	if want := []string{"maker/template"}; !slices.Equal(withheld, want) {
		t.Errorf("named without an entry %q, want %q: policy has to know that it is there", withheld, want)
	}
	for key, want := range map[string][]string{
		"outer":           {"SKILL.md", "a.md", "lib/inner/SKILL.md", "lib/inner/b.md", "lib/inner/deep/SKILL.md"},
		"outer/lib/inner": {"SKILL.md", "b.md", "deep/SKILL.md"},
		"maker":           {"SKILL.md", "template/SKILL.md", "template/c.md"},
	} {
		if got := filesOf(t, d, key); !slices.Equal(got, want) {
			t.Errorf("files of %s: %q, want %q", key, got, want)
		}
	}
	for _, name := range []string{"broken", "maker/template"} {
		if d.Status().SkippedSkills[name] == "" {
			t.Errorf("nobody is told that %s is left out", name)
		}
	}
	for _, tt := range []struct {
		uri, decided string
		want         bool
	}{
		{"skill://outer/lib/inner/b.md", "outer/lib/inner", true},
		{"skill://outer/lib/inner/b.md", "outer", false},
		{"skill://outer/a.md", "outer", true},
		{"skill://outer/lib/inner/deep/SKILL.md", "outer/lib/inner", false},
		{"skill://maker/template/c.md", "maker", false},
		{"skill://maker/template/c.md", "maker/template", true},
	} {
		_, err := d.Handle(t.Context(), &mcp.Call{Method: mcp.MethodResourcesRead, Name: tt.uri,
			Target: mcp.Target{Kind: mcp.KindSkills, Upstream: "pb", Name: tt.decided, File: tt.uri}})
		if (err == nil) != tt.want {
			t.Errorf("%s, decided on as a file of %s: %v", tt.uri, tt.decided, err)
		}
	}
	if _, err := d.Handle(t.Context(), &mcp.Call{Method: mcp.MethodResourcesRead, Name: "skill://outer/a.md",
		Target: mcp.Target{Kind: mcp.KindResources, Upstream: "pb", Name: "skill://outer/a.md"}}); err == nil {
		t.Error("a file of a skill is read that was decided on as a resource")
	}
}

// TestNamesOfDirectoriesOfSkills: above skills, and within them, a directory may have any
// name that has one URI.
func TestNamesOfDirectoriesOfSkills(t *testing.T) {
	names := map[string]string{ // of directories, and how they stand in URIs
		"(web-automation)": "(web-automation)", "two words": "two%20words", "[x]": "%5Bx%5D", "a+b, c=d&e": "a+b,%20c=d&e",
		"né":    "n%C3%A9",
		"star*": "star%2A", "100!": "100%21", "a#b?c": "a%23b%3Fc", "at@x:y": "at%40x%3Ay", "{z}": "%7Bz%7D",
		"\"q\"": "%22q%22",
	}
	files := map[string]string{"top/a:b@c/deep/SKILL.md": skillMD("deep", "")}
	for name := range names {
		files[name+"/refunds/SKILL.md"], files[name+"/refunds/a (1).md"] = skillMD("refunds", ""), name
	}
	for _, name := range []string{"100%", `back\slash`, "new\nline", "bad\xff"} {
		files[name+"/refunds/SKILL.md"] = skillMD("refunds", "")
	}
	d := newSkillDir(t, writeSkills(t, files))
	keys := keysOf(t, d)
	if !slices.Contains(keys, "top/a:b@c/deep") {
		t.Errorf("skills %q: behind the first directory nothing of a host has to be told apart", keys)
	}
	for name, encoded := range names {
		key := encoded + "/refunds"
		if !slices.Contains(keys, key) {
			t.Errorf("%q: no skill %q in %q", name, key, keys)
			continue
		}
		reply, err := ask(t, d, mcp.MethodResourcesRead, "skill://"+key+"/a%20(1).md", "{}")
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if _, got := content(t, reply); string(got) != name {
			t.Errorf("%q: read %q", name, got)
		}
	}
	if len(keys) != len(names)+1 {
		t.Errorf("skills %q", keys)
	}
	for _, name := range []string{"100%", `back\slash`, "new\nline", "bad\ufffd"} {
		if !strings.Contains(d.Status().SkippedSkills[name], "its name has") {
			t.Errorf("nobody is told why %q is left out: %q", name, d.Status().SkippedSkills)
		}
	}
}

// TestByteOrderMark: some editors put one in front.
func TestByteOrderMark(t *testing.T) {
	d := newSkillDir(t, writeSkills(t, map[string]string{"marked/SKILL.md": "\ufeff" + skillMD("marked", "")}))
	if got := keysOf(t, d); !slices.Equal(got, []string{"marked"}) {
		t.Fatalf("skills %q: %q", got, d.Status().SkippedSkills)
	}
	reply, err := ask(t, d, mcp.MethodResourcesRead, "skill://marked/SKILL.md", "{}")
	if err != nil {
		t.Fatal(err)
	}
	if _, got := content(t, reply); !strings.HasPrefix(string(got), "\ufeff---") {
		t.Errorf("its bytes are others: %q", got)
	}
}

// TestMountsOfKubernetes: of a ConfigMap everything is a link through ..data.
func TestMountsOfKubernetes(t *testing.T) {
	dir := writeSkills(t, map[string]string{
		"..2026_01/refunds/SKILL.md": skillMD("refunds", ""), "..2026_01/refunds/a.md": "one",
		"..2026_01/acme/billing/SKILL.md": skillMD("billing", ""),
		"..2026_02/refunds/SKILL.md":      skillMD("refunds", ""), "..2026_02/refunds/a.md": "two",
		"..2026_02/acme/billing/SKILL.md": skillMD("billing", ""),
		"single/..2026_03/SKILL.md":       skillMD("single", ""), "single/..2026_03/b.md": "b",
	})
	link(t, dir, map[string]string{
		"..data": "..2026_01", "refunds": "..data/refunds", "acme": "..data/acme",
		"single/..data": "..2026_03", "single/SKILL.md": "..data/SKILL.md", "single/b.md": "..data/b.md",
	})
	d := newSkillDir(t, dir)
	if got, want := keysOf(t, d), []string{"acme/billing", "refunds", "single"}; !slices.Equal(got, want) {
		t.Fatalf("skills %q, want %q: %q", got, want, d.Status().SkippedSkills)
	}
	if got := filesOf(t, d, "single"); !slices.Equal(got, []string{"SKILL.md", "b.md"}) {
		t.Errorf("files %q", got)
	}
	read := func() string {
		t.Helper()
		reply, err := ask(t, d, mcp.MethodResourcesRead, "skill://refunds/a.md", "{}")
		if err != nil {
			t.Fatal(err)
		}
		_, got := content(t, reply)
		return string(got)
	}
	if got := read(); got != "one" {
		t.Errorf("read %q", got)
	}
	link(t, dir, map[string]string{"..data_tmp": "..2026_02"})
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "..2026_01")); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "two" {
		t.Errorf("after the swap: read %q", got)
	}
	if len(d.Status().SkippedSkills) != 0 {
		t.Errorf("left out: %q", d.Status().SkippedSkills)
	}
}

// TestLinksWithinTheDirectory: a link is followed unless somebody could have by it what
// policy keeps from them under its own path.
func TestLinksWithinTheDirectory(t *testing.T) {
	dir := writeSkills(t, map[string]string{
		"good/SKILL.md": skillMD("good", ""), "good/a.md": "a", "good/sub/b.md": "b",
		"good/inner/SKILL.md": skillMD("inner", ""),
		"secret/SKILL.md":     skillMD("secret", ""), "secret/key.md": "key", "shared/license.md": "free",
		"shared/more/x.md": "x", ".git/config": "c",
		"group/one/SKILL.md": skillMD("one", ""),
	})
	link(t, dir, map[string]string{
		"good/same.md": "a.md", "good/same": "sub", "good/license.md": "../shared/license.md", "good/shared": "../shared",
		"good/twice.md": "same.md",
		"good/key.md":   "../secret/key.md", "good/secret": "../secret", "good/back": "..", "good/me": ".",
		"good/config": "../.git/config", "good/nested": "inner",
		"good/group": "../group", "alias": "good", "groups": "group", "secret/chain.md": "../good/key.md",
		"good/inner/up.md": "../a.md", "good/into.md": "inner/SKILL.md",
	})
	d := newSkillDir(t, dir)
	if got, want := keysOf(t, d), []string{"good", "good/inner", "group/one", "secret"}; !slices.Equal(got, want) {
		t.Errorf("skills %q, want %q", got, want)
	}
	want := []string{"SKILL.md", "a.md", "inner/SKILL.md", "license.md", "same.md", "same/b.md", "shared/license.md",
		"shared/more/x.md", "sub/b.md", "twice.md"}
	if got := filesOf(t, d, "good"); !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	if got, want := filesOf(t, d, "secret"), []string{"SKILL.md", "chain.md", "key.md"}; !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	skipped := d.Status().SkippedSkills
	for _, name := range []string{"good/key.md", "good/secret", "good/back", "good/me", "good/config", "good/nested",
		"good/group/one", "alias", "groups", "good/inner/up.md", "good/into.md"} {
		if !strings.Contains(skipped[name], "link") {
			t.Errorf("nobody is told that %s is left out: %q", name, skipped[name])
		}
	}
}

// TestLinkSwappedWhileReading: what became a link to somewhere else after it was listed is
// not read, wherever it leads.
func TestLinkSwappedWhileReading(t *testing.T) {
	outside := writeSkills(t, map[string]string{"a.md": "one"})
	dir := writeSkills(t, map[string]string{"good/SKILL.md": skillMD("good", ""), "good/real/a.md": "one",
		"other/SKILL.md": skillMD("other", ""), "other/a.md": "one"})
	link(t, dir, map[string]string{"good/a.md": "real/a.md"})
	d := newSkillDir(t, dir)
	if _, err := ask(t, d, mcp.MethodResourcesRead, "skill://good/a.md", "{}"); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{filepath.Join(outside, "a.md"), "../other/a.md",
		"../../" + filepath.Base(outside) + "/a.md"} {
		for _, name := range []string{"good/a.md", "good/real/a.md"} {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		writeFile(t, dir, "good/real/", "")
		link(t, dir, map[string]string{"good/a.md": "real/a.md", "good/real/a.md": to})
		if reply, err := ask(t, d, mcp.MethodResourcesRead, "skill://good/a.md", "{}"); err == nil {
			t.Errorf("a link to %s is read: %s", to, reply.Result)
		}
	}
}

// BenchmarkLookAt2000Skills is a look at a directory in which nothing has changed.
func BenchmarkLookAt2000Skills(b *testing.B) {
	dir := manySkills(b)
	last, err := readDir(b.Context(), dir, new(snapshot))
	if err != nil || len(last.skills) != maxSkills {
		b.Fatal(err)
	}
	for b.Loop() {
		if last, err = readDir(b.Context(), dir, last); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(last.files)), "files/op")
	b.ReportMetric(100*float64(b.Elapsed())/float64(b.N)/float64(restAfter(b.Elapsed()/time.Duration(b.N))), "%/core")
}

// manySkills is a directory of as many skills as there may be.
func manySkills(t testing.TB) (dir string) {
	files := make(map[string]string, maxSkills)
	for i := range maxSkills {
		name := fmt.Sprintf("s%05d", i)
		files[name+"/SKILL.md"] = skillMD(name, "")
	}
	return writeSkills(t, files)
}
