package e2e

import (
	"crypto/rand"
	"fmt"
	"slices"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// These are the scenarios of the matrix in which a client gets notifications that belong to
// no request.

func updated(t *testing.T, p *pair) {
	const note = "notifications/resources/updated"
	native := "test://do/" + rand.Text()
	uri := p.actor.name + "+" + native
	f := p.wire.hear(t, fmt.Sprintf(`{"resourceSubscriptions":[%q]}`, uri))
	subscribe := fmt.Sprintf(`{"uri":%q}`, uri)
	if p.client.Stateful {
		if m := p.wire.request(t, "resources/subscribe", subscribe); string(m.Result) != "{}" {
			t.Fatalf("%s", m.Text)
		}
	}
	of := func(method string) func(mcptest.Received) bool {
		return func(r mcptest.Received) bool {
			var one string
			var several []string
			return r.Method == method && (r.Param("uri", &one) && one == native ||
				r.Param("notifications|resourceSubscriptions", &several) && slices.Contains(several, native))
		}
	}
	begins, ends := "subscriptions/listen", "" // it ends with its stream
	if p.server.Stateful {
		begins, ends = "resources/subscribe", "resources/unsubscribe"
	}
	if !slices.ContainsFunc(p.actor.Received(""), of(begins)) {
		t.Errorf("the server got no %s", begins)
	}
	p.actor.Update(native)
	var got string
	if m := f.until(t, note); !m.Param("uri", &got) || got != uri {
		t.Errorf("heard %s", m.Text)
	}
	if !p.client.Stateful {
		f.close()
	} else if m := p.wire.request(t, "resources/unsubscribe", subscribe); string(m.Result) != "{}" {
		t.Errorf("%s", m.Text)
	}
	if ends != "" {
		if _, err := p.actor.Await(deadline(t), "the end of the subscription", of(ends)); err != nil {
			t.Error(err)
		}
	}
}

func changed(t *testing.T, p *pair) {
	const note = "notifications/tools/list_changed"
	f := p.wire.hear(t, `{"toolsListChanged":true}`)
	if err := p.actor.AwaitGETStreams(deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	tool := "new" + rand.Text()[:8]
	p.actor.grow(tool)
	p.actor.Push(note, "{}")
	for {
		f.until(t, note) // the notification may be about another change
		if _, ok := p.wire.list(t, "tools/list", "tools", "name")[p.actor.name+"__"+tool]; ok {
			return
		}
	}
}
