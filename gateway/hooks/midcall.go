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

func keysOf(questions []mcp.InputRequest) (keys []string) {
	for _, q := range questions {
		keys = append(keys, q.Key)
	}
	return keys
}

// letGo releases a call that waits at its server for answers to questions that will not come: it
// takes the call over, and cancels it at once. Without a state nothing waits.
func letGo(ctx context.Context, next mcp.Handler, c *mcp.Call, state string, questions []string) {
	if state == "" {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	last := c.Clone()
	last.State, last.Answers, last.Refused = state, nil, make(map[string]*mcp.Error, len(questions))
	for _, key := range questions {
		last.Refused[key] = mcp.Errorf(failure.QuestionUnanswered, "the call is over: there will be no answer")
	}
	last.Notify = func(mcp.Event) {}
	_, _ = next.Handle(ctx, last)
}
