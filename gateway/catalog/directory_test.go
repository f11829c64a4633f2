package catalog

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// directoryCall returns a call of resources/directory/read that policy let through.
func directoryCall(t *testing.T, c *Catalog, uri string) *mcp.Call {
	t.Helper()
	to, ok := resolve(t.Context(), c, &mcp.Call{}, mcp.KindResources, uri)
	if !ok {
		t.Fatalf("%s does not resolve", uri)
	}
	read := call(mcp.MethodDirectoryRead, uri)
	read.Params, read.Target = mcp.Object("uri", mcp.String(uri)), to
	return read
}

// TestADirectoryOfAServer: a directory is the content of all its pages, cached only as long
// as each of them allows, without children that are not resources.
func TestADirectoryOfAServer(t *testing.T) {
	const child, other = `{"uri":"skill://a/b.md","name":"b.md","more":[1]}`,
		`{"uri":"skill://a/c","name":"c","mimeType":"inode/directory"}`
	for _, tt := range []struct{ first, second, want string }{
		{`,"ttlMs":500,"cacheScope":"public"`, `,"ttlMs":300,"cacheScope":"public"`, `"ttlMs":300,"cacheScope":"public"`},
		{`,"ttlMs":500,"cacheScope":"public"`, `,"ttlMs":900,"cacheScope":"private"`, `"ttlMs":500,"cacheScope":"private"`},
		{``, `,"ttlMs":900,"cacheScope":"public"`, `"ttlMs":0,"cacheScope":"private"`},
		{`,"ttlMs":"x"`, ``, `"ttlMs":0,"cacheScope":"private"`},
	} {
		s := skilled("crm", skillRecord("a", "b.md"))
		s.caps = `{"resources":{},"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}}}`
		s.on(mcp.MethodDirectoryRead, func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
			if cursor, _ := c.Params.Member("cursor"); cursor != nil {
				return &mcp.Reply{Result: mcp.Raw(`{"resources":[7,{"uri":"skill://a/d","name":null},{"uri":"skill://a/e","name":7},` + other + `]` + tt.second + `}`)}, nil
			}
			return &mcp.Reply{Result: mcp.Raw(`{"resources":[` + child + `],"nextCursor":"2"` + tt.first + `}`)}, nil
		})
		c := start(t, Source{Upstream: s})
		got := string(do(t, c, directoryCall(t, c, "skill://crm/a")).Result)
		want := fmt.Sprintf(`{"resources":[{"uri":"skill://crm/a/b.md","name":"b.md","more":[1]},{"uri":"skill://crm/a/d","name":"d"},{"uri":"skill://crm/a/c","name":"c","mimeType":"inode/directory"}],%s}`, tt.want)
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestADirectoryOfWhatIsDenied: a directory without a file that its caller may know of does not exist.
func TestADirectoryOfWhatIsDenied(t *testing.T) {
	c := start(t, Source{Upstream: skilled("crm", skillRecord("a", "f.md", "x/b/SKILL.md"), skillRecord("a/x/b"))})
	whole, outer := directoryCall(t, c, "skill://crm/a"), directoryCall(t, c, "skill://crm/a/x")
	names := func(call *mcp.Call) (all []string) {
		do(t, c, call).Result.At("resources").Elements(func(r mcp.Raw) bool {
			all = append(all, r.At("name").Text())
			return true
		})
		return all
	}
	if got := names(whole); !slices.Equal(got, []string{"SKILL.md", "f.md", "x"}) {
		t.Errorf("without a policy: %q", got)
	}
	denied := func(target mcp.Target) bool { return target.Name != "a/x/b" }
	whole.Sees, outer.Sees = denied, denied
	if got := names(whole); !slices.Equal(got, []string{"SKILL.md", "f.md"}) {
		t.Errorf("with one: %q", got)
	}
	refused(t, c, outer, mcp.CodeInvalidParams)
}
