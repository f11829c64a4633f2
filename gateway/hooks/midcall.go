package hooks

import (
	"context"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// notify passes on what a server says while a call runs. A message that a hook refuses is dropped:
// nobody waits for it.
func (r *run) notify(e mcp.Event) {
	switch e.Method {
	case mcp.NoteProgress, mcp.NoteMessage:
		left, err := r.look(toClient, piece{kind: kindMessage, value: e.Params, texts: inMessage})
		if err != nil {
			return
		}
		e.Params = left
	}
	r.call.Notify(e)
}

// ask runs the hooks on the questions of a server.
func (r *run) ask(ask *mcp.Ask) (*mcp.Ask, error) {
	left := *ask
	left.Requests = append([]mcp.InputRequest(nil), ask.Requests...)
	for i := range left.Requests {
		params, err := r.look(toClient, piece{kind: kindQuestion, value: left.Requests[i].Params, texts: inQuestion})
		if err != nil {
			return nil, err
		}
		left.Requests[i].Params = params
	}
	return &left, nil
}

// letGo releases a call that waits for answers that will not come: it takes the call over, and
// cancels it at once.
func letGo(ctx context.Context, next mcp.Handler, c *mcp.Call, ask *mcp.Ask) {
	if !ask.Here && !ask.Kept {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	last := c.Clone()
	last.State, last.Answers, last.Refused = ask.State, nil, make(map[string]*mcp.Error, len(ask.Requests))
	for _, q := range ask.Requests {
		last.Refused[q.Key] = mcp.Errorf(failure.QuestionUnanswered, "the call is over: there will be no answer")
	}
	last.Notify = func(mcp.Event) {}
	_, _ = next.Handle(ctx, last)
}
