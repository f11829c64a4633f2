package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// What a client does to a call before it ends.
const (
	nothing = iota
	cancels // cancels it at the first progress
	drops   // drops its stream at the first progress, and resumes it
)

// conversation is one call of a client, from its first request to its last response.
type conversation struct {
	c    *client
	to   *server
	in   script
	does int

	from      time.Time
	id        string
	lastID    string // id of the last event
	seen      int    // progress so far
	expected  string // the answer of the client that the result must quote
	cancelled bool
	dropped   bool
	resuming  bool   // the stream continues after lastID
	gap       bool   // the gateway said that events of the stream were dropped
	rounds    int    // rounds that were answered with questions
	retry     string // members for the next round
}

// next is the step after a stream has ended.
type next int

const (
	over   next = iota
	round       // with answers
	resume      // after the last event
)

// nonce returns the nonce of the client's last call.
func (c *client) nonce() string { return fmt.Sprintf("c%d-%d", c.index, c.calls) }

// call makes one call and follows it to its end.
func (c *client) call(ctx context.Context, action string, to *server, does int, in script) outcome {
	c.calls++
	in.Nonce = c.nonce()
	if !c.l.send(in.Nonce, action) {
		return outcome{kind: answered}
	}
	v := &conversation{c: c, to: to, in: in, does: does, from: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o := v.run(ctx)
	if o.failed() && ctx.Err() != nil {
		c.l.violation("%s %s (client %s, server %s) had no end after %s: %s", action, in.Nonce, c.Revision.Name, to.name,
			patience, o.detail)
	}
	o.detail = fmt.Sprintf("client %s, server %s: %s", c.Revision.Name, to.name, o.detail)
	o.round, o.server, o.session = v.rounds, to.name, c.opened
	c.l.settle(in.Nonce, o)
	if o.kind == sessionLost {
		c.lost()
	}
	return o
}

func (v *conversation) run(ctx context.Context) outcome {
	x, err := v.send(ctx)
	var since time.Time // time of the first cut
	for {
		var o outcome
		then := resume
		if err != nil {
			o = broken(err)
		} else {
			o, then = v.read(ctx, x)
		}
		if since.IsZero() && then == resume {
			since = time.Now()
		}
		switch {
		case then == over:
			return o
		case then == round:
			x, err = v.send(ctx)
			continue
		case !v.c.Revision.Stateful || v.lastID == "":
			return o
		case time.Since(since) > resumePatience:
			return outcome{kind: "lost", detail: "the stream cannot be gone on with: " + o.detail}
		}
		if wait(ctx, 50*time.Millisecond) != nil {
			return outcome{kind: "lost", detail: o.detail}
		}
		v.resuming = true
		x, err = v.c.Get(ctx, v.lastID)
	}
}

// send makes the call, or makes it again with answers.
func (v *conversation) send(ctx context.Context) (*mcptest.Exchange, error) {
	arguments, err := json.Marshal(v.in)
	if err != nil {
		return nil, err
	}
	v.c.requests++
	v.id = strconv.Itoa(v.c.requests + 100)
	params := fmt.Sprintf(`{"name":"%s__%s","arguments":%s,"_meta":{"progressToken":%q}%s}`, v.to.name, toolDo, arguments,
		v.in.Nonce, v.retry)
	return v.c.SendID(ctx, v.id, "tools/call", params)
}

// read reads one stream.
func (v *conversation) read(ctx context.Context, x *mcptest.Exchange) (outcome, next) {
	defer x.Close()
	// A resumed stream may stay silent for ever.
	limit := time.AfterFunc(resumePatience, x.Close)
	defer limit.Stop()
	if v.resuming && !x.Stream { // this answers the GET, not the call
		o := refusedText(x.Status, x.Text())
		if o.kind == sessionLost {
			return o, over
		}
		return o, resume
	}
	for {
		m, err := x.Next()
		v.lastID = cmp.Or(x.LastEventID(), v.lastID)
		if err != nil {
			return v.ended(x, m, err)
		}
		switch {
		case m.Method == "notifications/progress":
			v.progress(m)
			if v.does == drops && !v.dropped && v.lastID != "" {
				v.dropped = true
				return outcome{kind: "cut", detail: "dropped"}, resume
			}
			if v.does == cancels && !v.cancelled {
				if v.cancelled = true; !v.c.Revision.Stateful {
					return outcome{kind: cancelled}, over
				}
				if o := v.c.notify(ctx, "notifications/cancelled", `{"requestId":`+v.id+`}`); o.failed() {
					return o, over
				}
			}
		case m.Method != "" && m.ID != nil:
			v.reply(ctx, m)
		case m.IsResponse():
			o, then := v.response(x, m)
			if then == over {
				v.nothingFollows(x)
			}
			return o, then
		case m.Method == "notifications/message":
			from := ""
			v.gap = v.gap || v.resuming && m.Param("logger", &from) && from == "gatehouse"
		case m.Method != "notifications/cancelled":
			v.wrong("got %s", m.Text)
		}
	}
}

// ended handles the end of a stream without a response.
func (v *conversation) ended(x *mcptest.Exchange, m mcptest.Message, err error) (outcome, next) {
	if v.cancelled {
		return outcome{kind: cancelled}, over
	}
	o, _ := refused(x, m, err)
	if x.Status == http.StatusOK {
		return o, resume
	}
	return o, over
}

func (v *conversation) wrong(format string, args ...any) {
	v.c.l.violation("%s (client %s, server %s) %s", v.in.Nonce, v.c.Revision.Name, v.to.name, fmt.Sprintf(format, args...))
}

// progress checks a progress notification: it must belong to the call and arrive in order.
func (v *conversation) progress(m mcptest.Message) {
	n, text, token := 0, "", ""
	m.Param("progress", &n)
	m.Param("progressToken", &token)
	if m.Param("message", &text) && text != fmt.Sprintf("%s:%d", v.in.Nonce, n) || token != v.in.Nonce {
		v.wrong("got the progress of another call: %s", m.Text)
	}
	switch {
	case n > v.seen:
		v.seen = n
	case v.resuming && n > 0:
		v.c.l.note("progress of a resumed stream", v.from,
			outcome{kind: toldAgain, detail: fmt.Sprintf("%s: %d after %d", v.in.Nonce, n, v.seen)})
	default:
		v.wrong("progress %d came after %d", n, v.seen)
	}
}

// reply answers a question, again until the gateway takes the answer.
func (v *conversation) reply(ctx context.Context, m mcptest.Message) {
	if nonce := mcptest.QuestionText(m.Params); nonce != v.in.Nonce || m.Method != v.in.Ask {
		v.wrong("was asked the question of another call: %s", m.Text)
		return
	}
	v.expected = said(v.in.Nonce)
	v.rounds++
	for {
		x, err := v.c.Post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID,
			mcptest.Answer(m.Method, said(v.in.Nonce))))
		if err == nil {
			status := x.Status
			x.Close()
			if status == http.StatusAccepted || status == http.StatusNotFound {
				return
			}
		}
		if wait(ctx, 200*time.Millisecond) != nil {
			return
		}
	}
}

// response takes the response, which may ask questions.
func (v *conversation) response(x *mcptest.Exchange, m mcptest.Message) (outcome, next) {
	if string(m.ID) != v.id && x.Status != http.StatusNotFound {
		v.wrong("has the id %s and got the answer %s", v.id, m.Text)
	}
	if m.Error != nil {
		return v.failure(x, m), over
	}
	if v.cancelled {
		v.wrong("was cancelled, and answered: %.300s", m.Text)
		return outcome{kind: cancelled}, over
	}
	if kind := ""; m.Value("resultType", &kind) && kind == "input_required" {
		return v.questions(m)
	}
	var content []struct{ Text string }
	if want := v.in.result(v.expected); !m.Value("content", &content) || len(content) != 1 || content[0].Text != want ||
		v.in.End != "" {
		v.wrong("got what is not its answer: %.300s", m.Text)
	}
	if v.in.Ask != "" && v.expected == "" {
		v.wrong("was answered before its question was: %.300s", m.Text)
	}
	if detail := fmt.Sprintf("%d of %d progress (dropped: %t, last event %s)", v.seen, v.in.Progress, v.dropped,
		v.lastID); v.gap && v.seen < v.in.Progress {
		v.c.l.note("progress of a resumed stream", v.from, outcome{kind: toldOfGap, detail: v.in.Nonce + ": " + detail})
	} else if v.seen != v.in.Progress {
		v.wrong("got %s", detail)
	}
	return outcome{kind: answered}, over
}

// failure takes an error. Either the script wanted it, or a fault has to explain it.
func (v *conversation) failure(x *mcptest.Exchange, m mcptest.Message) outcome {
	o, _ := refused(x, m, nil)
	e := m.Error
	if e.Message == "" || strings.Contains(e.Message, "127.0.0.") || strings.Contains(e.Message, "goroutine") {
		v.wrong("got an error that says nothing, or too much: %s", m.Text)
	}
	switch {
	case v.cancelled:
		return outcome{kind: cancelled}
	case v.in.End == endFail && e.Code == failCode && e.Message == v.in.Nonce:
		return outcome{kind: answered}
	case v.in.End == endDie && (e.Code == 50201 || e.Code == 50202 || e.Code == 50205) && o.executed == "unknown":
		return outcome{kind: died}
	}
	return o
}

// questions answers an input_required result in the next round.
func (v *conversation) questions(m mcptest.Message) (outcome, next) {
	var state json.RawMessage
	var requests map[string]struct {
		Method string
		Params json.RawMessage
	}
	m.Value("requestState", &state)
	m.Value("inputRequests", &requests)
	if state == nil || len(requests) != 1 || v.expected != "" {
		v.wrong("cannot answer %.500s", m.Text)
		return outcome{kind: "bad question"}, over
	}
	for key, q := range requests {
		if nonce := mcptest.QuestionText(q.Params); nonce != v.in.Nonce || q.Method != v.in.Ask {
			v.wrong("was asked the question of another call: %s", m.Text)
		}
		v.retry = fmt.Sprintf(`,"inputResponses":{%q:%s},"requestState":%s`, key,
			mcptest.Answer(q.Method, said(v.in.Nonce)), state)
	}
	v.expected = said(v.in.Nonce)
	v.rounds++
	return outcome{}, round
}

// nothingFollows reads a stream to its end after the response.
func (v *conversation) nothingFollows(x *mcptest.Exchange) {
	if m, err := x.Next(); err == nil {
		v.wrong("after its answer came %.300s", m.Text)
	} else if x.Status == http.StatusOK && errors.Is(err, context.DeadlineExceeded) {
		v.wrong("its stream has no end")
	}
}
