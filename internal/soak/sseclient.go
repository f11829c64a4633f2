package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// piped is a client of HTTP+SSE. Its stream is at one replica, and its messages reach any
// of them.
type piped struct {
	*client
	stream *mcptest.SSEClient // nil without a session
	end    context.CancelFunc
}

// work performs calls until stop is closed, and then leaves.
func (p *piped) work(ctx context.Context, stop <-chan struct{}) {
	defer p.leave()
	keepOn(ctx, stop, func() time.Duration {
		wait := time.Duration(p.rand.IntN(60)) * time.Millisecond
		if !p.enter(ctx) {
			return wait + 200*time.Millisecond
		}
		p.act(ctx)
		return wait
	})
}

// enter makes sure that there is a session.
func (p *piped) enter(ctx context.Context) bool {
	if p.stream != nil {
		return true
	}
	from := time.Now()
	ctx, cancel := context.WithCancel(ctx) // until leave
	limit := time.AfterFunc(patience, cancel)
	defer limit.Stop()
	o := p.begin(ctx, strings.TrimSuffix(p.URL, "/mcp")+"/sse")
	if p.l.note("session over HTTP+SSE", from, o); o.failed() {
		cancel()
		p.stream = nil
		return false
	}
	p.end = cancel
	return true
}

func (p *piped) begin(ctx context.Context, address string) (o outcome) {
	stream, err := mcptest.OpenSSE(ctx, p.HTTP, address, p.Header)
	if err != nil {
		return broken(err)
	}
	if stream.Endpoint == "" {
		defer stream.Close()
		return refusedText(stream.Status, stream.Text())
	}
	p.stream = stream
	o, bad := p.post(ctx,
		fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"soak","version":"1"}}}`,
			wire.Revisions()[0].Name))
	if !bad {
		var m mcptest.Message
		m, err = stream.Response()
		o, bad = refused(stream.Exchange, m, err)
	}
	if !bad {
		o, bad = p.post(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	if bad {
		stream.Close()
		return o
	}
	return outcome{kind: answered}
}

// post sends a message, which must be accepted.
func (p *piped) post(ctx context.Context, body string) (o outcome, bad bool) {
	x, err := p.stream.Post(ctx, body, nil)
	if err != nil {
		return broken(err), true
	}
	defer x.Close()
	if x.Status == http.StatusAccepted {
		return outcome{}, false
	}
	m, err := x.Next()
	if o, bad = refused(x, m, err); o.kind == sessionLost {
		o.kind = streamLost
	}
	return o, bad
}

func (p *piped) leave() {
	if p.stream != nil {
		p.end()
		p.stream.Close()
		p.stream = nil
	}
}

// act makes a call.
func (p *piped) act(ctx context.Context) {
	if p.rand.IntN(50) == 0 {
		p.leave()
		return
	}
	in := script{Progress: p.rand.IntN(3), Pause: p.rand.IntN(20)}
	to := p.pick(nil)
	p.calls++
	in.Nonce = fmt.Sprintf("p%d-%d", p.index, p.calls)
	if !p.l.send(in.Nonce, "call over HTTP+SSE") {
		return
	}
	limit := time.AfterFunc(patience, p.end)
	o := p.converse(ctx, to, in)
	if !limit.Stop() {
		p.l.violation("call %s over HTTP+SSE (server %s) had no end after %s", in.Nonce, to.name, patience)
	}
	o.server = to.name
	o.detail = fmt.Sprintf("server %s: %s", to.name, o.detail)
	p.l.settle(in.Nonce, o)
	if o.failed() { // a late answer would look like one to the next call
		p.leave()
	}
}

func (p *piped) converse(ctx context.Context, to *server, in script) outcome {
	v := &conversation{c: p.client, to: to, in: in, id: strconv.Itoa(1000 + p.calls)}
	o, bad := p.post(ctx,
		fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"%s__%s","arguments":{"nonce":%q,"progress":%d,"pause":%d},"_meta":{"progressToken":%q}}}`,
			v.id, to.name, toolDo, in.Nonce, in.Progress, in.Pause, in.Nonce))
	if bad {
		return o
	}
	for {
		m, err := p.stream.Next()
		switch {
		case err != nil:
			return broken(err)
		case m.Method == "notifications/progress":
			v.progress(m)
		case m.IsResponse():
			o, _ := v.response(p.stream.Exchange, m)
			return o
		case m.Method != "" && m.ID != nil:
			v.wrong("was asked over HTTP+SSE: %s", m.Text)
		}
	}
}
