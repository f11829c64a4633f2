package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// everythingIn returns every key and value of a Redis.
func everythingIn(t *testing.T, client *redis.Client) string {
	t.Helper()
	var all strings.Builder
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		text, _ := client.Get(t.Context(), key).Result() // all but one are errors, because the type differs
		hash, _ := client.HGetAll(t.Context(), key).Result()
		entries, _ := client.XRange(t.Context(), key, "-", "+").Result()
		set, _ := client.ZRange(t.Context(), key, 0, -1).Result()
		members, _ := client.SMembers(t.Context(), key).Result()
		fmt.Fprintf(&all, "%s %s %v %v %v %v\n", key, text, hash, entries, set, members)
	}
	return all.String()
}

// TestSiegeRedis: with access to the gateway's Redis, nobody can read what anybody has
// said, forge a server's message in a stream, or continue the session of another user.
func TestSiegeRedis(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	up := newWorker(t, serverRev)
	s := besiegeWith(t, siegeConfig{
		policy: `{default: allow, rules: [{name: yes, ask: ["tools:up/ask"], approve_for: 10m}]}`,
		rest: fmt.Sprintf("limits: [{name: many, what: [\"tools:*\"], per: user, rate: 1000/s, burst: 100000}]\n"+
			"disclosure: {mode: progressive}\nupstreams:\n- {name: up, url: %q, disclosure: {mode: full}}\n", up.URL),
	}, "up")
	client := s.redis.Client()
	defer client.Close()
	s.undisturbed(t, "up__echo", func() {
		const canary = "canary"
		unread := func(when string) {
			t.Helper()
			if all := everythingIn(t, client); strings.Contains(all, canary) || strings.Contains(all, "Really?") {
				t.Errorf("%s: what was said stands in Redis", when)
			}
		}
		alice := s.as(t, "alice-"+canary, clientRev, `{"elicitation":{},"`+canary+`":{}}`)
		x, err := alice.Send(deadline(t), "tools/call", call("up__ask", canary))
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		for _, answer := range []string{`{"approve":true}`, `{"a":"` + canary + `"}`} {
			m, err := x.Until("elicitation/create")
			if err != nil {
				t.Fatalf("a question: %s, %v", m.Text, err)
			}
			unread("while a question waits")
			if err := alice.Answer(deadline(t), m.ID, `{"action":"accept","content":`+answer+`}`); err != nil {
				t.Fatal(err)
			}
		}
		m, err := x.Response()
		if err != nil || textOf(m) != "answered canary canary" {
			t.Fatalf("the answer: %s, %v", m.Text, err)
		}
		stateless := s.as(t, "alice-"+canary, statelessRev, `{"elicitation":{}}`)
		if m, _, err := stateless.Call(deadline(t), "tools/call", call("up__ask", canary+"-2")); err != nil ||
			!strings.Contains(string(m.Text), "input_required") {
			t.Errorf("a question to a client without sessions: %s, %v", m.Text, err)
		}
		if m, _, err := alice.Call(deadline(t), "resources/read", `{"uri":"`+canary+`://x"}`); err != nil || m.Error == nil {
			t.Errorf("a resource: %s, %v", m.Text, err)
		}
		unread("after the calls")
		s.forgeEvents(t, client, alice, x.EventIDs())
		s.moveSession(t, client, alice)
	})
}

// forgeEvents writes into the stream of a call, which the client then resumes.
func (s *siege) forgeEvents(t *testing.T, client *redis.Client, c *mcptest.Client, ids []string) {
	t.Helper()
	keys, err := client.Keys(t.Context(), "gatehouse:e:*:"+c.Session).Result()
	if err != nil || len(keys) != 1 || len(ids) == 0 {
		t.Fatalf("events of the session: %q, %v", keys, err)
	}
	events, err := client.HGetAll(t.Context(), keys[0]).Result()
	if err != nil || len(events) < 2 {
		t.Fatalf("events: %v, %v", events, err)
	}
	position := func(field string) int { // stream:position
		n, err := strconv.Atoi(field[strings.LastIndexByte(field, ':')+1:])
		if err != nil {
			t.Fatalf("an event is called %q", field)
		}
		return n
	}
	fields := slices.SortedFunc(maps.Keys(events), func(a, b string) int { return position(a) - position(b) })
	first, at := events[fields[0]], fields[len(fields)-1]
	for what, data := range map[string]string{
		"one in clear":         `{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"forged"}]}}`,
		"one that came before": first,
	} {
		if err := client.HSet(t.Context(), keys[0], at, data).Err(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(deadline(t))
		x, err := c.Get(ctx, ids[0])
		if err != nil {
			t.Fatal(err)
		}
		m, err := x.Response()
		if err != nil || m.Error == nil || strings.Contains(string(m.Text), "forged") ||
			strings.Contains(string(m.Text), "elicitation") {
			t.Errorf("%s: the stream says %s, %v", what, m.Text, err)
		}
		cancel()
		x.Close()
	}
}

// moveSession copies the session of one user to another, who knows its id.
func (s *siege) moveSession(t *testing.T, client *redis.Client, c *mcptest.Client) {
	t.Helper()
	mallory := s.as(t, "mallory", clientRev, "{}")
	keys, err := client.Keys(t.Context(), "gatehouse:s:*:"+mallory.Session).Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("sessions of mallory: %q, %v", keys, err)
	}
	from, err := client.Keys(t.Context(), "gatehouse:s:*:"+c.Session).Result()
	if err != nil || len(from) != 1 {
		t.Fatalf("sessions of alice: %q, %v", from, err)
	}
	to := strings.TrimSuffix(keys[0], mallory.Session) + c.Session
	if err := client.Copy(t.Context(), from[0], to, 0, true).Err(); err != nil {
		t.Fatal(err)
	}
	mallory.Session, mallory.Revision = c.Session, wire.Lookup(clientRev)
	x, err := mallory.Post(deadline(t), `{"jsonrpc":"2.0","id":9,"method":"ping"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if x.Status != http.StatusNotFound {
		t.Errorf("mallory goes on with alice's session: %d", x.Status)
	}
}
