package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// newAsker is a server of a revision that asks what its caller wants: the tool "ask" asks
// under the key and with the params in its arguments; "required" fails with the error that
// a page has to be opened first. Both return the answer.
func newAsker(t *testing.T, revision string) *mcptest.Server {
	t.Helper()
	s := mcptest.NewServer(wire.Lookup(revision))
	t.Cleanup(s.Close)
	s.Tools("ask", "required")
	s.On("tools/call", func(c *mcptest.Call) {
		var name, key, params string
		c.Param("name", &name)
		c.Param("arguments|key", &key)
		c.Param("arguments|params", &params)
		var given map[string]json.RawMessage
		c.Param("inputResponses", &given)
		switch {
		case name == "required":
			c.Garbage(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"go there","data":{"elicitations":[%s]}}}`, c.ID, params))
		case revision != statelessRev:
			m, err := c.Ask("elicitation/create", params)
			switch {
			case err != nil:
			case m.Error != nil:
				c.Text("refused: " + m.Error.Message)
			default:
				c.Text("answered: " + string(m.Result))
			}
		case given == nil:
			c.Result(fmt.Sprintf(`{"resultType":"input_required","requestState":"s","inputRequests":{%q:{"method":"elicitation/create","params":%s}}}`, key, params))
		default:
			text, _ := json.Marshal(given) // it was parsed from JSON
			c.Text("answered: " + string(text))
		}
	})
	return s
}

// asker returns the params of a call that makes an asker ask.
func asker(tool, key, params string) string {
	return fmt.Sprintf(`{"name":%q,"arguments":{"key":%q,"params":%q}}`, tool, key, params)
}

// asked is what a client was asked during a call: how often, the last key (of stateless
// clients) and its params; or how the call ended.
type asked struct {
	times    int
	key      string
	params   struct{ Mode, Message, URL string }
	response mcptest.Message
}

// converse makes a call and gives each question the same answer, at most three times.
func converse(t *testing.T, c *mcptest.Client, params, answer string) (got asked, err error) {
	t.Helper()
	next := params
	for range 4 {
		x, err := c.Send(deadline(t), "tools/call", next)
		if err != nil {
			return got, err
		}
		defer x.Close()
		m, err := x.Next()
		for ; err == nil && !m.IsResponse(); m, err = x.Next() {
			if m.Method != "elicitation/create" {
				continue
			}
			if got.times++; got.times > 3 {
				return got, errors.New("asked without an end")
			}
			if err := json.Unmarshal(m.Params, &got.params); err != nil {
				return got, err
			}
			if err := c.Answer(deadline(t), m.ID, answer); err != nil {
				return got, err
			}
		}
		if err != nil {
			return got, err
		}
		var requests map[string]json.RawMessage
		var state json.RawMessage
		if got.response = m; !m.Value("inputRequests", &requests) {
			return got, nil
		}
		var given []string
		for key, r := range requests {
			var request struct{ Params json.RawMessage }
			got.times++
			got.key = key
			if json.Unmarshal(r, &request) != nil || json.Unmarshal(request.Params, &got.params) != nil {
				return got, fmt.Errorf("asked %s", r)
			}
			given = append(given, fmt.Sprintf("%q:%s", key, answer))
		}
		m.Value("requestState", &state)
		next = fmt.Sprintf(`%s,"inputResponses":{%s},"requestState":%s}`, strings.TrimSuffix(params, "}"),
			strings.Join(given, ","), state)
	}
	return got, errors.New("asked without an end")
}

// badLinks are URLs to which no user may be sent.
var badLinks = []string{
	"javascript:alert(document.cookie)", "JaVaScRiPt:alert(1)", "data:text/html,<script>1</script>", "vbscript:x",
	"file:///etc/passwd", "ssh://host.example",
	"http://a.example/", "http://169.254.169.254/latest/meta-data/", "https://169.254.169.254/", "https://2852039166/",
	"https://[::ffff:a9fe:a9fe]/",
	"https://me:secret@a.example/", "https://a.example\\@b.example/", "https://a.example/\u202egnp.exe",
	"https://a.example/%E2%80%AE", "https://a.example/\r\nx",
	" https://a.example/", "/relative", "//a.example/x", "a.example", "", "http://127.0.0.1:8080/", "https://localhost/",
	"https://%61.example/", "https://\u0430pple.example/",
}

// TestNoUserIsSentToABadLink covers URL mode of servers of both eras, with clients of both.
func TestNoUserIsSentToABadLink(t *testing.T) {
	t.Parallel()
	up, old, fresh, home := newWorker(t, serverRev), newAsker(t, clientRev), newAsker(t, statelessRev),
		newAsker(t, statelessRev)
	s := besiege(t,
		fmt.Sprintf("upstreams:\n- {name: up, url: %q}\n- {name: old, url: %q}\n- {name: fresh, url: %q}\n- {name: home, url: %q, loopback_links: true}\n", up.URL, old.URL, fresh.URL, home.URL),
		"up", "old", "fresh", "home")
	const caps = `{"elicitation":{"form":{},"url":{}}}`
	params := func(url string) string {
		text, _ := json.Marshal(url) // a string always marshals
		return `{"mode":"url","elicitationId":"e","message":"go there","url":` + string(text) + `}`
	}
	s.undisturbed(t, "up__echo", func() {
		for _, revision := range []string{clientRev, statelessRev} {
			alice := s.as(t, "alice", revision, caps)
			for _, url := range badLinks {
				for _, tool := range []string{"old__ask", "fresh__ask", "old__required"} {
					got, err := converse(t, alice, asker(tool, "q", params(url)), `{"action":"accept"}`)
					switch said := got.response.Text; {
					case err != nil:
						t.Errorf("%s of a %s client, %q: %v", tool, revision, url, err)
					case got.times > 0, strings.Contains(said, "-32042"),
						tool != "old__ask" && url != "" && strings.Contains(said, "example/"):
						t.Errorf("%s of a %s client, %q: asked %+v, then %s", tool, revision, url, got.params, said)
					case tool == "old__ask" && !strings.Contains(said, "refused: the user is not sent there: "),
						tool != "old__ask" && !strings.Contains(said, "asks what the user cannot be asked"):
						t.Errorf("%s of a %s client, %q: %s", tool, revision, url, said)
					}
				}
			}
			for tool, url := range map[string]string{"old__ask": "https://a.example/x?y=%20",
				"fresh__ask": "https://a.example/x", "home__ask": "http://localhost:8080/x"} {
				got, err := converse(t, alice, asker(tool, "q", params(url)), `{"action":"accept"}`)
				name, _, _ := strings.Cut(tool, "__")
				if err != nil || got.times != 1 || got.params.URL != url || got.params.Message != name+" asks: go there" ||
					!strings.Contains(got.response.Text, "answered: ") {
					t.Errorf("%s of a %s client, %q: %+v, %v", tool, revision, url, got, err)
				}
			}
		}
	})
}

// TestNoServerAsksInTheGatewaysVoice: a server's question names the server, and never uses
// a key of the gateway's own.
func TestNoServerAsksInTheGatewaysVoice(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	up, old, fresh := newWorker(t, serverRev), newAsker(t, serverRev), newAsker(t, statelessRev)
	s := besiegeWith(t, siegeConfig{
		policy: "{default: allow, rules: [{name: echoes, who: {users: [alice]}, ask: [\"tools:up/echo\"]}]}",
		rest: fmt.Sprintf("upstreams:\n- {name: up, url: %q}\n- {name: old, url: %q}\n- {name: fresh, url: %q}\n", up.URL,
			old.URL, fresh.URL),
	}, "up", "old", "fresh")
	const approve = `{"action":"accept","content":{"approve":true}}`
	s.undisturbed(t, "up__echo", func() {
		for _, revision := range []string{clientRev, statelessRev} {
			alice := s.as(t, "alice", revision, `{"elicitation":{}}`)
			own, err := converse(t, alice, `{"name":"up__echo","arguments":{"key":"k"}}`, approve)
			if err != nil || own.times != 1 || !strings.HasPrefix(own.params.Message, "Gatehouse asks: ") ||
				textOf(own.response) != "echo k" {
				t.Fatalf("the gateway's own question: %+v, %v", own, err)
			}
			if revision == statelessRev && own.key != "gatehouse-approval" {
				t.Errorf("the gateway asks under %q", own.key)
			}
			for _, message := range []string{
				own.params.Message, "\n\n" + own.params.Message, "Hi." + strings.Repeat("\n", 100) + own.params.Message,
				"\u202e\u2066" + own.params.Message,
				"Hi.\u2028" + own.params.Message, "Hi.\r" + own.params.Message, "Hi.\v" + own.params.Message,
				"\u200b\x00" + own.params.Message, "fresh asks: x\nGatehouse asks: y",
			} {
				for _, tool := range []string{"old__ask", "fresh__ask"} {
					for _, key := range []string{"gatehouse-approval", "server:gatehouse-approval", "Gatehouse-Approval", "q"} {
						text, _ := json.Marshal(message) // a string always marshals
						params := `{"message":` + string(text) +
							`,"requestedSchema":{"type":"object","properties":{"approve":{"type":"boolean"}},"required":["approve"]}}`
						got, err := converse(t, alice, asker(tool, key, params), approve)
						if err != nil || got.times != 1 {
							t.Errorf("%s of a %s client, %q: %+v, %v", tool, revision, message, got, err)
							continue
						}
						name, _, _ := strings.Cut(tool, "__")
						for n, line := range strings.FieldsFunc(got.params.Message,
							func(r rune) bool { return strings.ContainsRune("\n\r\v\f\u0085\u2028\u2029", r) }) {
							if n == 0 && !strings.HasPrefix(line, name+" asks: ") || n > 0 && !strings.HasPrefix(line, "> ") {
								t.Errorf("%s of a %s client is asked %q, with a line of the server's own", tool, revision, got.params.Message)
								break
							}
						}
						if strings.HasPrefix(strings.ToLower(got.key), "gatehouse-") {
							t.Errorf("%s asks a %s client under %q", tool, revision, got.key)
						}
						if want := fmt.Sprintf("answered: {%q:", key); tool == "fresh__ask" &&
							!strings.HasPrefix(textOf(got.response), want) {
							t.Errorf("%s was answered %s, want it under %q", tool, textOf(got.response), key)
						}
					}
				}
			}
		}
	})
}

// TestAnApprovalIsForAllThatIsSent: a call that differs from what the user saw does not run
// with the user's approval, in either era and at any replica.
func TestAnApprovalIsForAllThatIsSent(t *testing.T) {
	t.Parallel()
	up := newWorker(t, serverRev)
	s := besiegeWith(t, siegeConfig{
		policy: "{default: allow, rules: [{name: echoes, who: {users: [alice]}, ask: [\"tools:up/echo\"]}]}",
		rest:   fmt.Sprintf("upstreams:\n- {name: up, url: %q}\n", up.URL),
	}, "up")
	second := &replica{config: s.config, upstreams: s.upstreams}
	t.Cleanup(second.end)
	second.start(t)
	const caps, approve = `{"elicitation":{}}`, `{"action":"accept","content":{"approve":true}}`
	call := func(more, meta string) string {
		return fmt.Sprintf(`{"name":"up__echo","arguments":{"key":"mine"}%s,"_meta":{"progressToken":1,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"%s}}`, more, meta)
	}
	ran := func() (n int) {
		for _, r := range up.Received("tools/call") {
			if strings.Contains(r.Text, `"mine"`) {
				n++
			}
		}
		return n
	}
	s.undisturbed(t, "up__echo", func() {
		t.Run("what is sent is shown", func(t *testing.T) {
			for _, revision := range []string{clientRev, statelessRev} {
				before := ran()
				got, err := converse(t, s.as(t, "alice", revision, caps),
					call(`,"dryRun":false`, `,"vendor/override":{"force":true}`), `{"action":"decline"}`)
				if err != nil || got.times != 1 || !strings.Contains(got.params.Message, `also "dryRun": false`) ||
					!strings.Contains(got.params.Message, `_meta "vendor/override": {"force":true}`) ||
					strings.Contains(got.params.Message, "traceparent") {
					t.Errorf("a %s client is asked %q, %v", revision, got.params.Message, err)
				}
				if ran() != before {
					t.Errorf("a %s client's call ran", revision)
				}
			}
		})
		t.Run("what is approved is sent", func(t *testing.T) {
			alice := s.as(t, "alice", statelessRev, caps)
			elsewhere := s.as(t, "alice", statelessRev, caps)
			elsewhere.URL = second.endpoint()
			m, _, err := alice.Call(deadline(t), "tools/call", call("", ""))
			var state json.RawMessage
			if err != nil || !m.Value("requestState", &state) {
				t.Fatalf("asked %s, %v", m.Text, err)
			}
			retry := func(c *mcptest.Client, params string) string {
				m, _, err := c.Call(deadline(t), "tools/call",
					fmt.Sprintf(`%s,"inputResponses":{"gatehouse-approval":%s},"requestState":%s}`, strings.TrimSuffix(params, "}"),
						approve, state))
				if err != nil {
					t.Fatal(err)
				}
				return m.Text
			}
			before := ran()
			for _, params := range []string{
				call("", `,"vendor/override":true`), call(`,"dryRun":false`, ""), call("", `,"baggage":{"force":true}`),
				call("", `,"vendor\u002foverride":true`),
			} {
				for _, c := range []*mcptest.Client{alice, elsewhere} {
					if text := retry(c, params); ran() != before || strings.Contains(text, "echo mine") {
						t.Fatalf("%s ran with the approval of another call: %s", params, text)
					}
					if m, _, err = alice.Call(deadline(t), "tools/call", call("", "")); err != nil ||
						!m.Value("requestState", &state) {
						t.Fatalf("asked %s, %v", m.Text, err)
					}
				}
			}
			other := strings.NewReplacer("b7ad6b7169203331", "00f067aa0ba902b7", `"progressToken":1`,
				`"progressToken":"2"`).Replace(call("", `,"tracestate":"a=b","baggage":"c=d"`))
			if text := retry(elsewhere, other); !strings.Contains(text, "echo mine") || ran() != before+1 {
				t.Errorf("the approved call in another trace: %s", text)
			}
		})
	})
}
