//go:build interop

package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestListsOfASession shows lists that grow for one client and not for others: the tools of
// GitHub's server, which tells nobody that they have changed, and the resources of
// server-everything, which does.
func TestListsOfASession(t *testing.T) {
	l := nodeLab(t)
	ctx, cancel := context.WithTimeout(t.Context(), installLimit)
	defer cancel()
	binary, err := l.checkout.BuildOther(ctx, l.checkout.Path("internal", "interop", "github"), "tool")
	if err != nil {
		t.Fatal(err)
	}
	program := []string{l.node.Binary, l.node.Module("@modelcontextprotocol", "server-everything", "dist", "index.js"),
		"stdio"}
	upstreams := []upstream{
		{name: "github", kind: github, command: []string{binary, "stdio", "--dynamic-toolsets"},
			env: map[string]string{"GITHUB_PERSONAL_ACCESS_TOKEN": "unused"}},
		{name: "everything", kind: everything, command: program},
	}
	url := l.startGateway(t, upstreams)
	// A program takes a while to start: until the gateway has looked as a client that declares nothing,
	// such clients may see more.
	const ofOthers = "everything__trigger-elicitation-request"
	first := at(t, url, stateless, "first")
	for end := time.Now().Add(readyLimit); slices.Contains(first.names(t, "tools/list", "name"),
		ofOthers); <-time.After(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a client that declares nothing sees " + ofOthers)
		}
	}
	for _, revision := range []string{stateful, stateless} {
		t.Run(revision, func(t *testing.T) {
			one, other := at(t, url, revision, "one"), at(t, url, revision, "other")
			before := other.names(t, "tools/list", "name")
			if slices.Contains(before, "github__create_gist") || !slices.Contains(before, "github__enable_toolset") {
				t.Fatalf("the tools are %q", before)
			}
			one.call(t, "github__enable_toolset", `{"toolset":"gists"}`)
			one.call(t, "everything__gzip-file-as-resource",
				`{"name":"a.gz","data":"data:text/plain;base64,aGVsbG8=","outputType":"resourceLink"}`)
			if !slices.Contains(one.names(t, "tools/list", "name"), "github__create_gist") {
				t.Error("the client does not see the tools that it has enabled")
			}
			if diff := cmp.Diff(before, other.names(t, "tools/list", "name")); diff != "" {
				t.Errorf("another client's tools have changed:\n%s", diff)
			}
			const file = "everything+demo://resource/session/a.gz"
			if !slices.Contains(one.names(t, "resources/list", "uri"), file) {
				t.Error("the client does not see the resource of its session")
			}
			if slices.Contains(other.names(t, "resources/list", "uri"), file) {
				t.Error("another client sees the resource of the session")
			}
		})
	}
}

// peer is a client of the gateway that declares nothing.
type peer struct{ *mcptest.Client }

// at connects a client of that name.
func at(t *testing.T, url, revision, name string) peer {
	t.Helper()
	c := mcptest.NewClient(url, wire.Lookup(revision))
	c.Name = name
	if err := c.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return peer{c}
}

// result returns the result of a request.
func (p peer) result(t *testing.T, method, params string) json.RawMessage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	m, _, err := p.Call(ctx, method, params)
	if err == nil && m.Error != nil {
		err = m.Error
	}
	if err != nil {
		t.Fatalf("%s %s: %v", method, params, err)
	}
	return json.RawMessage(m.Result)
}

func (p peer) call(t *testing.T, tool, arguments string) {
	t.Helper()
	text := p.result(t, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
	if strings.Contains(string(text), `"isError":true`) {
		t.Fatalf("%s: %s", tool, text)
	}
}

// names returns a member of all entries of a list.
func (p peer) names(t *testing.T, method, member string) (names []string) {
	t.Helper()
	all := lists4(t, func(m, params string) (json.RawMessage, error) {
		if m != method {
			return json.RawMessage(`{}`), nil
		}
		return p.result(t, m, params), nil
	})
	for _, e := range all[method] {
		names = append(names, fmt.Sprint(e.(map[string]any)[member]))
	}
	return names
}
