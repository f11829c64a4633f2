//go:build interop

package interop

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// signer is a client with its own OAuth client, and how it signs in.
type signer struct {
	name  string
	calls string // what it calls itself
	// id is its client_id: that of its document (CIMD), or one that the gateway's configuration names.
	// registers says that it registers itself (DCR).
	id string
	// sees says that it notices an old token by the gateway's refusal; else by its own clock.
	sees bool
	// restarts says that the gateway is started anew before that, and the client has to register again.
	restarts bool
	// do lists the tools, calls one, lets an hour pass and calls it again.
	do func(t *testing.T, look func(*mcptest.Tab, string)) []outcome
}

// registers is in place of the id of clients that register themselves: their ids begin with it.
const registers = "dcr_"

// clients returns the clients that are tried at a provider.
func (e *everybody) clients(t *testing.T, provider string) []signer {
	all := []signer{
		{"TypeScript SDK v2 with a document", "interop", document, true, false,
			e.byScript("v2", "auto", "browser", document)},
		{"Python SDK v2", "interop", registers, false, false, e.byPython(e.python2)},
		{"Go SDK", "interop", registers, false, false, e.byGo(registers)},
		{"Go SDK with a document", "interop", document, false, false, e.byGo(document)},
		{"Go SDK with an id of the operator's", "Ada's desktop", named, false, false, e.byGo(named)},
	}
	switch provider {
	case "okta":
		return append(all, signer{"Inspector with a document", "interop", document, true, false,
			e.byInspector("--client-metadata-url", document)})
	case "keycloak":
		return append(all,
			signer{"Inspector after a restart", "MCP Inspector", registers, true, true, e.byInspector()},
			signer{"the bridge after a restart", "Gatehouse", registers, true, true, e.byScript("v2", "legacy")},
			signer{"mcp-remote with a document", "interop", document, true, false,
				e.byScript("remote", "--client-metadata-url "+document)},
		)
	}
	return append(all,
		signer{"TypeScript SDK v1", "interop", registers, true, false, e.byScript("v1", "legacy", "browser")},
		signer{"TypeScript SDK v2", "interop", registers, true, false, e.byScript("v2", "legacy", "browser")},
		signer{"Python SDK v1 with a document", "interop", document, false, false, e.byPython(e.python1, document)},
		signer{"Inspector", "MCP Inspector", registers, true, false, e.byInspector()},
		signer{"mcp-remote", "MCP CLI Proxy", registers, true, false, e.byScript("remote", "")},
		signer{"the bridge", "Gatehouse", registers, true, false, e.byScript("v2", "legacy")},
	)
}

// theSteps are what each client does.
func theSteps() []step {
	add := callTool("up__add", nil)
	return []step{{Method: "tools/list"}, add, {Method: "account/age", Params: object{"seconds": 3600}}, add}
}

// try signs a user in with a client, and looks at what passed.
func (e *everybody) try(t *testing.T, c signer) {
	var between func()
	signIns := 1
	if c.restarts {
		between, signIns = e.restart, 2
	}
	e.front.begin(between)
	e.calls = len(e.upstream.Received("tools/call"))
	asked := 0
	outcomes := c.do(t, func(tab *mcptest.Tab, at string) {
		asked++
		e.signIn(t, tab, at, c.calls)
	})
	if asked != signIns {
		t.Errorf("the browser was opened %d times, want %d", asked, signIns)
	}
	var tools []string
	for _, raw := range outcomes[0].Result.Tools {
		tools = append(tools, nameOf(t, raw))
	}
	if !slices.Equal(tools, []string{"up__add"}) {
		t.Errorf("tools: %q", tools)
	}
	for _, o := range []outcome{outcomes[1], outcomes[len(outcomes)-1]} {
		wantText("added")(t, o)
	}
	all, tokens := e.front.seen()
	e.checkWay(t, c, all)
	e.checkUpstream(t, tokens)
}

// signIn is what the user does in the browser: says at the provider who it is, and allows the client.
func (e *everybody) signIn(t *testing.T, tab *mcptest.Tab, at, name string) {
	page := tab.Open(t.Context(), at, "")
	consents := 0
	for range 5 {
		switch {
		case page.Has("user"):
			page.Fill(t, "user", "ada")
			page = tab.Press(t.Context(), page, "Go on", "")
		case page.Has("yes"):
			page = tab.Press(t.Context(), page, "Go on", "")
		case strings.HasPrefix(page.URL.String(), strings.TrimSuffix(e.front.URL, "mcp")+"oauth/"):
			if consents++; !strings.Contains(page.Text, name) || !strings.Contains(page.Text, "A program on this computer") {
				t.Errorf("the gateway asks: %s", page)
			}
			page = tab.Press(t.Context(), page, "allow", "")
		default:
			if page.Status != 200 || consents != 1 {
				t.Errorf("after %d questions: %s", consents, page)
			}
			return
		}
	}
	t.Errorf("there is no end: %s", page)
}

// checkWay checks that a client came all the way.
func (e *everybody) checkWay(t *testing.T, c signer, all []*passed) {
	want := []string{
		"POST /mcp 401",
		"GET /.well-known/oauth-protected-resource/mcp 200",
		"GET /.well-known/oauth-authorization-server/mcp 200",
	}
	signIn := []string{"GET /oauth/authorize 303", "GET /oauth/callback 200", "POST /oauth/consent 303",
		"POST /oauth/token authorization_code 200", "POST /mcp with a token 200"}
	if c.id == registers {
		signIn = slices.Insert(signIn, 0, "POST /oauth/register 201")
	}
	want = append(want, signIn...)
	if c.sees {
		want = append(want, "POST /mcp with a token 401")
	}
	if c.restarts {
		want = append(append(want, "POST /oauth/token refresh_token 401"), signIn...)
	} else {
		want = append(want, "POST /oauth/token refresh_token 200", "POST /mcp with a token 200")
	}
	var have strings.Builder
	for _, one := range all {
		have.WriteString(one.what + "\n")
		if len(want) > 0 && one.what == want[0] {
			want = want[1:]
		}
		switch {
		case strings.HasPrefix(one.what, "POST /oauth/register") && c.id != registers:
			t.Error("it has an id, and registers itself")
		case strings.HasPrefix(one.what, "GET /oauth/authorize"), strings.HasPrefix(one.what, "POST /oauth/token"):
			if one.client != c.id && (c.id != registers || !strings.HasPrefix(one.client, registers)) {
				t.Errorf("%s: the client is %q", one.what, one.client)
			}
			// golang.org/x/oauth2 refreshes without saying what for, which RFC 8707 §2.2 allows.
			silent := strings.HasPrefix(c.name, "Go SDK") && one.query.Get("grant_type") == "refresh_token"
			if got := one.query.Get("resource"); got != e.front.URL && !(silent && got == "") {
				t.Errorf("%s: resource is %q", one.what, got)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("%q is missing in\n%s", want, have.String())
	}
}

// checkUpstream checks that the server was called twice, and saw nothing of the client's tokens.
func (e *everybody) checkUpstream(t *testing.T, tokens []string) {
	if len(tokens) != 2 {
		t.Errorf("%d tokens were given", len(tokens))
	}
	if calls := len(e.upstream.Received("tools/call")) - e.calls; calls != 2 {
		t.Errorf("the server was called %d times", calls)
	}
	for _, got := range e.upstream.Received("") {
		for name, values := range got.Header {
			for _, token := range tokens {
				if name == "Authorization" || strings.Contains(strings.Join(values, " "), token) {
					t.Errorf("the server got the header %s: %q", name, values)
				}
			}
		}
	}
}

// byScript runs a client on a TypeScript SDK.
func (e *everybody) byScript(args ...string) func(*testing.T, func(*mcptest.Tab, string)) []outcome {
	return func(t *testing.T, look func(*mcptest.Tab, string)) []outcome {
		args := slices.Insert(slices.Clone(args), 2, e.front.URL)
		steps := slices.DeleteFunc(theSteps(), func(s step) bool { return s.Method == "account/age" }) // the front does that
		env := []string{"MCP_REMOTE_CONFIG_DIR=" + t.TempDir()}
		if len(args) == 3 && args[0] == "v2" { // who signs in is not the client
			env = []string{"BRIDGE=" + e.lab.gateway, "XDG_STATE_HOME=" + t.TempDir()}
		}
		return e.report(t, steps, e.desk.run(t, look, e.node.Dir, env, marshal(t, steps),
			append([]string{e.node.Binary, "client.mjs"}, args...)...))
	}
}

// byPython runs a client on a Python SDK.
func (e *everybody) byPython(python string, args ...string) func(*testing.T, func(*mcptest.Tab, string)) []outcome {
	return func(t *testing.T, look func(*mcptest.Tab, string)) []outcome {
		script := e.checkout.Path("internal", "interop", "python", "client.py")
		command := append([]string{python, "-B", script, e.front.URL, "browser"}, args...)
		return e.report(t, theSteps(), e.desk.run(t, look, "", nil, marshal(t, theSteps()), command...))
	}
}

// byInspector runs the Inspector's command line once for each step.
func (e *everybody) byInspector(args ...string) func(*testing.T, func(*mcptest.Tab, string)) []outcome {
	return func(t *testing.T, look func(*mcptest.Tab, string)) (all []outcome) {
		addr := mcptest.LoopbackAddress(t)
		// Where there is no keychain, as in a container, it may keep tokens for no longer than it runs.
		env := []string{"HOME=" + t.TempDir(), "MCP_AUTO_OPEN_ENABLED=true", "MCP_INSPECTOR_SECRET_STORE=file"}
		call := []string{"tools/call", "--tool-name", "up__add"}
		for _, method := range [][]string{{"tools/list"}, call, call} {
			command := append([]string{e.node.Binary, e.node.Module(".bin", "mcp-inspector"), "--cli", "--server-url",
				e.front.URL, "--transport", "http",
				"--callback-url", "http://" + addr + "/oauth/callback", "--connect-timeout", "0", "--format", "json", "--quiet",
				"--method"}, append(method, args...)...)
			var o outcome
			if out := e.desk.run(t, look, e.node.Dir, env, nil, command...); json.Unmarshal(out, &o) != nil {
				t.Fatalf("the Inspector wrote %q", out)
			}
			all = append(all, o)
		}
		return all
	}
}

// report reads what a client wrote.
func (e *everybody) report(t *testing.T, steps []step, out []byte) []outcome {
	t.Helper()
	var r report
	if err := json.Unmarshal(out, &r); err != nil || len(r.Outcomes) != len(steps) {
		t.Fatalf("the client wrote %q: %v", out, err)
	}
	return r.Outcomes
}

func marshal(t *testing.T, steps []step) []byte {
	t.Helper()
	input, err := json.Marshal(steps)
	if err != nil {
		t.Fatal(err)
	}
	return input
}
