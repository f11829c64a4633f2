package policy

import (
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// TestSpellings: a URI that is denied is denied however it is written.
func TestSpellings(t *testing.T) {
	spelled := map[string][]string{
		"file:///srv/secret/key": {
			"file:///srv/public/../secret/key", "file:///srv/./secret/key", "file:///srv/public/%2e%2e/secret/key",
			"file:///srv/public/.%2E/secret/key",
			"file:///srv/public/%252e%252e/secret/key", "file:///srv/public/..%2fsecret/key",
			"file:///srv/public%2f..%2fsecret/key", `file:///srv/public/..\secret/key`,
			"file:///srv%2fsecret%2fkey", "file:///srv%252fsecret%252fkey", "file:///srv//secret/key", "file:////srv/secret/key",
			`file:///srv\secret\key`, "file:///srv%5csecret%5Ckey",
			"FILE:///srv/secret/key", "File:///srv/secret/key", "file://localhost/srv/secret/key",
			"file://LOCALHOST/srv/secret/key", "file://user@localhost/srv/secret/key",
			"file:///srv/secret/key#x", "file:///srv/secret/key#", "file:///srv/%73ecret/key", "file:///srv/%2573ecret/key",
			"file:///srv/secret/key\x00", "file:///srv/secret/key%00",
			"file:///srv/secret\n/key", "file:///srv/secret%0a/key", "file:///srv/public/..;/secret/key", "file:/srv/secret/key",
			"FILE:/srv/secret/key", "file:srv/secret/key", "file:///srv/%252525252573ecret/key",
			" file:///srv/secret/key", "file:///srv/secret/key ", "\u00a0file:///srv/secret/key", "%20file:///srv/secret/key",
			"file:///srv/secret/key%20", "file:///srv/secret/key?", "file:///srv/secret/key?x=/y", "file:///srv/secret/key%3Fx",
		},
		"http://internal.example/admin": {
			"HTTP://internal.example/admin", "http://Internal.Example/admin", "http://internal.example:80/admin",
			"http://internal.example:/admin", "http://internal.example./admin",
			"http://me@internal.example/admin", "http://a:b@internal.example/admin", "http:/internal.example/admin",
			"http:internal.example/admin", "http:///internal.example/admin", `http:\\internal.example\admin`,
			"http://internal.example//admin", "http://internal.example/admin#", "http://internal.example/%61dmin",
			" http://internal.example/admin", "http://internal.example/admin ", "http://internal.example:080/admin",
			"http://internal.example.:0080/admin",
		},
	}
	for denied, forms := range spelled {
		byDeny := newForTest(t, Config{Default: DefaultAllow,
			Rules: []Rule{{Name: "d", Deny: []string{"resources:files/" + denied + "*"}}}})
		byAllow := newForTest(t, Config{Rules: []Rule{{Name: "a",
			Allow: []string{"resources:files/file:///srv/public*", "resources:files/http://public.example/*"}}}})
		asked := newForTest(t, Config{Rules: []Rule{{Name: "a", Allow: []string{"resources:*"}},
			{Name: "q", Ask: []string{"resources:files/" + denied}}}})
		caller := user("alice")
		for _, form := range append(forms, denied) {
			for name, p := range map[string]*Policy{"deny": byDeny, "allow": byAllow, "ask": asked} {
				got := p.Decide(t.Context(), &caller, resource("files", form), nil)
				if got.Effect == Allow {
					t.Errorf("%s: %q is allowed", name, form)
				}
				if name != "ask" && p.Visible(&caller, resource("files", form)) {
					t.Errorf("%s: %q is visible", name, form)
				}
			}
		}
	}
}

// TestSpellingsThatAreFine: what has one spelling, or several that are all allowed, goes
// through.
func TestSpellingsThatAreFine(t *testing.T) {
	p := newForTest(t, Config{Rules: []Rule{{Name: "a",
		Allow: []string{"resources:u/file:///docs/*", "resources:u/note://*", "resources:u/http://a.example/*",
			"resources:u/repo://*", "resources:u/README*"}}}})
	caller := user("alice")
	for _, uri := range []string{
		"file:///docs/a.md", "file:///docs/...", "file:///docs/.hidden", "file:///docs/a..b",
		"file:///docs/r%C3%A9sum%C3%A9.txt", "file:///docs/r%c3%a9.txt", "file:///docs/100%25.txt",
		"file:///docs/a%20b", "file:///docs/a%3Fb", "note://Shopping", "note://bob@acme.example", "note://bob%40acme.example",
		"http://a.example/x?u=http%3A%2F%2Fb", "http://a.example/x?y=1&z=2",
		"repo://docs%2Fguide", "README.md", "note://a//b", "repo://https://b.example/x", "file:///docs/ä",
	} {
		if got := p.Decide(t.Context(), &caller, resource("u", uri), nil); got.Effect != Allow {
			t.Errorf("%q: got %v", uri, got)
		}
	}
	open := newForTest(t, Config{Default: DefaultAllow})
	if got := open.Decide(t.Context(), &caller, resource("u", "file:///a/../b"), nil); got.Effect != Allow {
		t.Errorf("without rules nothing is kept from anybody: got %v", got)
	}
}

// TestSpellingsBeyondWhatIsAllowed: it is not enough that a URI looks like one that is
// allowed.
func TestSpellingsBeyondWhatIsAllowed(t *testing.T) {
	p := newForTest(t, Config{Rules: []Rule{{Name: "a",
		Allow: []string{"resources:u/http://public.example*", "resources:u/file:///srv/public%2F*"}}}})
	caller := user("alice")
	for uri, want := range map[string]Effect{
		"http://public.example/x": Allow, "http://public.example@internal.example/x": Deny,
		"http://public.example:x@internal.example/x": Deny,
		`http://public.example\@internal.example/x`:  Deny, `http://public.example/\x`: Deny,
		"http://public.example/%5cx": Deny, "http://public.example%40internal.example/x": Deny,
		"file:///srv/public%2Fx": Deny,
	} {
		if got := p.Decide(t.Context(), &caller, resource("u", uri), nil); got.Effect != want {
			t.Errorf("%q: got %v, want %v", uri, got.Effect, want)
		}
	}
}

func TestUsual(t *testing.T) {
	for uri, want := range map[string]string{
		"http://[::1]:080/x": "http://[::1]/x", "http://me@[::1]:/x": "http://[::1]/x", "http://[::80]/x": "http://[::80]/x",
		"http://a:8080/x":    "http://a:8080/x",
		"http://a:0/x?y=//z": "http://a/x?y=//z", "file:///a?b#c": "file:///a", "note://a?b": "note://a?b",
	} {
		if got := usual(uri); got != want {
			t.Errorf("%q: got %q, want %q", uri, got, want)
		}
	}
}

func TestTemplates(t *testing.T) {
	tests := []struct {
		name, template string
		rules          []Rule
		want           bool
	}{
		{"allowed", "file:///{path}", []Rule{{Name: "a", Allow: []string{"resources:u/*"}}}, true},
		{"some of it allowed", "file:///{+path}", []Rule{{Name: "a", Allow: []string{"resources:u/file:///docs/*"}}}, true},
		{"none of it", "file:///{+path}", []Rule{{Name: "a", Allow: []string{"resources:u/http://*"}}}, false},
		{"of another upstream", "file:///{+path}", []Rule{{Name: "a", Allow: []string{"resources:v/*"}}}, false},
		{"one of it", "user://{id}/photo", []Rule{{Name: "a", Allow: []string{"resources:u/user://7/photo"}}}, true},
		{"none by its end", "user://{id}/photo", []Rule{{Name: "a", Allow: []string{"resources:u/user://*/name"}}}, false},
		{"all denied", "secret://{id}", []Rule{{Name: "a", Allow: []string{"resources:u/*"}},
			{Name: "d", Deny: []string{"resources:u/secret://*"}}}, false},
		{"some denied", "file:///{+path}", []Rule{{Name: "a", Allow: []string{"resources:u/*"}},
			{Name: "d", Deny: []string{"resources:u/file:///secret/*"}}}, true},
		{"without an expression", "file:///x", []Rule{{Name: "a", Allow: []string{"resources:u/file:///x"}}}, true},
		{"broken", "file:///{x", []Rule{{Name: "a", Allow: []string{"resources:u/file:///x"}}}, true},
		{"asked", "file:///{+path}", []Rule{{Name: "a", Allow: []string{"resources:u/file:///x"},
			Ask: []string{"resources:u/file:///x"}}}, true},
		{"with a query", "search://q{?text}", []Rule{{Name: "a", Allow: []string{"resources:u/search://q*"}}}, true},
	}
	caller := user("alice")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			target := resource("u", tt.template)
			target.Template = true
			if got := newForTest(t, Config{Rules: tt.rules}).Visible(&caller, target); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// FuzzSpellings: whatever a server makes of a URI by cleaning and decoding it, a rule
// that denies a tree holds in it.
func FuzzSpellings(f *testing.F) {
	for _, s := range []string{"file:///srv/secret/key", "file:///a/../srv/secret/x", "file:///srv/%73ecret/",
		"FILE:////srv//secret/#", "file://localhost/srv/secret/", "%2525", "x:"} {
		f.Add(s)
	}
	p, err := New(Config{Default: DefaultAllow, Rules: []Rule{{Name: "d",
		Deny: []string{"resources:u/file:///srv/secret*"}}}})
	if err != nil {
		f.Fatal(err)
	}
	caller := user("alice")
	f.Fuzz(func(t *testing.T, uri string) {
		if p.Decide(t.Context(), &caller, resource("u", uri), nil).Effect != Allow {
			return
		}
		forms, refused := spellings(uri)
		if refused || len(forms) == 0 || forms[0] != uri {
			t.Fatalf("%q is allowed: %q, %t", uri, forms, refused)
		}
		for read := range slices.Values(forms) {
			u, err := url.Parse(read)
			if err != nil || u.Scheme != "file" {
				continue
			}
			if strings.HasPrefix(strings.ToLower(path.Clean("/"+norm.NFKC.String(u.Path))), "/srv/secret") {
				t.Errorf("%q is read as %q: the path %q was allowed", uri, read, u.Path)
			}
		}
	})
}
