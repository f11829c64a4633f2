package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestPattern(t *testing.T) {
	tests := []struct {
		pattern string
		target  mcp.Target
		want    bool
	}{
		{"tools:*", tool("a", "b/c.d"), true},
		{"tools:*/*", tool("a", "b"), true},
		{"tools:**", tool("a", "b"), false}, // refused, see below
		{"tools:a/**", tool("a", "b/c"), true},
		{"tools:a/get_*", tool("a", "get_x/y.z"), true},
		{"tools:a/get_*", tool("a", "get_"), true},
		{"tools:a/get_*", tool("a", "xget_"), false},
		{"tools:a/*_x", tool("a", "_x"), true},
		{"tools:a/a*a", tool("a", "a"), false},
		{"tools:a/a*a", tool("a", "aa"), true},
		{"tools:a/*b*c*", tool("a", "xcxbxcx"), true},
		{"tools:a/*b*c*", tool("a", "cb"), false},
		{"tools:a/.", tool("a", "x"), false},
		{"tools:a/a+", tool("a", "aa"), false},
		{"tools:a/get", tool("a", "get_x"), false},
		{"tools:a*/get", tool("abc", "get"), true},
		{"tools:*/get", tool("a", "x/get"), false}, // * ends with the upstream's name
		{"resources:a/file:///docs/*", resource("a", "file:///docs/x/y.md"), true},
		{"resources:*/file:///docs/*", resource("a", "web://x/file:///docs/y"), false},
		{"resources:a/*", resource("a", "x"), true},
		{"*:a/*", resource("a", "x"), true},
		{"*:*", mcp.Target{Kind: mcp.KindSkills, Upstream: "a", Name: "x"}, true},
		{"resources:a/*ä*", resource("a", "x://ä"), true},
	}
	for _, tt := range tests {
		p, err := parsePattern(tt.pattern)
		if err != nil {
			if tt.want {
				t.Errorf("%s: %v", tt.pattern, err)
			}
			continue
		}
		if got := p.of(tt.target) && p.name.match(tt.target.Name); got != tt.want {
			t.Errorf("%s with %s: got %t", tt.pattern, tt.target, got)
		}
	}
}

// TestOtherPatternLanguages: what is special elsewhere is an error here.
func TestOtherPatternLanguages(t *testing.T) {
	tests := []struct{ pattern, want string }{
		{"tools:a/?", "only * is special"},
		{"tools:a/[a-z]", "only * is special"},
		{"tools:a/x]", "only * is special"},
		{"tools:a/{a,b}", "only * is special"},
		{`tools:a/\*`, "only * is special"},
		{"tools:a/!x", "only * is special"},
		{"!tools:a/x", "only * is special"},
		{"resources:a/x://y?z=1", "condition on target.name"},
		{"*", "*:* is everything"},
		{"**", "want kind:upstream/name"},
		{"", "is empty"},
		{"tool:a/x", `unknown kind "tool"`},
		{"t*:a/x", "unknown kind"},
		{"Tools:a/x", "unknown kind"},
		{"tools:a", "tools:a/* is everything of an upstream"},
		{"tools:a*", "want kind:upstream/name"},
		{"tools:**", "want kind:upstream/name"},
		{"tools:a/", "want kind:upstream/name"},
		{"tools:/x", "before the first slash"},
		{"tools:a_b/x", "before the first slash"},
		{"resources:file:///x", "before the first slash"},
		{"tools:a/b c", "spaces"},
		{"tools:a/b\n", "spaces"},
		{"tools:a/b\x00", "control"},
		{"tools:a/аdmin", "not ASCII"}, // a Cyrillic а
		{"tools:a/\xff", "spaces"},
		{"tools:a/" + strings.Repeat("x", 2000), "bytes are more than"},
	}
	for _, tt := range tests {
		if _, err := parsePattern(tt.pattern); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40q: got %v, want %q", tt.pattern, err, tt.want)
		}
	}
}

// TestPathological: what has many ways to begin is not tried in each of them.
func TestPathological(t *testing.T) {
	text := strings.Repeat("a", 1<<20)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, tt := range []struct {
			pattern, text string
			want          bool
		}{
			{strings.Repeat("*a", 500) + "*b*", text, false}, // told only when all is looked through
			{strings.Repeat("*a", 500) + "*b*", text + "b", true},
			{strings.Repeat("*aa", 500) + "*ba*", text, false},
			{strings.Repeat("*a", 500) + "*b", text, false},
			{strings.Repeat("*a", 500) + "*b", text + "b", true},
		} {
			g := newGlob(tt.pattern)
			if got := g.match(tt.text); got != tt.want {
				t.Errorf("%.20s...: got %t", tt.pattern, got)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("a megabyte is matched for more than 20 s")
	}
}

func TestGlobMeetsAndCovers(t *testing.T) {
	tests := []struct {
		a, b          string
		meets, covers bool // a covers b
	}{
		{"x", "x", true, true},
		{"x", "y", false, false},
		{"x*", "xy", true, true},
		{"xy", "x*", true, false},
		{"x*", "x*y", true, true},
		{"x*y", "x*", true, false},
		{"x*", "y*", false, false},
		{"x*z", "xy*z", true, true},
		{"*a*", "*b*", true, false},
		{"*", "a*b*c", true, true},
		{"a*b*c", "*", true, false},
		{"*x", "*y", false, false},
		{"*b*", "a*b*c", true, true},
		{"*bb*", "*b*b*", true, false},
		{"*b*b*", "*b*b*", true, true},
		{"a*a", "a", false, false},
		{"", "*", true, false},
	}
	for _, tt := range tests {
		a, b := newGlob(tt.a), newGlob(tt.b)
		if a.meets(&b) != tt.meets || b.meets(&a) != tt.meets {
			t.Errorf("%q meets %q: want %t", tt.a, tt.b, tt.meets)
		}
		if a.covers(&b) != tt.covers {
			t.Errorf("%q covers %q: want %t", tt.a, tt.b, tt.covers)
		}
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("a*b", "axxb", "a*")
	f.Add("*a*a*", "aa", "*b*")
	f.Add("**", "", "")
	f.Fuzz(func(t *testing.T, text, s, other string) {
		if len(text) > 60 || len(s) > 200 || len(other) > 60 || strings.ContainsRune(text+s+other, 0) {
			return
		}
		g, o := newGlob(text), newGlob(other)
		if valid(text, s) && g.match(s) != likeGlob(text, s) {
			t.Errorf("%q matches %q: got %t", text, s, g.match(s))
		}
		if g.match(s) && o.match(s) && !g.meets(&o) {
			t.Errorf("%q and %q match %q and do not meet", text, other, s)
		}
		if o.match(s) && g.covers(&o) && !g.match(s) {
			t.Errorf("%q covers %q, which matches %q", text, other, s)
		}
		if !g.covers(&g) {
			t.Errorf("%q does not cover itself", text)
		}
	})
}

// valid reports whether a regular expression can judge the texts as the bytes they are.
func valid(texts ...string) bool {
	for _, text := range texts {
		if strings.ToValidUTF8(text, "") != text {
			return false
		}
	}
	return true
}

func FuzzPattern(f *testing.F) {
	for _, s := range []string{"tools:*", "tools:a/b*", "resources:a/file:///x", "*:*", "tools:a/?"} {
		f.Add(s, "a", "b")
	}
	f.Fuzz(func(t *testing.T, text, upstream, name string) {
		p, err := parsePattern(text)
		if err != nil {
			return
		}
		target := tool(upstream, name)
		if valid(text, upstream, name) && (p.of(target) && p.name.match(name)) != likePattern(text, target) {
			t.Errorf("%q with %s: want %t", text, target, likePattern(text, target))
		}
		if strings.ContainsAny(text, `?[]{}\! `) {
			t.Errorf("%q was accepted", text)
		}
	})
}
