package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// call is one request of a client: the model of what must and may be seen of it, and what
// was seen.
type call struct {
	w     *interleaving
	by    *player
	at    *stage
	name  string // as in the steps: A1
	tag   string // as in the messages, different in each run
	id    string // of the request; other clients use the same ids
	turns <-chan *turn
	now   *turn // at the server; nil if it has not arrived, or was abandoned there

	n        int      // events and questions so far
	must     []int    // events that must arrive
	may      []int    // events that may be lost
	asked    []string // questions without an answer
	told     []string // answers that the server must get
	rounds   int      // at a stateless server: turns that ended with questions
	played   int      // turns so far
	finished string   // how the server ended it, "" if it has not
	raced    bool     // it did so with open questions
	replay   *query   // a question that was answered

	over bool // cancelled, or its session has ended: messages on their way may be lost
	left bool // abandoned by a stateless client with open questions
	away bool // its stream is closed and will be resumed
	deaf bool // its stream is closed for good

	// w.mu guards these.
	line    line
	expired bool                       // its session has ended
	got     map[string]json.RawMessage // answers that the server got
}

func (c *call) String() string { return c.name }

func (c *call) token() string { return c.tag + "-token" }

// alive reports whether the call is neither finished at the server nor abandoned.
func (c *call) alive() bool { return c.finished == "" && !c.over && !c.left }

// playing reports whether the server can act now.
func (c *call) playing() bool { return c.alive() && (c.at.stateful || len(c.asked) == 0) }

// open reports whether the client sees what arrives.
func (c *call) open() bool { return !c.over && !c.left && !c.away && !c.deaf }

func (w *interleaving) call(p *player, at *stage) {
	p.calls++
	c := &call{w: w, by: p, at: at, name: p.name + strconv.Itoa(p.calls), id: strconv.Itoa(p.calls + 100),
		got: map[string]json.RawMessage{}}
	c.tag = fmt.Sprintf("r%d-%s", w.run, c.name)
	c.turns = at.expect(c.tag)
	w.mu.Lock()
	w.calls = append(w.calls, c)
	w.mu.Unlock()
	c.send("")
}

// turn waits until the call is at its server.
func (c *call) turn() *turn {
	if c.now != nil {
		return c.now
	}
	limit := time.NewTimer(inPatience)
	defer limit.Stop()
	select {
	case c.now = <-c.turns:
	case <-limit.C:
		c.w.fail("%s never came to %s", c, c.at.name)
	}
	c.played++
	if c.played == 1 {
		return c.now
	}
	var answers map[string]json.RawMessage
	c.now.Param("inputResponses", &answers)
	for _, nonce := range c.told {
		if !isAnswer(answers[nonce], nonce) {
			c.w.fail("%s: %s got the answers %s, want one to %s", c, c.at.name, c.now.Message.Text, nonce)
		}
	}
	state := ""
	if c.now.Param("requestState", &state); len(answers) != len(c.told) || state != c.state() {
		c.w.fail("%s: %s got the state %q and the answers %s", c, c.at.name, state, c.now.Message.Text)
	}
	c.told = nil
	return c.now
}

// state returns the requestState of a stateless server.
func (c *call) state() string { return fmt.Sprintf("%s round %d", c.tag, c.rounds) }

func (c *call) report(kind string) {
	c.n++
	if !c.turn().report(kind, c.tag, c.n) {
		c.w.fail("%s is over at %s: nobody cancelled it", c, c.at.name)
	}
	if !c.by.stateful() && len(c.asked) > 0 { // nobody listens
		c.may = append(c.may, c.n)
		return
	}
	c.must = append(c.must, c.n)
}

func (c *call) ask(count int) {
	at := c.turn()
	var requests []string
	for range count {
		c.n++
		nonce := fmt.Sprintf("%s:q%d", c.tag, c.n)
		c.asked = append(c.asked, nonce)
		method := []string{mcptest.Elicitation, mcptest.Sampling}[c.n%2]
		params := mcptest.Question(method, nonce)
		requests = append(requests, fmt.Sprintf("%q:{\"method\":%q,\"params\":%s}", nonce, method, params))
		if c.at.stateful {
			c.at.asking.Go(func() {
				if m, err := at.Ask(method, params); err == nil {
					c.w.change(func() { c.got[nonce] = json.RawMessage(m.Text) })
				}
			})
		}
	}
	if !c.at.stateful {
		c.rounds++
		at.step(true, func() {
			at.Result(fmt.Sprintf(`{"resultType":"input_required","inputRequests":{%s},"requestState":%q}`,
				strings.Join(requests, ","), c.state()))
		})
		c.now = nil
	}
}

func (c *call) finish(how string) {
	c.finished, c.raced = how, len(c.asked) > 0
	if !c.turn().finish(how, c.tag) {
		c.w.fail("%s is over at %s: nobody cancelled it", c, c.at.name)
	}
}

// nextQuestion waits for a question without an answer.
func (c *call) nextQuestion() (next query) {
	c.w.until("a question of "+c.name, func() bool {
		for _, q := range c.line.questions {
			if slices.Contains(c.asked, q.nonce) {
				next = q
				return true
			}
		}
		return false
	})
	return next
}

// answer answers the next question, or without a session all open ones.
func (c *call) answer() {
	if c.by.stateful() {
		q := c.nextQuestion()
		c.answered(q.nonce)
		c.replay = &q
		c.by.reply(q)
		return
	}
	rounds := 0
	c.w.until("the questions of "+c.name, func() bool { return c.line.ended })
	c.w.mu.Lock()
	l := &c.line
	state, questions, final := l.state, slices.Clone(l.questions), l.response != nil
	rounds = l.rounds
	c.w.mu.Unlock()
	if final && c.raced {
		c.asked = nil
		return
	}
	if rounds == 0 || state == nil {
		c.w.fail("%s: the server asks, and the answer came without questions", c)
	}
	var answers, nonces []string
	for _, q := range questions {
		if slices.Contains(c.asked, q.nonce) {
			c.answered(q.nonce)
			nonces = append(nonces, q.nonce)
			answers = append(answers, fmt.Sprintf("%q:%s", q.key, theAnswer(q)))
		}
	}
	c.send(fmt.Sprintf(`,"inputResponses":{%s},"requestState":%s`, strings.Join(answers, ","), state))
	if c.raced {
		c.asked, c.told = nil, nil
		return
	}
	// From now on the client sees it again.
	if !c.at.stateful {
		c.turn()
		return
	}
	for _, nonce := range nonces {
		c.w.until("the answer to "+nonce, func() bool { return c.got[nonce] != nil })
	}
}

func (c *call) answered(nonce string) {
	c.asked = slices.DeleteFunc(c.asked, func(s string) bool { return s == nonce })
	c.told = append(c.told, nonce)
}

// reply answers a question, possibly one of another client.
func (p *player) reply(q query) {
	ctx, cancel := context.WithTimeout(p.w.ctx, inPatience)
	defer cancel()
	if err := p.Answer(ctx, q.id, theAnswer(q)); err != nil {
		p.w.fail("%s: %v", p.name, err)
	}
}

func (p *player) sayCancelled(id string) {
	ctx, cancel := context.WithTimeout(p.w.ctx, inPatience)
	defer cancel()
	if status, err := p.Notify(ctx, "notifications/cancelled", `{"requestId":`+id+`}`); err != nil ||
		status != http.StatusAccepted {
		p.w.fail("the cancellation of %s: %d, %v", id, status, err)
	}
}

// lose records that messages on their way may not arrive.
func (c *call) lose() {
	c.over = true
	c.may, c.must = append(c.may, c.must...), nil
}

func (c *call) cancel() {
	c.begun()
	c.lose()
	c.by.sayCancelled(c.id)
}

func (c *call) hangUp() {
	c.lose()
	c.deaf = true
	c.drop()
}

// begun waits until the gateway has the call: a message that overtakes it is lost.
func (c *call) begun() {
	if c.played == 0 && c.playing() {
		c.turn()
	}
}

// forsake closes the call's stream for good.
func (c *call) forsake() {
	c.begun()
	c.deaf = true
	c.drop()
}

func (w *interleaving) endSession(p *player) {
	w.change(func() {
		for _, c := range w.calls {
			if c.by == p {
				c.lose()
				c.expired = true
			}
		}
	})
	w.bye(p)
	w.enter(p)
}

func (w *interleaving) settle() {
	for _, c := range w.calls {
		c.settle()
	}
}

// settle waits until the client has seen what it must have seen, and the server has its
// answers.
func (c *call) settle() {
	if c.finished == "" && !c.over && !c.left && c.at.stateful && len(c.asked) == 0 {
		for _, nonce := range c.told {
			c.w.until("the answer to "+nonce, func() bool { return c.got[nonce] != nil })
		}
	}
	if !c.open() {
		return
	}
	for _, n := range c.must {
		c.w.until(fmt.Sprintf("%s:%d", c, n), func() bool { return slices.Contains(c.line.events, n) })
	}
	if c.finished != "" && (c.by.stateful() || len(c.asked) == 0) {
		c.w.until("the response of "+c.name, func() bool { return c.line.response != nil })
	}
}

// end ends all calls and checks what was seen.
func (w *interleaving) end() {
	for _, c := range w.calls {
		if c.away && !c.over {
			c.away = false
			c.resume()
		}
		for c.open() && len(c.asked) > 0 && (c.finished == "" || !c.by.stateful()) {
			c.answer()
		}
		if c.playing() {
			c.finish("ends")
		}
	}
	w.settle()
	w.leave()
	for _, p := range w.players {
		p.Session = ""
	}
	for _, c := range w.calls {
		if !c.left {
			w.until("the end of "+c.name+"'s stream", func() bool { return c.line.ended })
		}
		c.check()
	}
	w.mustBeRight()
}

// check checks what was seen of a call that has ended.
func (c *call) check() {
	c.checkServer()
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for _, n := range c.line.events {
		if !slices.Contains(c.must, n) && !slices.Contains(c.may, n) {
			c.w.wrongLocked("%s: event %d was never sent", c, n)
		}
	}
	for nonce, answer := range c.got {
		if !isAnswer(answer, nonce) && c.finished == "" && !c.over && !c.left {
			c.w.wrongLocked("%s: the server got the answer %s to %s", c, answer, nonce)
		}
	}
	if r := c.line.response; r != nil && !c.fits(*r) {
		c.w.wrongLocked("%s (%q): the response is %s", c, c.finished, r.Text)
	}
}

// checkServer waits until the call has ended at its server, and looks for calls that nobody
// made.
func (c *call) checkServer() {
	for {
		if c.now != nil && !c.left {
			select {
			case <-c.now.over:
			case <-time.After(inPatience):
				c.w.fail("%s is still under way at %s, which was not told that nobody waits for it", c, c.at.name)
			}
		}
		select {
		case c.now = <-c.turns:
			if c.played++; c.played > c.rounds+1 {
				c.w.fail("%s came to %s %d times: %s", c, c.at.name, c.played, c.now.Message.Text)
			}
		default:
			return
		}
	}
}

// fits reports whether a response is the one that the server sent.
func (c *call) fits(m mcptest.Message) bool {
	switch {
	case m.Error != nil && m.Error.Code == 7:
		return c.finished == "fails" && strings.Contains(m.Error.Message, c.tag+" failed")
	case m.Error != nil:
		return c.finished == "dies" || c.expired
	}
	return c.finished == "ends" && said(m) == c.tag+" done"
}
