package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestConditions: rules allow calls by their arguments. What cannot be decided is denied.
func TestConditions(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, revision string, s *mcptest.Server) {
		s.Tool("do", func(c *mcptest.Call) { c.Text("done") })
		g := guard(t, gateway.Config{
			Policy: policy.Config{Rules: []policy.Rule{{
				Name: "our organisation", Allow: []string{"tools:up/do"},
				When: `args.owner == "acme" && args.count < 10 && caller.claims.verified`,
			}}},
			Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
		})
		c := g.raw(t, revision, g.issuer.Token(claims{"verified": true}))
		if got := names(t, mustCall(t, c, "tools/list", ""), "tools"); len(got) != 1 {
			t.Errorf("some call of it could pass, and the list is %q", got)
		}
		for _, arguments := range []string{`{"owner":"acme","count":9}`, `{"count":9.5,"other":[],"owner":"ac\u006de"}`} {
			mustCall(t, c, "tools/call", `{"name":"up__do","arguments":`+arguments+`}`)
		}
		want := len(s.Received("tools/call"))
		for _, a := range []struct{ row, params string }{
			{"another value", `"arguments":{"owner":"evil","count":9}`},
			{"too many", `"arguments":{"owner":"acme","count":10}`},
			{"missing", `"arguments":{"owner":"acme"}`},
			{"no arguments", `"x":1`},
			{"arguments that are no object", `"arguments":[{"owner":"acme","count":9}]`},
			{"wrong type", `"arguments":{"owner":["acme"],"count":9}`},
			{"a number as text", `"arguments":{"owner":"acme","count":"9"}`},
			{"null", `"arguments":{"owner":"acme","count":null}`},
			{"nested", `"arguments":{"a":{"owner":"acme"},"count":9}`},
			{"twice", `"arguments":{"owner":"acme","count":9,"owner":"evil"}`},
			{"twice the same", `"arguments":{"owner":"acme","count":9,"owner":"acme"}`},
			{"twice, once escaped", `"arguments":{"owner":"acme","count":9,"\u006fwner":"evil"}`},
			{"beside another case", `"arguments":{"owner":"acme","count":9,"Owner":"evil"}`},
			{"arguments twice", `"arguments":{"owner":"acme","count":9},"arguments":{"owner":"evil"}`},
			{"arguments twice, once escaped", `"arguments":{"owner":"acme","count":9},"\u0061rguments":{"owner":"evil"}`},
			{"arguments in another case too", `"arguments":{"owner":"acme","count":9},"Arguments":{"owner":"evil"}`},
		} {
			got := askRaw(t, c, "tools/call", `{"name":%q,`+a.params+`}`, "up__do")
			if strings.Contains(a.row, "no object") || strings.Contains(a.row, "arguments twice") ||
				strings.Contains(a.row, "another case too") {
				if !strings.Contains(got, `"error":{"code":-32`) { // refused before policy reads it
					t.Errorf("%s: %s", a.row, got)
				}
				continue
			}
			if !strings.Contains(got, `"error":{"code":-32602,"message":"Not allowed with these arguments: up__do"`) {
				t.Errorf("%s: %s", a.row, got)
			}
		}
		if m, _, err := g.raw(t, revision, g.issuer.Token(nil)).Call(deadline(t), "tools/call",
			`{"name":"up__do","arguments":{"owner":"acme","count":9}}`); err != nil || m.Error == nil {
			t.Errorf("without the claim: %s, %v", m.Text, err)
		}
		if got := len(s.Received("tools/call")); got != want {
			t.Errorf("%d calls reached the server that must not", got-want)
		}
	})
}

// TestLimits: a limit counts all sessions of a user together, and a refusal says when to
// come back.
func TestLimits(t *testing.T) {
	t.Parallel()
	s := doing(t)
	var rate policy.Rate
	if err := rate.UnmarshalText([]byte("3/d")); err != nil {
		t.Fatal(err)
	}
	for _, revision := range []string{statefulServer, statefulClient, stateless} {
		t.Run(revision, func(t *testing.T) {
			g := guard(t, gateway.Config{
				Limits:    policy.Limits{{Name: "per day", What: []string{"tools:*"}, Rate: rate, Burst: 3}},
				Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
			})
			before := len(s.Received("tools/call"))
			token := g.issuer.Token(nil)
			c, another, client := g.raw(t, revision, token), g.raw(t, stateless, token), g.connect(t, revision, token)
			mustCall(t, c, "tools/call", `{"name":"up__do"}`)
			mustCall(t, another, "tools/call", `{"name":"up__do"}`)
			client.text(t, "up__do", nil)
			for range 2 {
				x, err := c.SendID(deadline(t), `"mine"`, "tools/call", `{"name":"up__do"}`)
				if err != nil {
					t.Fatal(err)
				}
				m, err := x.Response()
				x.Close()
				seconds, _ := strconv.Atoi(x.Header.Get("Retry-After"))
				var data struct {
					Retryable bool
					Executed  string
					Limit     string
				}
				if err != nil || x.Status != 429 || seconds < 7*3600 || seconds > 8*3600 || string(m.ID) != `"mine"` ||
					m.Error == nil || m.Error.Code != 42901 ||
					!dataOf(m, &data) || !data.Retryable || data.Executed != "no" || data.Limit != "per day" {
					t.Errorf("the fourth: %d, Retry-After %d, %s, %v", x.Status, seconds, m.Text, err)
				}
			}
			if _, err := client.CallTool(deadline(t), &sdk.CallToolParams{Name: "up__do"}); err == nil ||
				!strings.Contains(err.Error(), "Too Many Requests") {
				t.Errorf("go-sdk: %v", err)
			}
			// Nothing else is limited, and the connection stays open.
			if got := listTools(t, client); len(got) != 1 {
				t.Errorf("go-sdk after it was refused: %q", got)
			}
			mustCall(t, g.raw(t, revision, g.issuer.Token(claims{"sub": "bob"})), "tools/call", `{"name":"up__do"}`)
			if n := len(s.Received("tools/call")) - before; n != 4 {
				t.Errorf("the server got %d calls, want 4", n)
			}
		})
	}
}

// TestALimitIsOver: a client that comes back when it was told to is served.
func TestALimitIsOver(t *testing.T) {
	t.Parallel()
	s := doing(t)
	g := guard(t, gateway.Config{
		Limits:    policy.Limits{{Name: "slowly", Rate: policy.Rate{Count: 1, Per: 2 * time.Second}, Burst: 1}},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
	})
	clients, longest := []*mcptest.Client{}, "1"
	for _, revision := range eras {
		c := g.raw(t, revision, g.issuer.Token(claims{"sub": revision}))
		clients = append(clients, c)
		began := time.Now()
		for served, refused := 0, false; !refused; served++ {
			// On a slow machine one or two more calls may pass.
			if most := 1 + int(time.Since(began)/(2*time.Second)); served > most {
				t.Fatalf("%s: %d calls were served, at most %d may be", revision, served, most)
			}
			x, err := c.Send(deadline(t), "tools/call", `{"name":"up__do"}`)
			if err != nil {
				t.Fatal(err)
			}
			x.Close()
			if refused = x.Status == 429; refused {
				if served == 0 {
					t.Errorf("%s: the first call is refused", revision)
				}
				longest = max(longest, x.Header.Get("Retry-After")) // single digit
			}
		}
	}
	obey(t, longest)
	for _, c := range clients {
		if got := said(mustCall(t, c, "tools/call", `{"name":"up__do"}`)); got != "done" {
			t.Errorf("%s: %s", c.Revision.Name, got)
		}
	}
}

// TestAThousandRules: many rules apply correctly to many users at the same time.
func TestAThousandRules(t *testing.T) {
	t.Parallel()
	const users, tools = 25, 40
	s := scripted(t, stateless)
	var all []string
	for i := range tools {
		all = append(all, fmt.Sprint("tool-", i))
	}
	s.Tools(all...)
	s.On("tools/call", func(c *mcptest.Call) { c.Text("done") })
	// For each user and tool there is one rule: allowed, denied or undecided.
	var rules []policy.Rule
	allowed := func(user, tool int) bool { return (user*7+tool)%3 == 0 }
	for u := range users {
		who := policy.Who{Users: []string{fmt.Sprint("user-", u)}}
		for i := range tools {
			r := policy.Rule{Name: fmt.Sprint(u, " ", i), Who: who}
			switch pattern := []string{fmt.Sprint("tools:up/tool-", i)}; (u*7 + i) % 3 {
			case 0:
				r.Allow = pattern
			case 1:
				r.Deny = pattern
			default:
				r.Allow = []string{"prompts:up/*"}
			}
			rules = append(rules, r)
		}
	}
	g := guard(t, gateway.Config{Policy: policy.Config{Rules: rules},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}}})
	done := make(chan int, users)
	for u := range users {
		c := g.raw(t, eras[u%2], g.issuer.Token(claims{"sub": fmt.Sprint("user-", u)}))
		go func() {
			n := 0
			defer func() { done <- n }()
			listed := map[string]bool{}
			list, _, err := c.Call(deadline(t), "tools/list", "")
			if err != nil {
				t.Error(err)
			}
			for _, name := range names(t, list, "tools") {
				listed[name] = true
			}
			for i := u % 5; i < tools; i += 5 {
				name := fmt.Sprint("up__tool-", i)
				m, _, err := c.Call(deadline(t), "tools/call", fmt.Sprintf(`{"name":%q}`, name))
				if err != nil || (said(m) == "done") != allowed(u, i) || listed[name] != allowed(u, i) {
					t.Errorf("user %d, tool %d: listed %t, %s, %v", u, i, listed[name], m.Text, err)
				}
				if allowed(u, i) {
					n++
				}
			}
		}()
	}
	want := 0
	for range users {
		want += receive(t, "the end of a user", done)
	}
	if got := len(s.Received("tools/call")); got != want {
		t.Errorf("the server got %d calls, want %d", got, want)
	}
}
