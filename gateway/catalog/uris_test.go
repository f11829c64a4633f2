package catalog

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestURIs(t *testing.T) {
	tests := []struct {
		name, native, want string
	}{
		{"file", "file:///a/b", "crm+file:///a/b"},
		{"https", "https://example.com/a?b=c#d", "crm+https://example.com/a?b=c#d"},
		{"opaque", "urn:isbn:0451450523", "crm+urn:isbn:0451450523"},
		{"percent-encoded", "file:///a%2Fb%2f%C3%A9", "crm+file:///a%2Fb%2f%C3%A9"},
		{"unicode", "note://é/日本", "crm+note://é/日本"},
		{"odd bytes stay", "FILE:///A/../b//", "crm+FILE:///A/../b//"},
		{"already marked", "crm+file:///a", "crm+crm+file:///a"},
		{"ui", "ui://page/main.html", "ui://crm/page/main.html"},
		{"ui without authority", "ui:///main", "ui://crm//main"},
		{"skill", "skill://review/SKILL.md", "skill://crm/review/SKILL.md"},
		{"ui in capitals is another scheme", "UI://page", "crm+UI://page"},
		{"ui without slashes is opaque", "ui:page", "crm+ui:page"},
	}
	n := namingFor("crm", nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := n.uri(tt.native)
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if tag, back, ok := splitURI(got); !ok || tag != "crm" || back != tt.native {
				t.Errorf("%q came back as %q of %q, %v", got, back, tag, ok)
			}
		})
	}
	capital := namingFor("cRM-1", nil)
	for public, want := range map[string]string{"crm-1+x:A": "x:A", "CRM-1+x:A": "x:A", "ui://crm-1/A": "ui://A",
		"UI://CRM-1/A": "ui://A"} {
		tag, back, ok := splitURI(public)
		if !ok || tag != "crm-1" || back != want || capital.uri(want) != strings.ToLower(public[:len(public)-1])+"A" {
			t.Errorf("%q leads to %q of %q, whose public form is %q", public, back, tag, capital.uri(want))
		}
	}
	for _, public := range []string{"crm+ui://page", "crm+skill://a", "crm+", "ui://crm", "skill://crm", "crm", ""} {
		t.Run("no upstream makes "+public, func(t *testing.T) {
			if tag, native, ok := splitURI(public); ok {
				t.Errorf("came back as %q of %q", native, tag)
			}
		})
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		upstream := rapid.StringMatching(`[A-Za-z][A-Za-z0-9]{0,5}(-[a-z0-9]{1,3})?`).Draw(t, "upstream")
		native := rapid.OneOf(
			rapid.StringN(1, 60, -1),
			rapid.StringMatching(`(ui|skill|file|UI|a\+b)(://|:|\+)[!-~]{0,20}`),
		).Draw(t, "native")
		n := namingFor(upstream, nil)
		tag, back, ok := splitURI(n.uri(native))
		if !ok || tag != strings.ToLower(upstream) || back != native {
			t.Fatalf("%q became %q and then %q of %q, %v", native, n.uri(native), back, tag, ok)
		}
	})
}

func FuzzURI(f *testing.F) {
	f.Add("crm+file:///a")
	f.Add("ui://crm/a")
	f.Add("skill://crm")
	f.Add("a+b+c")
	f.Fuzz(func(t *testing.T, text string) {
		n := namingFor("crm", nil)
		// As a public URI: it must be the public form of its original.
		if tag, native, ok := splitURI(text); ok && tag == "crm" && !strings.EqualFold(n.uri(native), text) {
			t.Fatalf("%q leads to %q, whose public form is %q", text, native, n.uri(native))
		}
		// As an original: the way there and back must not change it.
		if text == "" {
			return
		}
		if tag, native, ok := splitURI(n.uri(text)); !ok || tag != "crm" || native != text {
			t.Fatalf("%q became %q and then %q", text, n.uri(text), native)
		}
	})
}

func TestTemplates(t *testing.T) {
	tests := []struct {
		name, native, want string // "" withheld
	}{
		{"literal scheme", "file:///{path}", "crm+file:///{path}"},
		{"no expression", "file:///a", "crm+file:///a"},
		{"ui", "ui://{page}", "ui://crm/{page}"},
		{"skill", "skill://{name}/SKILL.md", "skill://crm/{name}/SKILL.md"},
		{"begins with an expression", "{+url}", ""},
		{"could become ui", "u{rest}", ""},
		{"could become ui too", "ui:{+rest}", ""},
		{"could become skill", "skill:/{+rest}", ""},
		{"could not", "uix{rest}", "crm+uix{rest}"},
	}
	n := namingFor("crm", nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := n.template(tt.native)
			if (err != nil) != (tt.want == "") || got != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	if got, err := (naming{upstream: "crm"}).template("{+url}"); err != nil || got != "{+url}" {
		t.Errorf("without a prefix: %q, %v", got, err)
	}
}

// FuzzTemplate expands {x} in the public and in the original template: the results must
// match.
func FuzzTemplate(f *testing.F) {
	f.Add("file:///{x}", "a")
	f.Add("{x}", "ui://a")
	f.Add("u{x}/b", "i://")
	f.Add("ui:/{x}", "/page")
	f.Fuzz(func(t *testing.T, template, value string) {
		n := namingFor("crm", nil)
		if strings.Count(template, "{") != strings.Count(template, "{x}") || !sane(template) {
			return
		}
		public, err := n.template(template)
		if err != nil {
			return
		}
		expand := func(s string) string { return strings.ReplaceAll(s, "{x}", value) }
		if expand(template) == "" {
			return
		}
		if tag, native, ok := splitURI(expand(public)); !ok || tag != "crm" || native != expand(template) {
			t.Fatalf("%q became %q, of which a client makes %q: that leads to %q", template, public, expand(public), native)
		}
	})
}

func resource(uri string) string {
	return string(mcp.Object("uri", mcp.String(uri), "name", mcp.String("n")))
}

func template(uri string) string {
	return string(mcp.Object("uriTemplate", mcp.String(uri), "name", mcp.String("n")))
}

func TestReadRouting(t *testing.T) {
	crm := newServer("crm").has(mcp.MethodResourcesList, resource("file:///both"), resource("file:///crm")).
		has(mcp.MethodResourceTemplatesList, template("file:///{path}"))
	doc := newServer("doc").has(mcp.MethodResourcesList, resource("file:///both"), resource("ui://page"),
		resource("NOTE:///A"))
	mixed := newServer("Mixed").has(mcp.MethodResourcesList, resource("file:///a"))
	none := newServer("none")
	none.caps = `{"tools":{}}`
	c := start(t, sourcesOf([]*server{crm, doc, mixed, none})...)
	tests := []struct {
		name, uri  string
		want, from string // from "": unknown
	}{
		{"listed", "crm+file:///crm", "file:///crm", "crm"},
		{"made of a template", "crm+file:///x%20y", "file:///x%20y", "crm"},
		{"unlisted all the same", "doc+note:///x", "note:///x", "doc"},
		{"ui", "ui://doc/page", "ui://page", "doc"},
		{"another upstream's goes where the name says", "crm+ui:page", "ui:page", "crm"},
		{"unmarked, listed by one", "file:///crm", "file:///crm", "crm"},
		{"unmarked, listed by two", "file:///both", "", ""},
		{"unmarked, listed by nobody", "file:///x", "", ""},
		{"unknown upstream", "other+file:///crm", "", ""},
		{"name in another case", "CRM+file:///crm", "file:///crm", "crm"},
		{"listed with a scheme in capitals", "doc+NOTE:///A", "NOTE:///A", "doc"},
		{"and read with one that a client has made small", "doc+note:///A", "NOTE:///A", "doc"},
		{"a name with a capital", "mixed+file:///a", "file:///a", "Mixed"},
		{"a form that we never make", "doc+ui://page", "", ""},
		{"no resources there", "none+file:///a", "", ""},
		{"empty", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			read := call(mcp.MethodResourcesRead, tt.uri)
			if tt.from == "" {
				e := refused(t, c, read, mcp.CodeInvalidParams)
				if want := string(mcp.Object("uri", mcp.String(tt.uri))); string(e.Data) != want {
					t.Errorf("data %s, want %s", e.Data, want)
				}
				return
			}
			wantResult(t, do(t, c, read), string(mcp.Object("from", mcp.String(tt.from), "name", mcp.String(tt.want))))
		})
	}
}

func TestReadRoutingOfPlainUpstreams(t *testing.T) {
	keep := func() *server {
		return newServer("keep").has(mcp.MethodResourcesList, resource("file:///a"), resource("crm+file:///mine"),
			resource("ui://crm/x")).
			has(mcp.MethodResourceTemplatesList, template("keep://{x}"), template("{+url}"))
	}
	crm := newServer("crm").has(mcp.MethodResourcesList, resource("file:///a"), resource("file:///crm"))
	t.Run("alone: everything as it is", func(t *testing.T) {
		c := start(t, plain(keep()))
		wantNames(t, c, mcp.MethodResourcesList, "crm+file:///mine", "file:///a", "ui://crm/x")
		wantNames(t, c, mcp.MethodResourceTemplatesList, "keep://{x}", "{+url}")
		for _, uri := range []string{"file:///a", "crm+file:///mine", "anything://else"} {
			wantResult(t, do(t, c, call(mcp.MethodResourcesRead, uri)),
				string(mcp.Object("from", mcp.String("keep"), "name", mcp.String(uri))))
		}
	})
	t.Run("beside a marked one: the unmarked are its own", func(t *testing.T) {
		c := start(t, plain(keep()), Source{Upstream: crm})
		wantNames(t, c, mcp.MethodResourcesList, "file:///a", "crm+file:///a", "crm+file:///crm")
		for uri, from := range map[string]string{"file:///a": "keep", "file:///crm": "keep", "crm+file:///mine": "crm",
			"ui://crm/x": "crm"} {
			if got, _ := do(t, c, call(mcp.MethodResourcesRead, uri)).Result.Member("from"); got.Text() != from {
				t.Errorf("%s was read at %s, want %s", uri, got, from)
			}
		}
		if w := c.Status()[0].Withheld; len(w) != 2 || w[0].Reason != errForeignURI.Error() {
			t.Errorf("withheld %v", w)
		}
	})
	t.Run("two plain ones: by list and template", func(t *testing.T) {
		one := newServer("one").has(mcp.MethodResourcesList, resource("file:///1"),
			resource("file:///both")).has(mcp.MethodResourceTemplatesList, template("one://{x}"))
		two := newServer("two").has(mcp.MethodResourcesList, resource("file:///both")).has(mcp.MethodResourceTemplatesList,
			template("two://{x}"))
		c := start(t, plain(one), plain(two))
		wantNames(t, c, mcp.MethodResourcesList, "file:///1")
		for uri, from := range map[string]string{"file:///1": "one", "one://x": "one", "two://x": "two"} {
			if got, _ := do(t, c, call(mcp.MethodResourcesRead, uri)).Result.Member("from"); got.Text() != from {
				t.Errorf("%s was read at %s, want %s", uri, got, from)
			}
		}
		refused(t, c, call(mcp.MethodResourcesRead, "file:///both"), mcp.CodeInvalidParams)
		refused(t, c, call(mcp.MethodResourcesRead, "file:///other"), mcp.CodeInvalidParams)
	})
}

func TestWithheldURIs(t *testing.T) {
	s := newServer("crm").has(mcp.MethodResourcesList, resource(""), resource("file:///a\nb"), resource("file:///ok")).
		has(mcp.MethodResourceTemplatesList, template("{+url}"))
	c := start(t, Source{Upstream: s})
	wantNames(t, c, mcp.MethodResourcesList, "crm+file:///ok")
	wantNames(t, c, mcp.MethodResourceTemplatesList)
	if w := c.Status()[0].Withheld; len(w) != 3 || w[2].Name != "{+url}" || w[2].Reason != errOpenScheme.Error() {
		t.Errorf("withheld %+v", w)
	}
}
