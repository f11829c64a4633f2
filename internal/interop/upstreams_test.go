//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// upstream is a server behind the gateway. Either command or url is set.
type upstream struct {
	name    string
	url     string
	command []string
	kind    kind
	sse     bool // over HTTP+SSE
	// revision is the one that the gateway is to speak; "" for what it finds out.
	revision string
}

type kind int

const (
	everything kind = iota // @modelcontextprotocol/server-everything
	filesystem             // @modelcontextprotocol/server-filesystem
	python                 // internal/interop/python/server.py
	typescript             // internal/interop/server
)

// Revisions that clients have to come out with.
const (
	stateful  = "2025-11-25"
	stateless = "2026-07-28"
)

// tool, uri: public names of an upstream's things.
func (u upstream) tool(name string) string { return u.name + "__" + name }
func (u upstream) uri(uri string) string   { return u.name + "+" + uri }

// tools are names that the upstream has to offer.
func (u upstream) tools() []string {
	switch u.kind {
	case everything:
		return []string{"echo", "get-annotated-message", "get-env", "get-resource-links", "get-resource-reference",
			"get-structured-content", "get-sum", "get-tiny-image", "gzip-file-as-resource",
			"toggle-simulated-logging", "toggle-subscriber-updates", "trigger-long-running-operation",
			// It has these for clients that can be asked, and those that they run as tasks for
			// servers, which nobody does through the gateway, for others.
			"get-roots-list", "trigger-elicitation-request", "trigger-url-elicitation", "trigger-sampling-request", "simulate-research-query"}
	case filesystem:
		return []string{"read_text_file", "list_directory", "write_file", "search_files", "list_allowed_directories"}
	case typescript:
		return []string{"echo", "count", "confirm", "sample", "roots"}
	default:
		return []string{"add", "count", "hang", "cancelled", "fail", "greet"}
	}
}

// startUpstreams starts the servers that speak HTTP and tells how the gateway
// starts the others.
func (l *lab) startUpstreams(t *testing.T) []upstream {
	t.Helper()
	everythingJS := l.node.Module("@modelcontextprotocol", "server-everything", "dist", "index.js")
	filesystemJS := l.node.Module("@modelcontextprotocol", "server-filesystem", "dist", "index.js")
	serverPy := l.checkout.Path("internal", "interop", "python", "server.py")

	http := func(path string, cmd func(addr string) *exec.Cmd) string {
		addr, err := rig.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
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
		// Nobody says that these speak HTTP+SSE: the gateway finds out.
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

// config is the upstreams section of the gateway's config; JSON is YAML too.
func config(t *testing.T, upstreams []upstream) string {
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
