package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

const (
	// hearPatience bounds the wait for the update of a resource.
	hearPatience = time.Minute
	// large is the size of a result that does not fit into one packet, in bytes.
	large = 200 << 10
)

// action is something that a client can do.
type action struct {
	name   string
	weight int
	can    func(*client) bool // nil: all clients can
	do     func(*client, context.Context, string)
}

// actions returns all actions. They draw only from the client's own random source.
func actions() []action {
	stateful := func(c *client) bool { return c.Revision.Stateful }
	plain := func(in script, does int, fits func(*server) bool) func(*client, context.Context, string) {
		return func(c *client, ctx context.Context, name string) {
			in := in
			if in.Pause > 0 {
				in.Pause = 1 + c.rand.IntN(in.Pause)
			}
			if in.Ask != "" && c.rand.IntN(2) == 0 {
				in.Ask = mcptest.Sampling
			}
			if !c.elicits() && in.Ask == mcptest.Elicitation {
				in.Ask = mcptest.Sampling
			}
			c.call(ctx, name, c.pick(fits), does, in)
		}
	}
	asks := func(s *server) bool { return s.asks }
	dies := func(s *server) bool { return s.gate != nil && s.asks }
	return []action{
		{"call", 30, nil, plain(script{}, nothing, nil)},
		{"large result", 3, nil, plain(script{Pad: large}, nothing, nil)},
		{"progress", 15, nil, plain(script{Progress: 3, Pause: 20}, nothing, nil)},
		{"question", 15, nil, plain(script{Ask: mcptest.Elicitation, Pause: 10}, nothing, asks)},
		{"progress and question", 5, nil, plain(script{Progress: 2, Ask: mcptest.Elicitation, Pause: 10}, nothing, asks)},
		{"error", 4, nil, plain(script{End: endFail}, nothing, nil)},
		{"broken by its server", 2, nil, plain(script{End: endDie}, nothing, dies)},
		{"cancelled", 8, nil, plain(script{Progress: 1, End: endHang}, cancels, nil)},
		{"dropped and resumed", 10, stateful, plain(script{Progress: 4, Pause: 60}, drops, nil)},
		{"list", 6, nil, (*client).list},
		{"subscription", 5, nil, (*client).subscribe},
		{"end of the session", 1, stateful, func(c *client, ctx context.Context, _ string) { c.leave(ctx) }},
	}
}

// elicits reports whether the revision has elicitation.
func (c *client) elicits() bool {
	_, has := c.Revision.ClientCaps(mcp.Raw(c.Caps)).Member("elicitation")
	return has
}

// act performs one action.
func (c *client) act(ctx context.Context) {
	all := slices.DeleteFunc(actions(), func(a action) bool { return a.can != nil && !a.can(c) })
	sum := 0
	for _, a := range all {
		sum += a.weight
	}
	at := c.rand.IntN(sum)
	for _, a := range all {
		if at -= a.weight; at < 0 {
			a.do(c, ctx, a.name)
			return
		}
	}
}

// pick chooses one of the servers that fit.
func (c *client) pick(fits func(*server) bool) *server {
	all := c.servers
	if fits != nil {
		all = slices.DeleteFunc(slices.Clone(all), func(s *server) bool { return !fits(s) })
	}
	return all[c.rand.IntN(len(all))]
}

// list checks that the list has the tools of all servers, whatever state they are in.
func (c *client) list(ctx context.Context, name string) {
	from := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	x, err := c.Send(ctx, "tools/list", "{}")
	if err != nil {
		c.l.note(name, from, broken(err))
		return
	}
	defer x.Close()
	m, err := x.Response()
	if o, bad := refused(x, m, err); bad {
		if o.kind == sessionLost {
			c.lost()
		}
		o.session = c.opened
		c.l.note(name, from, o)
		return
	}
	var tools []struct{ Name string }
	m.Value("tools", &tools)
	for _, s := range c.servers {
		if !slices.Contains(tools, struct{ Name string }{s.name + "__" + toolDo}) {
			c.l.note(name, from, outcome{kind: "short list", detail: s.name + " is not on it"})
			return
		}
	}
	c.l.note(name, from, outcome{kind: answered})
}

// subscribe subscribes to a resource of this client, has the server update it, and waits
// for the update.
func (c *client) subscribe(ctx context.Context, name string) {
	from := time.Now()
	to := c.pick(func(s *server) bool { return s.pushes })
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o := outcome{}
	if c.Revision.Stateful {
		o = c.hearGETStream(ctx, to, name)
	} else {
		o = c.hearListening(ctx, to, name)
	}
	o.server, o.session = to.name, c.opened
	o.detail = fmt.Sprintf("client %d (%s), server %s: %s", c.index, c.Revision.Name, to.name, o.detail)
	c.l.note(name, from, o)
	if o.kind == sessionLost {
		c.lost()
	}
}

func (c *client) hearGETStream(ctx context.Context, to *server, name string) outcome {
	uri := to.name + "+" + c.uriSuffix()
	get, before := c.get, c.get.count(uri)
	if o, bad := c.ask(ctx, "resources/subscribe", uri); bad {
		return o
	}
	if o := c.call(ctx, name+"'s update", to, nothing, script{Touch: c.uriSuffix()}); o.failed() {
		return o
	}
	hearing, cancel := context.WithTimeout(ctx, hearPatience)
	defer cancel()
	if !get.await(hearing, uri, before) {
		if hearing.Err() == nil {
			return outcome{kind: sessionLost, detail: "its stream is not known any more"}
		}
		return c.unheard()
	}
	if o, bad := c.ask(ctx, "resources/unsubscribe", uri); bad {
		return o
	}
	return outcome{kind: answered}
}

// ask makes a request about a resource whose result is empty.
func (c *client) ask(ctx context.Context, method, uri string) (outcome, bool) {
	x, err := c.Send(ctx, method, fmt.Sprintf(`{"uri":%q}`, uri))
	if err != nil {
		return broken(err), true
	}
	defer x.Close()
	m, err := x.Response()
	return refused(x, m, err)
}

// unheard is the outcome of a subscription that delivers nothing after the client's last
// call.
func (c *client) unheard() outcome {
	nonce := c.nonce()
	return outcome{kind: "unheard",
		detail: fmt.Sprintf("no update came in %s of %s, which its server has told on %d streams", hearPatience, nonce,
			c.l.touched(nonce))}
}

func (c *client) hearListening(ctx context.Context, to *server, name string) outcome {
	uri := to.name + "+" + c.uriSuffix()
	listening, cancel := context.WithTimeout(ctx, hearPatience)
	defer cancel()
	x, err := c.Send(listening, "subscriptions/listen",
		fmt.Sprintf(`{"notifications":{"resourceSubscriptions":[%q]}}`, uri))
	if err != nil {
		return broken(err)
	}
	defer x.Close()
	m, err := x.Next()
	if o, bad := refused(x, m, err); bad {
		return o
	}
	if m.IsResponse() {
		return outcome{kind: notHeard, detail: m.Text}
	}
	if m.Method != "notifications/subscriptions/acknowledged" {
		return outcome{kind: "not acknowledged", detail: m.Text}
	}
	var agreed []string
	if m.Param("notifications|resourceSubscriptions", &agreed); !slices.Contains(agreed, uri) {
		return outcome{kind: notHeard, detail: m.Text} // its server did not acknowledge it in time
	}
	if o := c.call(ctx, name+"'s update", to, nothing, script{Touch: c.uriSuffix()}); o.failed() {
		return o
	}
	for {
		m, err := x.Next()
		if err != nil {
			if listening.Err() != nil {
				return c.unheard()
			}
			return outcome{kind: notHeard, detail: err.Error()}
		}
		heard := ""
		if m.IsResponse() {
			return outcome{kind: notHeard, detail: m.Text}
		}
		if m.Method != "notifications/resources/updated" || !m.Param("uri", &heard) {
			continue
		}
		if heard != uri {
			c.l.violation("client %d listens for %s, and hears %s", c.index, uri, m.Text)
		}
		return outcome{kind: answered}
	}
}
