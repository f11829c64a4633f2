//go:build interop

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
)

// tryInspector runs the Inspector's command line in both eras, with one connection for each
// step, to where the arguments say.
func (l *lab) tryInspector(t *testing.T, upstreams []upstream, to ...string) {
	first := map[kind]upstream{}
	for _, u := range upstreams {
		if _, ok := first[u.kind]; !ok {
			first[u.kind] = u
		}
	}
	python, everything := first[python], first[everything]
	for _, mode := range []string{"legacy", "modern"} {
		for _, e := range []struct {
			title string
			args  []string
			check func(*testing.T, outcome)
		}{
			{"tools list", []string{"tools/list"}, func(t *testing.T, o outcome) {
				var names []string
				for _, raw := range o.Result.Tools {
					names = append(names, nameOf(t, raw))
				}
				containsAll(t, names, []string{python.tool("add"), everything.tool("echo")})
			}},
			{"call", []string{"tools/call", "--tool-name", everything.tool("get-sum"), "--tool-arg", "a=2", "--tool-arg", "b=3"},
				wantText("The sum of 2 and 3 is 5.")},
			{"read", []string{"resources/read", "--uri", python.uri("memo://today")}, func(t *testing.T, o outcome) {
				o.wantContents(t, python.uri("memo://today"), "nothing to do")
			}},
			{"prompt", []string{"prompts/get", "--prompt-name", python.tool("review"), "--prompt-args", "code=x"},
				wantMessage("Please review: x")},
		} {
			t.Run(mode+"/"+e.title, func(t *testing.T) {
				e.check(t, l.inspect(t, to, mode, e.args...))
			})
		}
	}
}

// inspect runs the Inspector with one method and its arguments.
func (l *lab) inspect(t *testing.T, to []string, mode string, method ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	args := append([]string{l.node.Module(".bin", "mcp-inspector"), "--cli"}, to...)
	args = append(args, "--protocol-era", mode, "--format", "json", "--quiet", "--method")
	cmd := exec.CommandContext(ctx, l.node.Binary, append(args, method...)...)
	cmd.Dir = l.node.Dir
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // it stores a catalog there
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, stderr.Bytes())
	}
	var o outcome
	if err := json.Unmarshal(out, &o); err != nil {
		t.Fatalf("the Inspector wrote %q: %v", out, err)
	}
	return o
}
