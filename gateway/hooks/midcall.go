package hooks

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// notify passes on a server's messages while a call runs. One that a hook refuses is dropped, since
// no caller waits for it.
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
