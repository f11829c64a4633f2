package front

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// TestNullIsAbsent: a client that writes null, or an empty cursor, for what it does not mean to say
// is understood as if it had not written it.
func TestNullIsAbsent(t *testing.T) {
	b := newBench(t, Config{})
	session := http.Header{wire.HeaderSession: {b.client(v2511).Session}}
	for name, w := range map[string]struct{ method, in, want string }{
		"params":               {"tools/list", `null`, ``},
		"a cursor":             {"tools/list", `{"cursor":null}`, `{}`},
		"an empty cursor":      {"resources/templates/list", `{"cursor":"","_meta":null,"x":null}`, `{"x":null}`},
		"_meta":                {"prompts/list", `{"_meta":null}`, `{}`},
		"arguments":            {"tools/call", `{"name":"echo","arguments":null,"_meta":{}}`, `{"name":"echo","_meta":{}}`},
		"arguments of prompts": {"prompts/get", `{"arguments":null,"name":"p"}`, `{"name":"p"}`},
		"a null in arguments": {"tools/call", `{"name":"echo","arguments":{"a":null}}`,
			`{"name":"echo","arguments":{"a":null}}`},
		"a task": {"tools/call", `{"name":"echo","task":null}`, `{"name":"echo"}`},
		"a progress token": {"tools/call", `{"name":"echo","_meta":{"progressToken":null}}`,
			`{"name":"echo","_meta":{"progressToken":null}}`},
		"a context": {"completion/complete",
			`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""},"context":null}`,
			`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`},
	} {
		t.Run(name, func(t *testing.T) {
			wantAnswer{header: session, body: `{"jsonrpc":"2.0","id":1,"method":"` + w.method + `","params":` + w.in + `}`,
				status: 200}.run(t, b)
			if got := string(b.script.last(w.method).Params); got != w.want {
				t.Errorf("the call has %s, want %s", got, w.want)
			}
		})
	}
	for name, nulls := range map[string]string{
		"members of a retry": `"inputResponses":null,"requestState":null,"task":null`, "no client info": `"arguments":null`,
	} {
		t.Run("without a session, "+name, func(t *testing.T) {
			body := strings.Replace(call("1", "echo"), `"params":{`, `"params":{`+nulls+`,`, 1)
			body = strings.Replace(body, `"_meta":{`, `"_meta":{"`+wire.MetaClientInfo+`":null,"`+wire.MetaLogLevel+
				`":null,"progressToken":null,`, 1)
			wantAnswer{header: modern("tools/call", "echo"), body: body, status: 200, want: []string{`"result"`}}.run(t, b)
		})
	}
	for name, params := range map[string]string{
		"null":               `"capabilities":null,"clientInfo":null,"_meta":null`,
		"nothing":            `"_meta":{}`,
		"null in the client": `"capabilities":{"roots":null,"sampling":null},"clientInfo":{"name":"x","version":null,"title":null}`,
	} {
		t.Run("initialize with "+name, func(t *testing.T) {
			wantAnswer{body: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` + params +
				`}}`, status: 200, want: []string{`"protocolVersion":"2025-11-25"`}}.run(t, b)
		})
	}
	t.Run("an error beside a result", func(t *testing.T) {
		wantAnswer{header: session, body: `{"jsonrpc":"2.0","id":"gatehouse-1","result":{},"error":null}`,
			status: 202}.run(t, b)
	})
}

// TestArgumentsAreObjects: what is no object reaches no server as arguments.
func TestArgumentsAreObjects(t *testing.T) {
	b := newBench(t, Config{})
	session := http.Header{wire.HeaderSession: {b.client(v2511).Session}}
	for _, arguments := range []string{`[]`, `"x"`, `7`, `true`, `[{"a":1}]`} {
		for _, method := range []string{"tools/call", "prompts/get"} {
			wantAnswer{header: session, body: `{"jsonrpc":"2.0","id":1,"method":"` + method +
				`","params":{"name":"echo","arguments":` + arguments + `}}`,
				status: 200, want: []string{`-32602`, `arguments is no object`}}.run(t, b)
			wantAnswer{header: modern(method, "echo"), body: `{"jsonrpc":"2.0","id":1,"method":"` + method +
				`","params":{"name":"echo","arguments":` + arguments + `,` + meta + `}}`,
				status: 400, want: []string{`-32602`, `arguments is no object`}}.run(t, b)
		}
	}
	if made := b.script.made(); len(made) > 1 { // initialize
		t.Errorf("calls were made: %+v", made)
	}
}

// TestBeginningAgain: each initialize begins a session of its own, and leaves others alone.
func TestBeginningAgain(t *testing.T) {
	b := newBench(t, Config{})
	wantAnswer{body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, status: 200, want: []string{`"result":{}`}}.run(t, b)
	c := b.client(v2511)
	resp, text := b.send("POST",
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`,
		http.Header{wire.HeaderSession: {c.Session}})
	if id := resp.Header.Get(wire.HeaderSession); resp.StatusCode != 200 || id == "" || id == c.Session {
		t.Errorf("initialize within a session: %s, the session %q: %s", resp.Status, id, text)
	}
	echo(t, c)
}
