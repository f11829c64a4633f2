package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// users is how many users make requests of a full chain.
const users = 1000

// classes are what the clients of these users declare. The server offers special tools to some.
var classes = []mcp.Raw{
	mcp.Raw(`{}`), mcp.Raw(`{"elicitation":{}}`), mcp.Raw(`{"sampling":{}}`),
	mcp.Raw(`{"roots":{},"elicitation":{}}`), mcp.Raw(`{"extensions":{"x":{}}}`),
}

// special are the capabilities that a client has to declare to see the last tools of a list.
var special = []string{"elicitation", "sampling", "roots", "extensions"}

// shown is how many tools of a list a client sees that declares caps.
func shown(caps mcp.Raw) int {
	n := perList - len(special)
	for _, name := range special {
		if _, declared := caps.Member(name); declared {
			n++
		}
	}
	return n
}

const (
	// rules is how many rules policy has, and conditions how many of them look at the arguments of
	// every call.
	rules, conditions = 200, 10
)

// chain is what a gateway with everything on has around it: users who sign in, policy, limits,
// Redis for these and for sessions, an audit file, and a collector that gets one trace in a hundred.
type chain struct {
	issuer    *mcptest.Issuer
	collector *mcptest.Collector
	redis     redisAddress
	tokens    []string // by user
	upstreams int      // with lists
}

func (c *chain) close() {
	c.issuer.Close()
	c.collector.Close()
}

// few reports whether policy hides a tool of each list from a user.
func few(user int) bool { return user%2 == 0 }

// audience is whom the users' tokens are for: all gateways that are compared.
const audience = "https://bench.example/mcp"

// addChain starts what a gateway with everything on has around it.
func (r *rigged) addChain(ctx context.Context, o options) (err error) {
	c := &chain{issuer: mcptest.NewIssuer(mcptest.IssuerOptions{Audience: audience}), collector: mcptest.NewCollector(),
		upstreams: o.upstreams}
	for user := range users {
		claims := map[string]any{"sub": fmt.Sprint("user", user), "exp": time.Now().Add(limit).Unix()}
		if few(user) {
			claims["groups"] = []string{"few"}
		}
		c.tokens = append(c.tokens, c.issuer.Token(claims))
	}
	r.chain = c
	c.redis, err = r.startRedis(ctx)
	return err
}

// config returns the sections of a gateway with everything on, whose records go to a file.
func (c *chain) config(audit string) (sections string, with rig.GatewayConfig, err error) {
	policy := []string{`{name: all, allow: ["*:*"]}`,
		`{name: few, who: {groups: [few]}, deny: ["tools:list*/tool_00"]}`}
	for i := range conditions {
		policy = append(policy, fmt.Sprintf(`{name: when-%d, deny: ["tools:state*/*"], `+
			`when: "args.message == 'never-%d' && caller.user != 'nobody'"}`, i, i))
	}
	for i := len(policy); i < rules; i++ {
		policy = append(policy, fmt.Sprintf(`{name: rule-%d, who: {groups: [group-%d]}, allow: ["tools:crm-%d/get_*"]}`,
			i, i%20, i%50))
	}
	replica, err := c.redis.replica("")
	sections = strings.Join([]string{
		"policy: {rules: [" + strings.Join(policy, ", ") + "]}",
		`limits: [{name: users, per: user, rate: 900000/m}, {name: tools, what: ["tools:*"], per: tool, rate: 900000/s}]`,
		fmt.Sprintf("audit: {sinks: [{type: file, path: %q}]}", audit),
		fmt.Sprintf("tracing: {endpoint: %q, sample: 0.01}", c.collector.URL), replica,
	}, "\n")
	return sections, rig.GatewayConfig{
		Auth: fmt.Sprintf("{mode: oauth, issuers: [{url: %q, audiences: [%q]}]}", c.issuer.URL, audience), Token: c.tokens[1],
	}, err
}

// meet makes one request for each user, so that the gateway has verified their tokens and knows
// the lists of their clients.
func (c *chain) meet(s scenario, t target) (err error) {
	if c == nil || !t.gateway || !s.stateless {
		return nil
	}
	all := c.requests(s, t, 0)
	as, err := t.dial(s, all[0].token)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, as.close()) }()
	for _, r := range all {
		as.token = r.token
		if err := s.run(as, r, 0); err != nil {
			return err
		}
	}
	return nil
}

// requests returns what a client of a target sends in turn: with a session, requests of its one
// user; otherwise one of each user, whose clients are of all classes.
func (c *chain) requests(s scenario, t target, client int) (all []request) {
	upstream := ""
	if t.gateway {
		upstream = s.upstream()
	}
	if c == nil {
		return []request{s.request(upstream, client, mcp.Raw("{}"))}
	}
	byClass := make([]request, len(classes))
	for i, caps := range classes {
		byClass[i] = s.request(upstream, client, caps)
		byClass[i].tools = c.upstreams*shown(caps) + 2*len(callTools())
	}
	last := users
	if !s.stateless {
		last = client + 1
	}
	for user := client; user < last; user++ {
		r := byClass[user%len(classes)]
		if r.token = c.tokens[user]; t.gateway && few(user) {
			r.tools -= c.upstreams
		}
		all = append(all, r)
	}
	return all
}
