package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// inFrontOf starts a gateway with one scripted server, called "up".
func inFrontOf(t *testing.T, s *mcptest.Server) (url string) {
	t.Helper()
	return start(t, gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: s.URL}}})
}

// eachPair runs a test for each pair of eras with scripted peers. The server has the tool
// "do", which the test scripts.
func eachPair(t *testing.T, test func(t *testing.T, clientRevision string, s *mcptest.Server)) {
	for _, c := range []string{statefulClient, stateless} {
		for _, s := range []string{statefulServer, stateless} {
			t.Run("client "+c+" server "+s, func(t *testing.T) {
				server := scripted(t, s)
				server.Tools("do")
				test(t, c, server)
			})
		}
	}
}

func isMethod(method string) func(mcptest.Received) bool {
	return func(r mcptest.Received) bool { return r.Method == method }
}

func TestMergedListsAreWholeAndStable(t *testing.T) {
	a, b := scripted(t, statefulServer), scripted(t, stateless)
	pages := map[string]string{ // the cursor of the second page is the empty string
		"first": `{"tools":[{"name":"zeta","inputSchema":{"type":"object"}},{"name":"alpha","inputSchema":{"type":"object"}}],"nextCursor":""}`,
		"":      `{"tools":[{"name":"mid","inputSchema":{"type":"object"}}],"nextCursor":"third"}`,
		"third": `{"tools":[{"name":"beta","inputSchema":{"type":"object"}}]}`,
	}
	a.On("tools/list", func(c *mcptest.Call) {
		cursor := "first"
		c.Param("cursor", &cursor)
		c.Result(pages[cursor])
	})
	b.Tools("omega", "alpha")
	url := start(t, gateway.Config{Upstreams: []upstream.Config{{Name: "b", URL: b.URL}, {Name: "a", URL: a.URL}}})
	want := []string{"b__alpha", "b__omega", "a__alpha", "a__beta", "a__mid", "a__zeta"}
	for _, revision := range []string{statefulClient, stateless} {
		c := raw(t, url, revision)
		first, _, err := c.Call(deadline(t), "tools/list", "")
		if got := names(t, first, "tools"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", revision, got, err, want)
		}
		if _, _, err := c.Call(deadline(t), "tools/call", `{"name":"a__alpha"}`); err != nil {
			t.Error(err)
		}
		again, _, err := c.Call(deadline(t), "tools/list", "")
		if err != nil || string(again.Result) != string(first.Result) {
			t.Errorf("the list changed after a call: %s", again.Result)
		}
	}
}

func TestAFailingUpstreamFailsNoList(t *testing.T) {
	bad, good := scripted(t, statefulServer), scripted(t, statefulServer)
	bad.On("tools/list", func(c *mcptest.Call) { c.Error(-32603, "out of order") })
	good.Tools("fine")
	url := start(t, gateway.Config{Upstreams: []upstream.Config{{Name: "bad", URL: bad.URL},
		{Name: "good", URL: good.URL}}})
	c := raw(t, url, stateless)
	list, _, err := c.Call(deadline(t), "tools/list", "")
	if got := names(t, list, "tools"); err != nil || !slices.Equal(got, []string{"good__fine"}) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAHangingUpstreamDelaysNobody(t *testing.T) {
	t.Parallel()
	hanging, good := scripted(t, statefulServer), scripted(t, statefulServer)
	hanging.On("initialize", (*mcptest.Call).Hang)
	good.Tools("fine")
	good.Tool("fine", func(c *mcptest.Call) { c.Text("fine") })
	g, stop, err := launch(gateway.Config{Upstreams: []upstream.Config{
		{Name: "hanging", URL: hanging.URL, Timeout: upstream.Timeout{Connect: time.Hour}}, {Name: "good", URL: good.URL},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	if _, err := hanging.Await(deadline(t), "the handshake that hangs", isMethod("initialize")); err != nil {
		t.Fatal(err)
	}
	c := raw(t, g.URL(), stateless)
	for {
		list, _, err := c.Call(deadline(t), "tools/list", "")
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(names(t, list, "tools"), []string{"good__fine"}) {
			break
		}
	}
	if answer, _, err := c.Call(deadline(t), "tools/call", `{"name":"good__fine"}`); err != nil || said(answer) != "fine" {
		t.Errorf("%s, %v", answer.Text, err)
	}
}

func TestCancellationInBothDialects(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, revision string, s *mcptest.Server) {
		started, ended := make(chan mcptest.Received, 1), make(chan struct{})
		s.Tool("do", func(c *mcptest.Call) {
			c.Progress(1)
			started <- c.Received
			<-c.Done()
			close(ended)
		})
		c := raw(t, inFrontOf(t, s), revision)
		x, err := c.SendID(deadline(t), `"mine"`, "tools/call", `{"name":"up__do","_meta":{"progressToken":"p"}}`)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.Until("notifications/progress"); err != nil {
			t.Fatal(err)
		}
		call := receive(t, "the call", started)
		if revision == stateless {
			x.Close()
		} else if status, err := c.Notify(deadline(t), "notifications/cancelled",
			`{"requestId":"mine","reason":"enough"}`); err != nil || status != 202 {
			t.Fatalf("cancelling: status %d, %v", status, err)
		}
		receive(t, "the end of the call at the server", ended)
		if call.Session != "" {
			got, err := s.Await(deadline(t), "the cancellation", isMethod("notifications/cancelled"))
			var id json.RawMessage
			if err != nil || !got.Param("requestId", &id) || string(id) != string(call.ID) || got.Session != call.Session {
				t.Errorf("the server was told %s in session %q, want request %s in %q: %v",
					got.Text, got.Session, call.ID, call.Session, err)
			}
		}
		if revision != stateless {
			if m, err := x.Response(); err == nil {
				t.Errorf("after the cancellation came %s", m.Text)
			}
			x.Close()
		}
	})
}

func TestATimeoutCancelsUpstream(t *testing.T) {
	t.Parallel()
	mcptest.Long(t)
	eachPair(t, func(t *testing.T, revision string, s *mcptest.Server) {
		t.Parallel() // it takes as long as the limit, which is long enough to reach the server
		ended := make(chan struct{})
		s.Tool("do", func(c *mcptest.Call) {
			c.Hang()
			close(ended)
		})
		url := start(t, gateway.Config{Upstreams: []upstream.Config{
			{Name: "up", URL: s.URL, Timeout: upstream.Timeout{Call: 10 * time.Second}},
		}})
		answer, _, err := raw(t, url, revision).Call(deadline(t), "tools/call", `{"name":"up__do"}`)
		if err != nil || answer.Error == nil || answer.Error.Code != 50401 || !strings.Contains(answer.Error.Message, "up") {
			t.Errorf("%s, %v: want 50401 that names the upstream", answer.Text, err)
		}
		receive(t, "the end of the call at the server", ended)
	})
}

func TestReservedMetaStaysOnItsSide(t *testing.T) {
	eachPair(t, func(t *testing.T, revision string, s *mcptest.Server) {
		s.Tool("do", func(c *mcptest.Call) {
			c.Result(`{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"inner","version":"1"},"example.com/kept":[1.0,12345678901234567890]}}`)
		})
		c := raw(t, inFrontOf(t, s), revision)
		answer, _, err := c.Call(deadline(t), "tools/call",
			`{"name":"up__do","arguments":{"n":12345678901234567890},"_meta":{"example.com/trace":"abc"}}`)
		if err != nil || answer.Error != nil {
			t.Fatalf("%s, %v", answer.Text, err)
		}
		var kept json.RawMessage
		if !answer.Value("_meta|example.com/kept", &kept) || string(kept) != "[1.0,12345678901234567890]" {
			t.Errorf("the vendor's _meta came as %s in %s", kept, answer.Text)
		}
		var server string
		if answer.Value("_meta|io.modelcontextprotocol/serverInfo|name", &server); server == "inner" {
			t.Error("serverInfo is the upstream's")
		}
		call := s.Received("tools/call")[0]
		var meta map[string]json.RawMessage
		call.Param("_meta", &meta)
		if string(meta["example.com/trace"]) != `"abc"` {
			t.Errorf("the vendor's _meta did not arrive: %s", call.Text)
		}
		var number json.RawMessage
		if call.Param("arguments|n", &number); string(number) != "12345678901234567890" {
			t.Errorf("the number arrived as %s", number)
		}
		for key := range meta {
			if strings.HasPrefix(key, "io.modelcontextprotocol/") && call.Session != "" {
				t.Errorf("%s reached a stateful server", key)
			}
		}
		var info string
		if call.Session == "" && (!call.Param("_meta|io.modelcontextprotocol/clientInfo|name", &info) || info == "mcptest") {
			t.Errorf("the server was told that its client is %q", info)
		}
	})
}

func TestCapabilitiesNeverGrow(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, revision string, s *mcptest.Server) {
		s.Tool("do", func(c *mcptest.Call) { c.Text("ok") })
		url := inFrontOf(t, s)
		for _, caps := range []string{`{}`, `{"elicitation":{}}`} {
			c := rawWith(t, url, revision, caps)
			if answer, _, err := c.Call(deadline(t), "tools/call", `{"name":"up__do"}`); err != nil || answer.Error != nil {
				t.Fatalf("%s, %v", answer.Text, err)
			}
			calls := s.Received("tools/call")
			last := calls[len(calls)-1]
			declared := map[string]json.RawMessage{}
			if last.Session == "" {
				last.Param("_meta|io.modelcontextprotocol/clientCapabilities", &declared)
			} else {
				for _, hello := range s.Received("initialize") {
					clear(declared) // what remains is from this session
					hello.Param("capabilities", &declared)
				}
			}
			for name := range declared {
				if !strings.Contains(caps, name) {
					t.Errorf("a client with %s was announced with %s", caps, name)
				}
			}
			if _, ok := declared["elicitation"]; !ok && caps != `{}` {
				t.Errorf("elicitation was not announced: %v", declared)
			}
		}
	})
}

func TestUpstreamSessions(t *testing.T) {
	s := scripted(t, statefulServer)
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) { c.Text("ok") })
	c := raw(t, inFrontOf(t, s), statefulClient)
	call := func() mcptest.Received {
		t.Helper()
		answer, _, err := c.Call(deadline(t), "tools/call", `{"name":"up__do"}`)
		if err != nil || answer.Error != nil {
			t.Fatalf("%s, %v", answer.Text, err)
		}
		calls := s.Received("tools/call")
		return calls[len(calls)-1]
	}
	if level, _, err := c.Call(deadline(t), "logging/setLevel", `{"level":"warning"}`); err != nil || level.Error != nil {
		t.Fatalf("%s, %v", level.Text, err)
	}
	if sub, _, err := c.Call(deadline(t), "resources/subscribe", `{"uri":"up+test://x"}`); err != nil || sub.Error != nil {
		t.Fatalf("%s, %v", sub.Text, err)
	}
	first := call()
	if first.Session == "" || first.Header.Get("Mcp-Protocol-Version") != statefulServer {
		t.Errorf("the call came with session %q and version %q", first.Session, first.Header.Get("Mcp-Protocol-Version"))
	}
	leveled := func(session string) {
		t.Helper()
		level, err := s.Await(deadline(t), "the level in session "+session, func(r mcptest.Received) bool {
			return r.Method == "logging/setLevel" && r.Session == session
		})
		var name string
		if err != nil || !level.Param("level", &name) || name != "warning" {
			t.Errorf("the level was set by %s, %v", level.Text, err)
		}
	}
	leveled(first.Session) // it was opened after the client had set it
	s.Forget()
	second := call() // repeated invisibly
	if second.Session == first.Session {
		t.Error("there is no new session")
	}
	leveled(second.Session)
	_, err := s.Await(deadline(t), "the subscription in a new session", func(r mcptest.Received) bool {
		var uri string
		return r.Method == "resources/subscribe" && r.Session == second.Session && r.Param("uri", &uri) && uri == "test://x"
	})
	if err != nil {
		t.Errorf("%v", err)
	}
	for _, hello := range s.Received("initialize") {
		if hello.Session != "" {
			t.Errorf("initialize carried the session %q", hello.Session)
		}
	}
	if n := len(s.Received("tools/call")); n != 3 { // the first, the refused and the repeated one
		t.Errorf("%d calls reached the server, want 3", n)
	}
}

func TestNoSharedUpstreamSessions(t *testing.T) {
	s := scripted(t, statefulServer)
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) { c.Text("ok") })
	url := inFrontOf(t, s)
	seen := map[string]bool{}
	for i := range 3 {
		c := raw(t, url, statefulClient)
		if answer, _, err := c.Call(deadline(t), "tools/call", `{"name":"up__do"}`); err != nil || answer.Error != nil {
			t.Fatalf("%s, %v", answer.Text, err)
		}
		calls := s.Received("tools/call")
		session := calls[i].Session
		if session == "" || seen[session] {
			t.Errorf("client %d uses the session %q, as another one does", i, session)
		}
		seen[session] = true
		if i == 0 {
			continue
		}
		if status, err := c.Delete(deadline(t)); err != nil || status/100 != 2 {
			t.Errorf("DELETE: %d, %v", status, err)
		}
		_, err := s.Await(deadline(t), "the end of the upstream session", func(r mcptest.Received) bool {
			return r.HTTP == "DELETE" && r.Session == session
		})
		if err != nil {
			t.Errorf("%v", err)
		}
	}
}

func TestUnicodeNamesInHeaders(t *testing.T) {
	s := scripted(t, stateless)
	s.On("resources/list", func(c *mcptest.Call) {
		c.Result(fmt.Sprintf(`{"resources":[{"name":"u","uri":%q}]}`, unicodeURI))
	})
	s.On("resources/read", func(c *mcptest.Call) {
		c.Result(fmt.Sprintf(`{"contents":[{"uri":%q,"text":"here"}]}`, unicodeURI))
	})
	c := connect(t, inFrontOf(t, s), statefulClient)
	got, err := c.ReadResource(deadline(t), &sdk.ReadResourceParams{URI: "up+" + unicodeURI})
	if err != nil || got.Contents[0].Text != "here" || got.Contents[0].URI != "up+"+unicodeURI {
		t.Errorf("%+v, %v", got, err)
	}
	const want = "=?base64?dGVzdDovL8O8bmljb2RlL+aWhw==?="
	if name := s.Received("resources/read")[0].Header.Get("Mcp-Name"); name != want {
		t.Errorf("Mcp-Name %s, want %s", name, want)
	}
}

func TestTraceContext(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	eachPair(t, func(t *testing.T, revision string, s *mcptest.Server) {
		s.Tool("do", func(c *mcptest.Call) { c.Text("ok") })
		c := raw(t, inFrontOf(t, s), revision)
		answer, _, err := c.Call(deadline(t), "tools/call",
			fmt.Sprintf(`{"name":"up__do","_meta":{"traceparent":%q}}`, parent))
		if err != nil || answer.Error != nil {
			t.Fatalf("%s, %v", answer.Text, err)
		}
		var got string
		s.Received("tools/call")[0].Param("_meta|traceparent", &got)
		if len(got) != len(parent) || got[:36] != parent[:36] {
			t.Errorf("traceparent arrived as %q, want the trace of %q", got, parent)
		}
	})
}
