//go:build interop

package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// declarations are what clients declare. What server-everything lists depends on it.
var declarations = map[string]string{
	"all":     `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{"listChanged":true}}`,
	"some":    `{"sampling":{},"roots":{}}`,
	"forms":   `{"elicitation":{}}`,
	"nothing": `{}`,
}

// listed are the lists that a client sees: for each method the entries, sorted. The gateway
// lists in an order of its own.
type listed map[string][]any

// listMethods maps the methods to the members of their results that hold the list.
var listMethods = map[string]string{
	"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources",
	"resources/templates/list": "resourceTemplates",
}

// TestListsAreThoseOfTheClient compares all lists of a server as a client sees them through
// the gateway with what the same client sees at the server itself.
func TestListsAreThoseOfTheClient(t *testing.T) {
	l := nodeLab(t)
	script := l.node.Module("@modelcontextprotocol", "server-everything", "dist", "index.js")
	http := func(transport, path string) string {
		addr := mcptest.LoopbackAddress(t)
		cmd := exec.Command(l.node.Binary, script, transport)
		cmd.Env = append(cmd.Environ(), "PORT="+addr[strings.LastIndexByte(addr, ':')+1:])
		l.start(t, addr, cmd)
		return "http://" + addr + path
	}
	program := []string{l.node.Binary, script, "stdio"}
	upstreams := []upstream{
		{name: "http", kind: everything, url: http("streamableHttp", "/mcp")},
		{name: "sse", kind: everything, sse: true, url: http("sse", "/sse")},
		{name: "stdio", kind: everything, command: program},
	}
	url := l.startGateway(t, upstreams)
	for name, caps := range declarations {
		direct := map[string]listed{
			"http":  overHTTP(t, upstreams[0].url, stateful, caps),
			"stdio": overStdio(t, program, caps),
		}
		direct["sse"] = direct["http"]
		for _, revision := range []string{stateful, stateless} {
			t.Run(revision+" declares "+name, func(t *testing.T) {
				// The first client of its kind may see less, until the gateway has looked as such
				// a client: a program takes a while to start.
				for end := time.Now().Add(readyLimit); ; <-time.After(100 * time.Millisecond) {
					got, diff := overHTTP(t, url, revision, caps), ""
					for _, u := range upstreams {
						diff += cmp.Diff(direct[u.name], got.of(u))
					}
					switch {
					case diff == "":
						return
					case time.Now().After(end):
						t.Fatalf("-directly +through the gateway:\n%s", diff)
					}
				}
			})
		}
	}
	t.Run("a tool of others", func(t *testing.T) {
		c := mcptest.NewClient(url, wire.Lookup(stateless))
		m, _, err := c.Call(t.Context(), "tools/call", `{"name":"http__trigger-elicitation-request","arguments":{}}`)
		if err != nil || m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("a tool for clients that can be asked, called by one that cannot: %s %v", m.Text, err)
		}
	})
}

// of returns the entries of an upstream, as the upstream names them.
func (l listed) of(u upstream) listed {
	own := listed{}
	for method, entries := range l {
		for _, e := range entries {
			entry := maps.Clone(e.(map[string]any))
			switch prefix := u.name + "__"; method {
			case "tools/list", "prompts/list":
				if name := entry["name"].(string); strings.HasPrefix(name, prefix) {
					entry["name"] = strings.TrimPrefix(name, prefix)
					own[method] = append(own[method], entry)
				}
			default:
				for _, member := range []string{"uri", "uriTemplate"} {
					if uri, ok := entry[member].(string); ok && strings.HasPrefix(uri, u.name+"+") {
						entry[member] = strings.TrimPrefix(uri, u.name+"+")
						own[method] = append(own[method], entry)
					}
				}
			}
		}
		own.sort(method)
	}
	return own
}

func (l listed) sort(method string) {
	slices.SortFunc(l[method], func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	if len(l[method]) == 0 {
		delete(l, method)
	}
}

// overHTTP returns what a client sees at an endpoint.
func overHTTP(t *testing.T, url, revision, caps string) listed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	c := mcptest.NewClient(url, wire.Lookup(revision))
	c.Caps = caps
	if err := c.Open(ctx); err != nil {
		t.Fatal(err)
	}
	if c.Session != "" {
		defer c.Delete(ctx)
	}
	return lists4(t, func(method, params string) (json.RawMessage, error) {
		m, _, err := c.Call(ctx, method, params)
		if err == nil && m.Error != nil {
			err = m.Error
		}
		return json.RawMessage(m.Result), err
	})
}

// overStdio returns what a client of the newest stateful revision sees at a program.
func overStdio(t *testing.T, program []string, caps string) listed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	conn, err := (&sdk.CommandTransport{Command: exec.CommandContext(ctx, program[0], program[1:]...)}).Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	write := func(text string) {
		m, err := jsonrpc.DecodeMessage([]byte(text))
		if err == nil {
			err = conn.Write(ctx, m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	id := 0
	call := func(method, params string) (json.RawMessage, error) {
		id++
		write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
		for {
			m, err := conn.Read(ctx)
			if err != nil {
				return nil, err
			}
			switch m := m.(type) {
			case *jsonrpc.Response:
				return m.Result, m.Error
			case *jsonrpc.Request:
				if m.IsCall() { // this server asks for the roots
					raw, _ := json.Marshal(m.ID.Raw())
					write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}`, raw))
				}
			}
		}
	}
	if _, err := call("initialize",
		fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"mcptest","version":"1"}}`, stateful,
			caps)); err != nil {
		t.Fatal(err)
	}
	write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return lists4(t, call)
}

// lists4 reads the four lists, all pages of them.
func lists4(t *testing.T, call func(method, params string) (json.RawMessage, error)) listed {
	t.Helper()
	l := listed{}
	for _, method := range slices.Sorted(maps.Keys(listMethods)) {
		for params := "{}"; params != ""; {
			text, err := call(method, params)
			if err != nil {
				t.Fatalf("%s: %v", method, err)
			}
			var page map[string]any
			if err := json.Unmarshal(text, &page); err != nil {
				t.Fatal(err)
			}
			entries, _ := page[listMethods[method]].([]any)
			for _, e := range entries {
				delete(e.(map[string]any), "execution") // is translated: 2026-07-28 has no such member
			}
			l[method] = append(l[method], entries...)
			params = ""
			if cursor, ok := page["nextCursor"].(string); ok {
				params = fmt.Sprintf(`{"cursor":%q}`, cursor)
			}
		}
		l.sort(method)
	}
	return l
}
