package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

const approversConfig = `listen: %q
public_url: "http://%[1]s/mcp"
auth: {mode: oauth, issuers: [{url: %q}]}
admin: {listen: %q, api: {tokens: [{name: ops, role: operator, token: ` + operatorToken + `}]}}
upstreams: [{name: up, url: %q}]
policy:
  rules:
  - name: second
    allow: ["tools:up/work"]
    ask: ["tools:up/work"]
    approvers: {who: {groups: [changers]}}
`

// TestApprovals: an approver sees what would run, and decides; a reload has the new rules decide.
func TestApprovals(t *testing.T) {
	addresses := [...]string{mcptest.LoopbackAddress(t), mcptest.LoopbackAddress(t)}
	server := mcptest.NewServer(wire.NewestStateful())
	t.Cleanup(server.Close)
	server.Tools("work")
	server.On("tools/call", func(c *mcptest.Call) { c.Text("done") })
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{})
	t.Cleanup(issuer.Close)
	issuer.Audience = fmt.Sprintf("http://%s/mcp", addresses[0])
	file, text := filepath.Join(t.TempDir(), "gatehouse.yaml"),
		fmt.Sprintf(approversConfig, addresses[0], issuer.URL, addresses[1], server.URL)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	g := startFrom(t, file)
	client := mcptest.NewClient(g.URL(), wire.NewestStateful())
	client.Header = map[string][]string{"Authorization": {"Bearer " + issuer.Token(map[string]any{"sub": "alice"})}}
	if err := client.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	begin := func(arguments string) *mcptest.Exchange {
		t.Helper()
		x, err := client.Send(t.Context(), "tools/call",
			`{"name":"up__work","arguments":`+arguments+`,"_meta":{"progressToken":1}}`)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.Until("notifications/progress"); err != nil {
			t.Fatal(err)
		}
		return x
	}
	ends := func(x *mcptest.Exchange, want string) {
		t.Helper()
		defer x.Close()
		if m, err := x.Response(); err != nil || !strings.Contains(m.Text, want) {
			t.Errorf("got %s, %v, want %s", m.Text, err, want)
		}
	}
	command := func(input string, args ...string) (stdout, stderr string, code int) {
		var out, problems bytes.Buffer
		code = run(append(args, "--config", file), strings.NewReader(input), &out, &problems)
		return out.String(), problems.String(), code
	}

	if _, told, code := command("", "approvals"); code != 0 || told != "nothing waits\n" {
		t.Errorf("%d %s", code, told)
	}
	call := begin(`{"n":1,"text":"a\u001bb","n":2}`)
	out, _, code := command("", "approvals") // with the token of the configuration
	if code != 0 || !strings.Contains(out, "tools/call up/work") || strings.Contains(out, `"n"`) {
		t.Errorf("an operator sees %s", out)
	}
	t.Setenv(tokenVariable, issuer.Token(map[string]any{"sub": "bob", "groups": []string{"changers"}}))
	out, _, _ = command("", "approvals")
	for _, want := range []string{"user       alice of " + issuer.URL, "rule       second at " + file + ":8", `  "n": 1,`,
		`  "n": 2`, `"text": "a\u001bb",`} {
		if !strings.Contains(out, want) {
			t.Errorf("bob does not see %q:\n%s", want, out)
		}
	}
	out, _, _ = command("", "approvals", "--json")
	var all struct{ Approvals []admin.Approval }
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all.Approvals) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	id := all.Approvals[0].ID
	for _, no := range []string{"", "n\n", "what\n"} {
		if _, told, code := command(no, "approve", id); code != 1 || !strings.Contains(told, `"n": 1,`) ||
			!strings.Contains(told, "nothing was decided: the call waits") {
			t.Errorf("%q: %d %s", no, code, told)
		}
	}
	if _, told, code := command("y\n", "approve", "none"); code != 1 ||
		!strings.Contains(told, "no call none waits for your decision") {
		t.Errorf("%d %s", code, told)
	}
	if out, told, code := command("y\n", "approve", id); code != 0 || out != "approved "+id+"\n" {
		t.Errorf("%d %s %s", code, out, told)
	}
	ends(call, "done")

	call = begin(`{}`)
	out, _, _ = command("", "approvals", "--json")
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all.Approvals) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	if out, told, code := command("", "refuse", all.Approvals[0].ID, "--yes", "--json", "--reason",
		"not today"); code != 0 || !strings.Contains(out, `"decision":"refuse"`) {
		t.Errorf("%d %s %s", code, out, told)
	}
	ends(call, "not today")

	// What begins to wait is shown once, until the user has enough.
	call = begin(`{}`)
	ctx, enough := context.WithCancel(t.Context())
	from, to := io.Pipe()
	follow := newRoot()
	follow.SetArgs([]string{"approvals", "--follow", "--json", "--config", file})
	follow.SetOut(to)
	ended := make(chan error, 1)
	go func() { ended <- follow.ExecuteContext(ctx) }()
	var shown admin.Approval
	if err := json.NewDecoder(from).Decode(&shown); err != nil || shown.User != "alice" || !shown.Mine {
		t.Errorf("%v: %+v", err, shown)
	}
	enough()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	write(strings.ReplaceAll(text, "    approvers: {who: {groups: [changers]}}\n", "    who: {groups: [none]}\n"))
	t.Setenv(tokenVariable, operatorToken)
	if out, told, code := command("", "reload"); code != 0 {
		t.Errorf("%d %s %s", code, out, told)
	}
	ends(call, "up__work") // to alice, it does not exist any more
	if n := len(server.Received("tools/call")); n != 1 {
		t.Errorf("%d calls ran", n)
	}
}
