//go:build interop

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// Limits of one test: for the installation (an empty cache fetches some 300 MB), for the
// start, and for all steps of one client.
const (
	installLimit = 8 * time.Minute
	readyLimit   = time.Minute
	clientLimit  = 2 * time.Minute
)

// lab holds what is installed and where.
type lab struct {
	checkout rig.Checkout
	node     rig.Node
	python1  string // with mcp 1.x
	python2  string // with mcp 2.x
	fastmcp  string // python with FastMCP
	mcpgo    string // binary of internal/interop/mcpgo
	gateway  string // binary
	files    string // folder that the filesystem server serves
}

// newLab installs and builds everything, in parallel where possible.
func newLab(t *testing.T) *lab { return lay(t, true) }

// nodeLab returns a lab without Python and mcp-go.
func nodeLab(t *testing.T) *lab { return lay(t, false) }

func lay(t *testing.T, python bool) *lab {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), installLimit)
	defer cancel()
	checkout, err := rig.FindCheckout()
	if err != nil {
		t.Fatal(err)
	}
	here := func(elem ...string) string {
		return checkout.Path(append([]string{"internal", "interop"}, elem...)...)
	}
	l := &lab{checkout: checkout, files: t.TempDir()}
	if err := os.WriteFile(filepath.Join(l.files, "note.txt"), []byte("remember the milk"), 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	install := func(what string, fn func() error) {
		wg.Go(func() {
			if err := fn(); err != nil {
				t.Errorf("installing %s: %v", what, err)
			}
		})
	}
	install("npm packages", func() (err error) {
		l.node, err = checkout.InstallNode(ctx, "interop", here("npm"), here("client"), here("server"), here("issuer"))
		return err
	})
	if python {
		install("mcp 1.x", func() (err error) {
			l.python1, err = checkout.InstallPython(ctx, "v1", here("python", "requirements-v1.txt"))
			return err
		})
		install("mcp 2.x", func() (err error) {
			l.python2, err = checkout.InstallPython(ctx, "v2", here("python", "requirements-v2.txt"))
			return err
		})
		install("FastMCP", func() (err error) {
			l.fastmcp, err = checkout.InstallPython(ctx, "fastmcp", here("python", "requirements-fastmcp.txt"))
			return err
		})
		install("mcp-go", func() (err error) {
			l.mcpgo, err = checkout.BuildOther(ctx, here("mcpgo"), ".")
			return err
		})
	}
	install("the gateway", func() (err error) {
		l.gateway, err = checkout.Build(ctx, "./cmd/gatehouse")
		return err
	})
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return l
}

// start runs a command until the test ends, and waits until it listens at addr.
func (l *lab) start(t *testing.T, addr string, cmd *exec.Cmd) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	p, err := rig.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	l.own(t, cmd.Path, p)
	if err := p.WaitListening(ctx, addr); err != nil {
		t.Fatal(err)
	}
}

// own stops a process when the test ends, and shows its log if the test failed.
func (l *lab) own(t *testing.T, name string, p *rig.Process) {
	t.Cleanup(func() {
		err := p.Stop()
		if err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, p.Log())
		}
	})
}

// client is one of the client programs and how it connects.
type client struct {
	name, sdk, mode string
	version         string // the revision that it must negotiate
	user            string // the user who signs in; "" for none
	bridge          bool   // it is a client of stdio, and gatehouse connect is between
}

// step is one action of a client.
type step struct {
	Method      string         `json:"method"`
	Params      map[string]any `json:"params,omitempty"`
	Progress    bool           `json:"progress,omitempty"`
	CancelAfter int            `json:"cancelAfter,omitempty"`
	// Await is a notification that has to come, too, and About is what it names. Listed is a tool that
	// a list has to name that is fetched after the notification of its change.
	Await  string `json:"await,omitempty"`
	About  string `json:"about,omitempty"`
	Listed string `json:"listed,omitempty"`
}

// report is the output of a client program.
type report struct {
	Version      string
	Capabilities map[string]json.RawMessage
	Instructions string
	Outcomes     []outcome
	Trace        []exchange // with a sign-in: what the SDK sent, in order
}

// exchange is an HTTP request and its answer.
type exchange struct {
	Method, URL, Session string
	Authorized           bool // with an access token
	Grant, Resource      string
	Status               int
	Challenge            string
}

// outcome is the result of one step.
type outcome struct {
	Progress []struct{ Progress, Total float64 }
	Noticed  bool // what the step awaits has come
	Error    *struct {
		Code    int
		Message string
	}
	Result struct {
		Tools, Prompts    []json.RawMessage
		Resources         []struct{ Name, URI, MimeType string }
		ResourceTemplates []struct{ Name, URITemplate string }
		Content           []content
		IsError           bool
		StructuredContent json.RawMessage
		Contents          []content
		Messages          []struct{ Content content }
		Completion        struct{ Values []string }
		Skills            []skillEntry
		Skill             skillEntry
		Instructions      string
		Files             []skillFile
	}
}

type content struct {
	Type, Text, URI, Data, Blob, MimeType string
	Resource                              *content
}

// run connects a client to an endpoint and performs the steps.
func (l *lab) run(t *testing.T, c client, url string, steps []step) report {
	t.Helper()
	input, err := json.Marshal(steps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.node.Binary, "client.mjs", c.sdk, c.mode, url)
	switch c.sdk {
	case "mcp-go":
		cmd = exec.CommandContext(ctx, l.mcpgo, "connect", c.version, url)
	case "fastmcp":
		script := l.checkout.Path("internal", "interop", "python", "fastmcp_client.py")
		cmd = exec.CommandContext(ctx, l.fastmcp, script, c.version, url)
	default:
		cmd.Dir = l.node.Dir
		if c.user != "" {
			cmd.Args = append(cmd.Args, c.user)
		}
	}
	// The filesystem server serves the client's roots as soon as it has them, and the time
	// when it asks for them varies. So the roots are the folder that it serves anyway.
	cmd.Env = append(os.Environ(), "ROOT=file://"+l.files)
	if c.bridge {
		cmd.Env = append(cmd.Env, "BRIDGE="+l.gateway, "XDG_STATE_HOME="+t.TempDir())
	}
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", c.name, err, stderr.Bytes())
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%s wrote %q: %v", c.name, out, err)
	}
	if len(r.Outcomes) != len(steps) {
		t.Fatalf("%s took %d steps of %d", c.name, len(r.Outcomes), len(steps))
	}
	return r
}
