package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// These are the scenarios of the matrix that compare messages on the wire.

func unchanged(t *testing.T, p *pair) {
	const meta, more = `"example.com/kept":` + odd, `"vendor":` + odd
	structured := `"structuredContent":` + odd
	for method, body := range map[string]string{
		"tools/call":     `"content":[{"type":"text","text":"\u00e9",` + more + `}],` + structured,
		"prompts/get":    `"messages":[{"role":"user","content":{"type":"text","text":"\u00e9",` + more + `}}]`,
		"resources/read": `"contents":[{"uri":"test://x","text":"\u00e9",` + more + `}]`,
	} {
		key := p.actor.put(t, func(c *mcptest.Call) { c.Result(`{` + body + `,"_meta":{` + meta + `},` + more + `}`) })
		m := p.wire.request(t, method, p.actor.params(method, key, `"_meta":{`+meta+`}`, more))
		for _, want := range []string{`"text":"\u00e9",` + more, meta, more} {
			if !strings.Contains(string(m.Result), want) {
				t.Errorf("%s: no %s in %s", method, want, m.Text)
			}
		}
		var got json.RawMessage
		if m.Value("vendor", &got); string(got) != odd {
			t.Errorf("%s: the member that nobody knows is %s", method, got)
		}
		if method == "tools/call" && strings.Contains(m.Text, structured) != since(p.client, "2025-06-18") {
			t.Errorf("structured content in %s", m.Text)
		}
		if text, _ := json.Marshal(odd); method == "tools/call" &&
			strings.Contains(m.Text, string(text)) == since(p.client, "2025-06-18") {
			t.Errorf("the text of the structured content in %s", m.Text)
		}
		call := p.actor.calls(key)[0]
		var kept json.RawMessage
		if call.Param("_meta|example.com/kept", &kept); string(kept) != odd {
			t.Errorf("%s: the server got _meta %s", method, call.Text)
		}
		if call.Param("vendor", &got); string(got) != odd {
			t.Errorf("%s: the server got %s", method, call.Text)
		}
	}
}

func failing(t *testing.T, p *pair) {
	notFound := -32602
	if p.server.Stateful {
		notFound = -32002
	}
	for _, e := range []struct {
		name, method     string
		code, own, newer int // from the server, and for clients with and without sessions
	}{
		{"an internal error", "tools/call", -32603, -32603, -32603},
		{"invalid params", "prompts/get", -32602, -32602, -32602},
		{"an error of the application", "tools/call", 1234, 1234, 1234},
		{"an error of the implementation", "tools/call", -32010, -32010, -32603},
		{"a resource that is not there", "resources/read", notFound, -32002, -32602},
	} {
		key := p.actor.put(t, func(c *mcptest.Call) {
			data := `{"more":` + odd + `}`
			var uri json.RawMessage
			if c.Param("uri", &uri) {
				data = `{"uri":` + string(uri) + `}`
			}
			c.Garbage(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"it broke","data":%s}}`, c.ID,
				e.code, data))
		})
		m, want := p.wire.request(t, e.method, p.actor.params(e.method, key)), e.own
		if !p.client.Stateful {
			want = e.newer
		}
		var uri struct{ URI string }
		if m.Error == nil || m.Error.Code != want || m.Error.Message != "it broke" {
			t.Errorf("%s: %s, want code %d", e.name, m.Text, want)
		} else if json.Unmarshal(m.Error.Data, &uri) == nil && e.method == "resources/read" && uri.URI != p.actor.uri(key) {
			t.Errorf("%s: %s, want the client's own URI", e.name, m.Text)
		}
	}
	for _, method := range []string{"no/method", "tasks/list"} {
		wantError(t, method, p.wire.request(t, method, "{}"), -32601)
	}
	wantError(t, "an unknown tool", p.wire.request(t, "tools/call", `{"name":"`+p.actor.name+`__nothing"}`), -32602)
	wantError(t, "no name", p.wire.request(t, "tools/call", `{"arguments":{}}`), -32602)
}

// nameless reports whether log messages of the server reach no client: all clients share
// its process, and nothing says to which call a message belongs.
func (p *pair) nameless() bool { return p.over == overStdio && !p.server.Stateful }

// during reports progress and logs during a call.
func during(t *testing.T, p *pair) {
	key := p.actor.put(t, func(c *mcptest.Call) {
		var token json.RawMessage
		c.Param("_meta|progressToken", &token)
		for i := range 3 {
			c.Notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d.0,"total":3.50,"message":"at %d"}`,
				token, i+1, i+1))
			for _, level := range []string{"info", "error"} {
				c.Notify("notifications/message", fmt.Sprintf(`{"level":%q,"logger":"l","data":{"i":%d,"odd":%s}}`, level, i, odd))
			}
		}
		c.Text("ok")
	})
	if p.client.Stateful {
		if m := p.wire.request(t, "logging/setLevel", `{"level":"warning"}`); string(m.Result) != "{}" {
			t.Fatal(m.Text)
		}
	} else {
		p.wire.LogLevel = "warning"
		defer func() { p.wire.LogLevel = "" }()
	}
	const token = `"t\u00e9"`
	f := p.wire.send(t, "tools/call", p.actor.params("tools/call", key, `"_meta":{"progressToken":`+token+`}`))
	defer f.close()
	answer, before := f.response(t)
	var got []string
	for _, m := range before {
		if m.Method == "notifications/progress" || m.Method == "notifications/message" {
			got = append(got, string(m.Params))
		}
	}
	var want []string
	for i := range 3 {
		message := fmt.Sprintf(`,"message":"at %d"`, i+1)
		if !since(p.client, "2025-03-26") {
			message = ""
		}
		want = append(want, fmt.Sprintf(`{"progressToken":%s,"progress":%d.0,"total":3.50%s}`, token, i+1, message))
		if !p.nameless() {
			want = append(want, fmt.Sprintf(`{"level":"error","logger":"%s/l","data":{"i":%d,"odd":%s}}`, p.actor.name, i, odd))
		}
	}
	if said(answer) != "ok" || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("before %s came\n%s\nwant\n%s", answer.Text, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// together makes three calls, two of them at one server, and cancels one of these.
func together(t *testing.T, p *pair) {
	begun, over := make(chan mcptest.Received, 3), make(chan struct{})
	ended := make(chan struct{})
	begin := func(c *mcptest.Call) {
		c.Progress(1) // the client waits for nothing more
		begun <- c.Received
	}
	finish := func(c *mcptest.Call) {
		begin(c)
		select {
		case <-over:
			c.Text("done")
		case <-c.Done():
			t.Errorf("the wrong call was cancelled")
		}
	}
	cancelled := p.actor.put(t, func(c *mcptest.Call) {
		begin(c)
		<-c.Done()
		close(ended)
	})
	beside, elsewhere := p.actor.put(t, finish), p.other.put(t, finish)
	call := func(s *actor, key string) *flow {
		return p.wire.send(t, "tools/call", s.params("tools/call", key, `"_meta":{"progressToken":"p"}`))
	}
	flows := map[string]*flow{beside: call(p.actor, beside), elsewhere: call(p.other, elsewhere)}
	f := call(p.actor, cancelled)
	for range 3 {
		receive(t, "the beginning of a call", begun)
	}
	if p.client.Stateful {
		p.wire.say(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"enough"}}`, f.id))
	} else {
		f.close()
	}
	receive(t, "the end of the call at the server", ended)
	if call := p.actor.calls(cancelled)[0]; p.server.Stateful || p.over == overStdio {
		_, err := p.actor.Await(deadline(t), "the cancellation", func(r mcptest.Received) bool {
			var id json.RawMessage
			return r.Method == "notifications/cancelled" && r.Param("requestId", &id) && string(id) == string(call.ID) &&
				r.Session == call.Session
		})
		if err != nil {
			t.Errorf("%v", err)
		}
	}
	close(over)
	for key, f := range flows {
		if answer, _ := f.response(t); said(answer) != "done" {
			t.Errorf("%s: %s", key, answer.Text)
		}
		f.close()
	}
	if p.client.Stateful {
		f.close()
	}
}

// lost loses the client's session at the server between two calls.
func lost(t *testing.T, p *pair) {
	if !p.server.Stateful {
		cannot(t, "the server's revision has no sessions")
	}
	if p.over == overStdio {
		cannot(t, "a process has its session as long as it runs; that it is started again shows TestProcessPerSession of package upstream")
	}
	key := p.actor.put(t, func(c *mcptest.Call) { c.Text("ok") })
	for range 3 {
		if m := p.wire.request(t, "tools/call", p.actor.params("tools/call", key)); said(m) != "ok" {
			t.Fatalf("%s", m.Text)
		}
		calls := p.actor.calls(key)
		last := calls[len(calls)-1].Session
		for _, call := range calls[:len(calls)-1] {
			if call.Session == last {
				t.Errorf("the session %s is used again", last)
			}
		}
		p.actor.Lose(last)
	}
	if n := len(p.actor.calls(key)); n != 3 {
		t.Errorf("%d calls were made for 3", n)
	}
}
