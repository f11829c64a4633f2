package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestSubscriptionsInEachPair subscribes to a resource in the way of the
// client's revision, at a server of any other revision.
func TestSubscriptionsInEachPair(t *testing.T) {
	t.Parallel()
	url, servers := allRevisions(t, nil)
	for _, revision := range wire.Revisions() {
		for _, s := range servers {
			t.Run("client "+revision.Name+" server "+s.revision.Name, func(t *testing.T) {
				c := raw(t, url, revision.Name)
				uri := s.name + "+test://do"
				subscribes, unsubscribes := len(s.Received("resources/subscribe")), len(s.Received("resources/unsubscribe"))
				updated := "notifications/resources/updated"
				var x *mcptest.Exchange
				var err error
				if revision.Stateful {
					if x, err = c.Get(deadline(t), ""); err != nil {
						t.Fatal(err)
					}
					if m, _, err := c.Call(deadline(t), "resources/subscribe", fmt.Sprintf(`{"uri":%q}`, uri)); err != nil ||
						string(m.Result) != "{}" {
						t.Fatalf("%s %v", m.Text, err)
					}
				} else {
					if x, err = c.Send(deadline(t), "subscriptions/listen",
						fmt.Sprintf(`{"notifications":{"resourceSubscriptions":[%q]}}`, uri)); err != nil {
						t.Fatal(err)
					}
					ack, err := x.Next()
					var granted []string
					if err != nil || !ack.Param("notifications|resourceSubscriptions", &granted) || len(granted) != 1 ||
						granted[0] != uri {
						t.Fatalf("acknowledged %s %v", ack.Text, err)
					}
				}
				defer x.Close()
				want, ours := s.revision.Name == stateless, 0
				for _, r := range s.Received("subscriptions/listen") {
					var uris []string
					if r.Param("notifications|resourceSubscriptions", &uris) && len(uris) == 1 && uris[0] == "test://do" {
						ours++
					}
				}
				if want && ours == 0 || !want && len(s.Received("resources/subscribe")) != subscribes+1 {
					t.Errorf("the server got %d subscriptions and %d listens", len(s.Received("resources/subscribe"))-subscribes, ours)
				}
				s.Push(updated, `{"uri":"test://do"}`)
				m, err := x.Until(updated)
				var got string
				if err != nil || !m.Param("uri", &got) || got != uri {
					t.Errorf("heard %s %v", m.Text, err)
				}

				// The end of the subscription reaches the server.
				if revision.Stateful {
					if m, _, err := c.Call(deadline(t), "resources/unsubscribe", fmt.Sprintf(`{"uri":%q}`, uri)); err != nil ||
						string(m.Result) != "{}" {
						t.Errorf("%s %v", m.Text, err)
					}
				} else {
					x.Close()
				}
				if s.revision.Stateful {
					n := 0
					if _, err := s.Await(deadline(t), "the end of the subscription", func(r mcptest.Received) bool {
						if r.Method == "resources/unsubscribe" {
							n++
						}
						return n > unsubscribes
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// TestQuestionsOfTwoServers: two servers ask one client at the same time, with the
// same ids.
func TestQuestionsOfTwoServers(t *testing.T) {
	t.Parallel()
	a, b := newInquirer(t, "2025-06-18"), newInquirer(t, "2025-11-25")
	url := start(t, gateway.Config{Upstreams: []upstream.Config{{Name: a.name, URL: a.URL}, {Name: b.name, URL: b.URL}}})
	c := rawWith(t, url, statefulClient, askable)
	asked := map[*inquirer]mcptest.Message{}
	streams := map[*inquirer]*mcptest.Exchange{}
	for _, s := range []*inquirer{a, b} {
		s.asks([]inquiry{{aSample.Method, strings.Replace(aSample.Params, `"q"`, `"`+s.name+`"`, 1)}})
		x, err := c.Send(deadline(t), "tools/call", s.params("tools/call"))
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		streams[s] = x
		q, err := x.Until(aSample.Method)
		if err != nil || !strings.Contains(q.Text, s.name) {
			t.Fatalf("asked %s %v", q.Text, err)
		}
		asked[s] = q
	}
	if string(asked[a].ID) == string(asked[b].ID) {
		t.Errorf("both questions have the id %s", asked[a].ID)
	}
	for _, s := range []*inquirer{b, a} {
		if err := c.Answer(deadline(t), asked[s].ID, strings.Replace(sampled, `"t"`, `"`+s.name+`"`, 1)); err != nil {
			t.Fatal(err)
		}
		if m, err := streams[s].Response(); err != nil || !strings.Contains(outcome(m), s.name) {
			t.Errorf("%s %v", m.Text, err)
		}
	}
}

// TestPrivateResults: a private result is fetched again for each user, whatever its
// lifetime.
func TestPrivateResults(t *testing.T) {
	s := scripted(t, stateless)
	s.On("resources/list", func(c *mcptest.Call) { c.Result(`{"resources":[{"uri":"test://do","name":"do"}]}`) })
	var reads atomic.Int32
	s.On("resources/read", func(c *mcptest.Call) {
		c.Result(fmt.Sprintf(`{"contents":[{"uri":"test://do","text":"%d"}],"ttlMs":600000,"cacheScope":"private"}`,
			reads.Add(1)))
	})
	g := guard(t, gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: s.URL}}})
	for i, who := range []string{"alice", "bob", "alice"} {
		for _, revision := range eras {
			m, _, err := g.raw(t, revision, g.issuer.Token(claims{"sub": who})).Call(deadline(t), "resources/read",
				`{"uri":"up+test://do"}`)
			if err != nil || m.Error != nil || revision == stateless && !strings.Contains(m.Text, `"cacheScope":"private"`) {
				t.Errorf("%d %s: %s %v", i, who, m.Text, err)
			}
		}
	}
	if n := reads.Load(); n != 6 {
		t.Errorf("the server was read %d times for 6 reads", n)
	}
}

// TestReferencesAreLeftAlone: the gateway does not fetch what a schema refers to.
func TestReferencesAreLeftAlone(t *testing.T) {
	var fetched atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fetched.Add(1) }))
	defer elsewhere.Close()
	schema := fmt.Sprintf(`{"type":"object","properties":{"a":{"$ref":"%s/in"}},"$defs":{"b":{"$ref":"%[1]s/defs"}}}`,
		elsewhere.URL)
	for _, server := range []string{statefulServer, stateless} {
		s := scripted(t, server)
		s.On("tools/list", func(c *mcptest.Call) {
			c.Result(fmt.Sprintf(`{"tools":[{"name":"do","inputSchema":%s,"outputSchema":{"type":"object","properties":{"c":{"$ref":"%s/out"}}}}]}`, schema, elsewhere.URL))
		})
		s.Tool("do", func(c *mcptest.Call) { c.Text("ok") })
		url := inFrontOf(t, s)
		for _, client := range eras {
			c := raw(t, url, client)
			m, _, err := c.Call(deadline(t), "tools/list", "")
			if err != nil || !strings.Contains(m.Text, schema) {
				t.Errorf("%s %v", m.Text, err)
			}
			if m, _, err := c.Call(deadline(t), "tools/call", `{"name":"up__do","arguments":{"a":{"b":1}}}`); err != nil ||
				said(m) != "ok" {
				t.Errorf("%s %v", m.Text, err)
			}
		}
	}
	if n := fetched.Load(); n > 0 {
		t.Errorf("%d references were fetched", n)
	}
}

// TestMembersOfABatch: policy decides about each member, and each is called
// separately.
func TestMembersOfABatch(t *testing.T) {
	s := scripted(t, statefulServer)
	s.Tools("do", "secret")
	s.On("tools/call", func(c *mcptest.Call) { c.Text("done") })
	g := guard(t, gateway.Config{
		Policy:    policy.Config{Rules: []policy.Rule{{Name: "do", Allow: []string{"tools:up/do"}}}},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
	})
	c := g.raw(t, "2025-03-26", g.issuer.Token(nil))
	x, err := c.Post(deadline(t), `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up__do"}},
		{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"up__secret"}},{"jsonrpc":"2.0","id":3,"method":"ping"}]`)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	text := x.Text()
	for _, want := range []string{`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"done"}]}}`,
		`"id":2,"error":{"code":-32602`, `{"jsonrpc":"2.0","id":3,"result":{}}`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
	calls := s.Received("tools/call")
	if len(calls) != 1 || strings.HasPrefix(strings.TrimSpace(calls[0].Text), "[") {
		t.Errorf("the server got %v", calls)
	}
}
