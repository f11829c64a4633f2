package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// player is a scripted client in an interleaving.
type player struct {
	*mcptest.Client // a new one for each session
	w               *interleaving
	name            string
	calls           int
	stand           context.CancelFunc // ends its GET stream; nil for none
}

func (p *player) stateful() bool { return p.Revision.Stateful }

// query is a question as a client got it.
type query struct {
	id     json.RawMessage // of the request, for clients with a session
	key    string          // in an input_required result, for those without
	method string
	nonce  string
}

// line is what a client sees of one of its calls. w.mu guards all of it.
type line struct {
	log       []string // for the report
	events    []int    // numbers of progress and log messages
	questions []query  // in order of arrival
	rounds    int      // input_required results
	state     json.RawMessage
	response  *mcptest.Message
	lastID    string
	ended     bool // no stream is open
	hangUp    context.CancelFunc
}

// read reads a call's messages from the stream that open opens.
func (c *call) read(open func(context.Context) (*mcptest.Exchange, error)) {
	ctx, cancel := context.WithCancel(c.w.ctx)
	c.w.mu.Lock()
	c.line.hangUp, c.line.ended = cancel, false
	c.w.mu.Unlock()
	c.w.readers.Go(func() {
		defer cancel()
		defer c.w.change(func() { c.line.ended = true })
		x, err := open(ctx)
		if err != nil {
			if ctx.Err() == nil {
				c.w.wrong("%s: no answer: %v", c, err)
			}
			return
		}
		defer x.Close()
		for {
			m, err := x.Next()
			c.w.mu.Lock()
			c.line.lastID = cmp.Or(x.LastEventID(), c.line.lastID)
			c.w.mu.Unlock()
			if err != nil {
				return // if it ended too early, the missing messages show it
			}
			c.w.change(func() { c.take(m) })
		}
	})
}

// take takes one message. The caller holds w.mu.
func (c *call) take(m mcptest.Message) {
	l := &c.line
	if l.response != nil {
		c.w.wrongLocked("%s: after the response came %s", c, m.Text)
	}
	n, text := 0, ""
	switch {
	case m.Method == "notifications/progress":
		var token string
		if m.Param("progressToken", &token); token != c.token() || !m.Param("message", &text) || !m.Param("progress", &n) {
			c.w.wrongLocked("%s: got the progress %s", c, m.Text)
		}
		c.tookEvent("progress", n, text)
	case m.Method == "notifications/message":
		m.Param("data", &text)
		if _, err := fmt.Sscanf(text[strings.LastIndexByte(text, ':')+1:], "%d", &n); err != nil {
			c.w.wrongLocked("%s: got the message %s", c, m.Text)
		}
		c.tookEvent("log", n, text)
	case m.Method == "notifications/cancelled":
		l.log = append(l.log, "withdrawn")
	case m.Method != "" && m.ID != nil:
		c.tookQuestion(query{id: m.ID, method: m.Method, nonce: mcptest.QuestionText(m.Params)})
	case m.IsResponse():
		if string(m.ID) != c.id && !c.expired { // the error for an unknown session has no id
			c.w.wrongLocked("%s: the response has the id %s, want %s", c, m.ID, c.id)
		}
		if kind := ""; m.Value("resultType", &kind) && kind == "input_required" {
			c.tookRound(m)
			return
		}
		l.log = append(l.log, "response")
		l.response = &m
	default:
		c.w.wrongLocked("%s: got %s", c, m.Text)
	}
}

func (c *call) tookEvent(kind string, n int, text string) {
	l := &c.line
	l.log = append(l.log, fmt.Sprint(kind, " ", n))
	if text != fmt.Sprintf("%s:%d", c.tag, n) {
		c.w.wrongLocked("%s: got the %s of another call: %s", c, kind, text)
	}
	if len(l.events) > 0 && n <= l.events[len(l.events)-1] {
		c.w.wrongLocked("%s: %s %d after %v", c, kind, n, l.events)
	}
	l.events = append(l.events, n)
}

func (c *call) tookQuestion(q query) {
	l := &c.line
	l.log = append(l.log, "question "+strings.TrimPrefix(q.nonce, c.tag))
	if !strings.HasPrefix(q.nonce, c.tag+":") {
		c.w.wrongLocked("%s: was asked the question of another call: %s", c, q.nonce)
	}
	for _, before := range l.questions {
		if before.nonce == q.nonce {
			c.w.wrongLocked("%s: was asked twice: %s", c, q.nonce)
		}
	}
	l.questions = append(l.questions, q)
}

func (c *call) tookRound(m mcptest.Message) {
	l := &c.line
	l.log = append(l.log, "input_required")
	l.rounds++
	l.state = nil
	m.Value("requestState", &l.state)
	var requests map[string]struct {
		Method string
		Params json.RawMessage
	}
	m.Value("inputRequests", &requests)
	for key, r := range requests {
		c.tookQuestion(query{key: key, method: r.Method, nonce: mcptest.QuestionText(r.Params)})
	}
}

// send makes the call, or makes it again with answers.
func (c *call) send(more string) {
	params := fmt.Sprintf(`{"name":"%s__do","arguments":{"tag":%q},"_meta":{"progressToken":%q}%s}`, c.at.name, c.tag,
		c.token(), more)
	as := c.by.Client
	c.read(func(ctx context.Context) (*mcptest.Exchange, error) {
		return as.SendID(ctx, c.id, "tools/call", params)
	})
}

// resume reopens the stream of the call after the last event.
func (c *call) resume() {
	c.w.mu.Lock()
	after := c.line.lastID
	c.w.mu.Unlock()
	as := c.by.Client
	c.read(func(ctx context.Context) (*mcptest.Exchange, error) { return as.Get(ctx, after) })
}

// drop closes the call's stream and waits until nothing reads it any more.
func (c *call) drop() {
	c.line.hangUp()
	c.w.until(fmt.Sprintf("the end of %s's stream", c), func() bool { return c.line.ended })
}

// listen opens a GET stream. No message of a call may arrive there.
func (p *player) listen() {
	ctx, cancel := context.WithCancel(p.w.ctx)
	x, err := p.Get(ctx, "")
	if err != nil {
		cancel()
		p.w.fail("the GET stream of %s: %v", p.name, err)
	}
	p.stand = cancel
	p.w.readers.Go(func() {
		defer x.Close()
		for {
			m, err := x.Next()
			if err != nil {
				return
			}
			p.w.wrong("the GET stream of %s has %s", p.name, m.Text)
		}
	})
}
