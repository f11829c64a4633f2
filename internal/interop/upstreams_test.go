//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// upstream is a server behind the gateway. Either command or url is set.
type upstream struct {
	name    string
	url     string
	command []string
	env     map[string]string
	kind    kind
	sse     bool // over HTTP+SSE
	// revision is the revision that the gateway must use; "" if it finds out by itself.
	revision string
}

type kind int

const (
	everything kind = iota // @modelcontextprotocol/server-everything
	filesystem             // @modelcontextprotocol/server-filesystem
	github                 // github.com/github/github-mcp-server
	python                 // internal/interop/python/server.py
	typescript             // internal/interop/server
	mcpgo                  // internal/interop/mcpgo
	fastmcp                // internal/interop/python/fastmcp_server.py
)

// Revisions that clients must negotiate.
const (
	stateful  = "2025-11-25"
	stateless = "2026-07-28"
)

// tool and uri return the public names of an upstream's objects.
func (u upstream) tool(name string) string { return u.name + "__" + name }
func (u upstream) uri(uri string) string   { return u.name + "+" + uri }

// tools returns names that the upstream must offer.
func (u upstream) tools() []string {
	switch u.kind {
	case everything:
		return []string{"echo", "get-annotated-message", "get-env", "get-resource-links", "get-resource-reference",
			"get-structured-content", "get-sum", "get-tiny-image", "gzip-file-as-resource",
			"toggle-simulated-logging", "toggle-subscriber-updates", "trigger-long-running-operation",
			// It has the former for clients that can be asked, and the latter for clients
			// that run tasks for servers, which the gateway does not support.
			"get-roots-list", "trigger-elicitation-request", "trigger-url-elicitation", "trigger-sampling-request",
			"simulate-research-query"}
	case filesystem:
		return []string{"read_text_file", "list_directory", "write_file", "search_files", "list_allowed_directories"}
	case github:
		return []string{"enable_toolset", "get_toolset_tools", "list_available_toolsets"}
	case typescript, mcpgo, fastmcp:
		return []string{"echo", "count", "confirm", "sample", "roots"}
	default:
		return []string{"add", "count", "hang", "cancelled", "fail", "greet"}
	}
}

// startUpstreams starts the HTTP servers, and returns how the gateway starts the others.
func (l *lab) startUpstreams(t *testing.T) []upstream {
	t.Helper()
	everythingJS := l.node.Module("@modelcontextprotocol", "server-everything", "dist", "index.js")
	filesystemJS := l.node.Module("@modelcontextprotocol", "server-filesystem", "dist", "index.js")
	serverPy := l.checkout.Path("internal", "interop", "python", "server.py")

	http := func(path string, cmd func(addr string) *exec.Cmd) string {
		addr := mcptest.LoopbackAddress(t)
		l.start(t, addr, cmd(addr))
		return "http://" + addr + path
	}
	withPython := func(python string) string {
		return http("/mcp", func(addr string) *exec.Cmd { return exec.Command(python, serverPy, addr) })
	}
	withPythonSSE := func(python string) string {
		return http("/sse", func(addr string) *exec.Cmd { return exec.Command(python, serverPy, addr, "sse") })
	}
	withNode := func(transport string) func(addr string) *exec.Cmd {
		return func(addr string) *exec.Cmd {
			cmd := exec.Command(l.node.Binary, everythingJS, transport)
			cmd.Env = append(os.Environ(), "PORT="+addr[strings.LastIndexByte(addr, ':')+1:])
			return cmd
		}
	}
	return []upstream{
		{name: "everything", kind: everything, url: http("/mcp", withNode("streamableHttp"))},
		// The configuration does not say that these use HTTP+SSE; the gateway finds out.
		{name: "everything-sse", kind: everything, sse: true, url: http("/sse", withNode("sse"))},
		{name: "python1-sse", kind: python, sse: true, url: withPythonSSE(l.python1)},
		{name: "python2-sse", kind: python, sse: true, url: withPythonSSE(l.python2)},
		{name: "everything-stdio", kind: everything, command: []string{l.node.Binary, everythingJS, "stdio"}},
		{name: "files", kind: filesystem, command: []string{l.node.Binary, filesystemJS, l.files}},
		{name: "python1", kind: python, url: withPython(l.python1)},
		{name: "python1-stdio", kind: python, command: []string{l.python1, serverPy, "stdio"}},
		{name: "python2", kind: python, url: withPython(l.python2)},
		{name: "python2-stdio", kind: python, command: []string{l.python2, serverPy, "stdio"}},
	}
}

// upstreamsSection returns the section upstreams of the gateway's configuration. JSON is valid YAML.
func upstreamsSection(t *testing.T, upstreams []upstream) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("upstreams:\n")
	for _, u := range upstreams {
		entry := map[string]any{"name": u.name}
		if u.url != "" {
			entry["url"] = u.url
		} else {
			entry["command"] = u.command
		}
		if u.env != nil {
			entry["env"] = u.env
		}
		if u.revision != "" {
			entry["revision"] = u.revision
		}
		line, err := json.Marshal(entry)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "  - %s\n", line)
	}
	return b.String()
}
