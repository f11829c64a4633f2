package policy

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestLenientSpellings: what is denied or asked about stays so in every spelling that a
// lenient server could take for the same, beside an allow for everything.
func TestLenientSpellings(t *testing.T) {
	spelled := map[string][]string{
		"file:///private/p.txt": {
			"file://127.0.0.1/private/p.txt", "file://[::1]/private/p.txt", "file://any.example/private/p.txt",
			"file://LOCALHOST:80/private/p.txt", "file://private/p.txt", "file://me@private/p.txt",
			"file:///PRIVATE/p.txt", "file:///private/P.TXT", "file:///private/p.txt/", "file:///private/p.txt//",
			"file:///private/p.txt.", "file:///private/p.txt%20", "file:///private/p.txt%20.", "file:///private./p.txt",
			"file:///private;x=1/p.txt", "file:///private/p.txt;x",
			"file:///ｐｒｉｖａｔｅ/p.txt", "file:／／／private／p.txt", "ｆｉｌｅ:///private/p.txt", "file:///private/p．txt",
			"file:///pri\u00advate/p.txt", "file:///pri\u200bvate/p.txt", "file:///pri%C2%ADvate/p.txt",
			"file:///\ufeffprivate/p.txt", "file:///private/p.txt\ufe0f", "file:///private/p%EF%BC%8Etxt",
			"file:///private/p％2etxt", "file:///private/p.txt？x", "file:///private/p.txt＃x",
			"file:///prıvate/p.txt", "file:///PRİVATE/p.txt", "file:///x/．．/private/p.txt", "file:///x/‥/private/p.txt",
			"file:///x/%E2%80%A5/private/p.txt", "file:///x/.\u200b./private/p.txt", "file:///x/%c0%ae%c0%ae/private/p.txt",
			"file:///x%c0%afprivate/p.txt", "file:///x/..%20/private/p.txt", "file:///private＼p.txt",
		},
		"skill://books/secret/SKILL.md": {
			"skill://books/ſecret/SKILL.md", "SKILL://BOOKS/SECRET/skill.md", "skill://books/secret/SKILL.md/",
			"skill://books／secret/SKILL.md", "skill://books/sec\u00adret/SKILL.md", "skill://books/x/．．/secret/SKILL.md",
			"skill://books/secret/S\u212aILL.md",
		},
		"file:///a/": {"file:///a", "file:///A//", "file:///a/"},
		"note://straße/é": {"note://STRASSE/é", "note://strasse/e\u0301", "note://STRASSE/E\u0301",
			"note://stra%C3%9Fe/%C3%A9", "note://straße/é/"},
		"http://internal.example/admin": {
			"http://internal.example/ADMIN", "http://internal.example/admin/", "http://internal.example/admin;x",
			"http://internal.example/admin/?x=1", "http://internal.example/admin?x=1", "http://ｉｎｔｅｒｎａｌ.example/admin",
			"http://internal。example/admin",
		},
	}
	caller := user("alice")
	for denied, forms := range spelled {
		for kind, p := range map[string]*Policy{
			"deny": newForTest(t, Config{Rules: []Rule{{Name: "a", Allow: []string{"resources:*"}},
				{Name: "d", Deny: []string{"resources:u/" + denied}}}}),
			"deny of a tree": newForTest(t, Config{Default: DefaultAllow,
				Rules: []Rule{{Name: "d", Deny: []string{"resources:u/" + strings.TrimRight(denied, "éx/") + "*"}}}}),
			"ask": newForTest(t, Config{Default: DefaultAllow,
				Rules: []Rule{{Name: "q", Ask: []string{"resources:u/" + denied}}}}),
		} {
			for _, form := range append(forms, denied) {
				if form == "http://internal。example/admin" {
					continue // IDNA's own dots: docs/policy.md tells of them
				}
				if got := p.Decide(t.Context(), &caller, resource("u", form), nil); got.Effect == Allow {
					t.Errorf("%s: %+q is allowed", kind, form)
				}
			}
		}
	}
}

// TestLenientFilesOfSkills: what is denied as a resource is so as a file of a skill.
func TestLenientFilesOfSkills(t *testing.T) {
	p := newForTest(t, Config{Rules: []Rule{{Name: "a", Allow: []string{"skills:*"}},
		{Name: "d", Deny: []string{"resources:*/skill://books/secret*"}}}})
	caller := user("alice")
	for file, want := range map[string]Effect{
		"skill://books/open.md": Allow, "skill://books/secret.md": Deny, "skill://books/SECRET.md": Deny,
		"skill://books/ſecret.md": Deny, "skill://books/sec\u00adret.md": Deny, "skill://books/x/．．/secret.md": Deny,
	} {
		target := mcp.Target{Kind: mcp.KindSkills, Upstream: "u", Name: "books", File: file}
		if got := p.Decide(t.Context(), &caller, target, nil); got.Effect != want {
			t.Errorf("%+q: got %v, want %v", file, got.Effect, want)
		}
	}
}

// TestLenientAllow: an allow gains nothing by a spelling, and loses nothing where there
// is but one way to read a URI.
func TestLenientAllow(t *testing.T) {
	p := newForTest(t, Config{Rules: []Rule{{Name: "a",
		Allow: []string{"resources:u/file:///skills/pdf/f*", "resources:u/file:///Docs/*.txt", "resources:u/note://é*",
			"resources:u/file://server/share/*", "resources:u/x://caf*", "resources:u/note://a/b/", "resources:u/note://t*/",
			"resources:u/https://e.example/"}}}})
	caller := user("alice")
	for uri, want := range map[string]Effect{
		"file:///skills/pdf/form.md": Allow, "file:///skills/pdf/form.md/": Allow, "file:///Docs/A;b c.txt": Allow,
		"note://é": Allow, "note://éa": Allow, "file://server/share/x": Allow, "file:///Docs/ﬁ ä.txt": Allow,
		"x://café":    Allow,
		"note://a/b/": Allow, "note://a/b": Deny, "note://a/b//": Deny, "note://A/b/": Deny, "note://t/x/": Allow,
		"note://t/x": Deny, "https://e.example/": Allow,
		"file:///skills/pdf/f/．．/．．/secret": Deny, "file:///skills/pdf/f‥/x": Allow, "file:///skills/pdf/f/‥/‥/secret": Deny,
		"file:///skills/pdf/f%EF%BC%8F%E2%80%A5/x": Deny,
		"file:///docs/a.txt":                       Deny, "file:///Docs/secret.key？.txt": Deny,
		"file:///Docs/secret.key＃.txt": Deny, "file:///skills/pdf／form.md": Deny, "file://127.0.0.1/skills/pdf/form.md": Deny,
		"note://É": Deny, "file:///share/x": Deny,
	} {
		if got := p.Decide(t.Context(), &caller, resource("u", uri), nil); got.Effect != want {
			t.Errorf("%+q: got %v, want %v", uri, got.Effect, want)
		}
	}
}

// TestNoSpellingOfWhatIsDenied writes a denied URI in ways that lenient servers read as
// the same, one upon the other.
func TestNoSpellingOfWhatIsDenied(t *testing.T) {
	denied := []string{"file:///srv/private/keys.txt", "skill://books/secret/SKILL.md", "note://a/b"}
	policies := make(map[string]*Policy)
	for _, uri := range denied {
		policies[uri] = newForTest(t, Config{Default: DefaultAllow,
			Rules: []Rule{{Name: "d", Deny: []string{"resources:u/" + uri}}}})
	}
	caller := user("alice")
	rapid.Check(t, func(rt *rapid.T) {
		original := rapid.SampledFrom(denied).Draw(rt, "denied")
		uri := original
		for range rapid.IntRange(1, 5).Draw(rt, "changes") {
			uri = respelled(rt, uri)
		}
		if got := policies[original].Decide(t.Context(), &caller, resource("u", uri), nil); got.Effect != Deny {
			rt.Fatalf("%+q is allowed as %+q", original, uri)
		}
	})
}

// respelled changes one thing about a URI that some server does not see.
func respelled(rt *rapid.T, uri string) string {
	at := func(what string, in string) int { return rapid.IntRange(0, len(in)-1).Draw(rt, what) }
	head, path, hierarchical := strings.Cut(uri, "://")
	if !hierarchical || path == "" {
		return uri + "/"
	}
	i := at("place", path)
	ascii := path[i] > ' ' && path[i] < 0x7f
	switch rapid.IntRange(0, 9).Draw(rt, "change") {
	case 0:
		return strings.ToUpper(head) + "://" + path
	case 1:
		if isASCII(path) && !strings.Contains(path, "%") {
			return head + "://" + strings.ToUpper(path)
		}
	case 2:
		return fmt.Sprintf("%s://%s%%%02x%s", head, path[:i], path[i], path[i+1:])
	case 3:
		if ascii && isASCII(path) && path[i] != '%' && !strings.Contains(path, "%") {
			return head + "://" + path[:i] + string(rune(path[i])-'!'+'！') + path[i+1:]
		}
	case 4:
		if isASCII(path) && !strings.Contains(path, "%") {
			return head + "://" + path[:i] + rapid.SampledFrom([]string{"\u00ad", "\u200b", "\u2060", "\ufe0f"}).Draw(rt,
				"nothing") + path[i:]
		}
	case 5:
		return uri + rapid.SampledFrom([]string{"/", "//", "#x", "%23", "#"}).Draw(rt, "end")
	case 6:
		if slash := strings.IndexByte(path, '/'); slash > 0 {
			return head + "://" + path[:slash] + "/" + path[slash:]
		}
	case 7:
		if strings.HasPrefix(uri, "file:///") {
			return "file://" + rapid.SampledFrom([]string{"localhost", "127.0.0.1", "any.example", "me@host",
				"[::1]:80"}).Draw(rt, "host") + path
		}
	case 8:
		if strings.HasPrefix(uri, "file:///") && len(path) > 1 {
			return "file:" + path
		}
	case 9:
		if isASCII(path) {
			return head + "://" + strings.NewReplacer("s", "ſ", "i", "ı", "k", "\u212a").Replace(path)
		}
	}
	return uri
}
