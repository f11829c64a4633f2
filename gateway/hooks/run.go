package hooks

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// run is one call with the hooks that run for it.
type run struct {
	*Hooks
	ctx   context.Context
	call  *mcp.Call
	hooks []*hook
	// pushed marks content that no caller waits for.
	pushed bool

	mu  sync.Mutex // guards ran
	ran []mcp.HookRun
}

// there runs the hooks on the way to the server, and returns the call to make.
func (r *run) there() (*mcp.Call, error) {
	inner := r.call.Clone()
	inner.Notify = r.notify
	var err error
	switch c := r.call; c.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		err = r.arguments(inner)
	case mcp.MethodComplete:
		inner.Params = c.Params.Map(func(name []byte, value mcp.Raw) mcp.Raw {
			if err == nil && (mcp.Named(name, "argument") || mcp.Named(name, "context")) {
				value, err = r.look(toServer, piece{kind: kindMessage, value: value, texts: inData})
			}
			return value
		})
	case mcp.MethodResourcesRead, mcp.MethodDirectoryRead, mcp.MethodSkillsGet:
		_, err = r.look(toServer, piece{kind: kindArguments, texts: inData, uri: c.Name, fixed: true})
	}
	if err != nil {
		return nil, err
	}
	inner.Answers = maps.Clone(r.call.Answers)
	for key, answer := range r.call.Answers {
		if inner.Answers[key], err = r.look(toServer, piece{kind: kindAnswer, value: answer, texts: inData}); err != nil {
			return nil, err
		}
	}
	inner.Refused = maps.Clone(r.call.Refused)
	for key, refused := range r.call.Refused {
		if inner.Refused[key], err = r.failure(toServer, kindMessage, refused); err != nil {
			return nil, err
		}
	}
	return inner, nil
}

// arguments runs the hooks on the arguments of a call. If these change, policy decides again, and
// headers that repeat them are not compared.
func (r *run) arguments(inner *mcp.Call) error {
	given, _ := r.call.Params.Member("arguments")
	left, err := r.look(toServer, piece{kind: kindArguments, value: given, texts: inData})
	if err != nil || same(left, given) {
		return err
	}
	if inner.Params == nil {
		inner.Params = mcp.Raw("{}")
	}
	inner.Params, inner.ParamHeaders = inner.Params.With("arguments", left), nil
	if err := r.room(left, mcp.ExecutedNo); err != nil {
		return err
	}
	return r.Holds(r.ctx, r.call, inner)
}

// back makes the call and runs the hooks on its reply.
func (r *run) back(next mcp.Handler, inner *mcp.Call) (*mcp.Reply, error) {
	reply, err := next.Handle(r.ctx, inner)
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		if left, no := r.failure(toClient, kindOf(e), e); no != nil {
			err = no
		} else if left != e {
			err = left
		}
	}
	if err != nil || reply == nil {
		return nil, err
	}
	if reply.Ask != nil {
		again := *reply
		if again.Ask, err = r.ask(reply.Ask); err != nil {
			reply.Ask.Dropped("a guardrail of the gateway refuses the question")
			return nil, err
		}
		return &again, nil
	}
	var left mcp.Raw
	switch {
	case reply.Task, mcp.IsTaskMethod(r.call.Method) && r.call.Method != mcp.MethodTasksResult:
		left, err = r.task(reply.Result)
	case r.call.Method == mcp.MethodComplete:
		left, err = r.look(toClient, piece{kind: kindMessage, value: reply.Result, texts: inResult})
	case reply.Result != nil:
		left, err = r.look(toClient, piece{kind: kindResult, value: reply.Result, texts: inResult})
	}
	switch {
	case err != nil:
		return nil, err
	case same(left, reply.Result):
		return reply, nil
	}
	if err := r.room(left, mcp.ExecutedYes); err != nil {
		return nil, err
	}
	again := *reply
	again.Result = left
	return &again, nil
}

// room takes room for large content that was changed, until the answer is written.
func (r *run) room(left mcp.Raw, ran mcp.Executed) error {
	if len(left) <= mcp.CountedBytes || r.call.Room.Take(int64(len(left))) {
		return nil
	}
	return mcp.Errorf(failure.NoRoom,
		"The gateway has no room for what a guardrail has changed now: try again in a minute").
		WithData(executed(ran, ran == mcp.ExecutedNo))
}

// kindOf returns the kind of an error: a server's, or one of the gateway that may quote it.
func kindOf(e *mcp.Error) string {
	if e.Name == failure.Upstream {
		return kindError
	}
	return kindMessage
}

// failure runs the hooks on an error.
func (r *run) failure(to side, kind string, e *mcp.Error) (*mcp.Error, error) {
	if e.Name == failure.URLNeeded { // nothing but the page to which the user is sent
		return e, nil
	}
	value := mcp.Object("code", mcp.Int(int64(e.Code)), "message", mcp.String(e.Message))
	if e.Data != nil {
		value = value.With("data", e.Data)
	}
	left, err := r.look(to, piece{kind: kind, value: value, texts: inError})
	if err != nil || same(left, value) {
		return e, err
	}
	again := *e
	again.Message, again.Data = left.At("message").Text(), left.At("data")
	return &again, nil
}

// task runs the hooks on a task: on the result, error or questions in it, and on what it says of
// itself.
func (r *run) task(task mcp.Raw) (left mcp.Raw, err error) {
	look := func(p piece) mcp.Raw {
		left, problem := r.look(toClient, p)
		if err = problem; err != nil {
			return p.value
		}
		return left
	}
	left = task.Map(func(name []byte, value mcp.Raw) mcp.Raw {
		switch {
		case err != nil, mcp.Named(name, "taskId"):
			return value
		case mcp.Named(name, "result"):
			return look(piece{kind: kindResult, value: value, texts: inResult})
		case mcp.Named(name, "error"):
			return look(piece{kind: kindError, value: value, texts: inError})
		case mcp.Named(name, "inputRequests"):
			if !value.IsObject() {
				return look(piece{kind: kindMessage, value: value, texts: inData})
			}
			return value.Map(func(_ []byte, request mcp.Raw) mcp.Raw {
				switch {
				case err != nil:
					return request
				case !request.IsObject():
					return look(piece{kind: kindMessage, value: request, texts: inData})
				}
				return request.Map(func(name []byte, value mcp.Raw) mcp.Raw {
					if err == nil && mcp.Named(name, "params") {
						return look(piece{kind: kindQuestion, value: value, texts: inQuestion})
					}
					return value
				})
			})
		case mcp.Named(name, "_meta"):
			return look(piece{kind: kindMessage, value: value, texts: inMeta})
		}
		return look(piece{kind: kindMessage, value: value, texts: inTexts})
	})
	return left, err
}

// look runs the hooks on a piece of content, each on what the one before has left.
func (r *run) look(to side, p piece) (mcp.Raw, error) {
	p.on = sides[to]
	for _, h := range r.hooks {
		if !h.on[to] || h.remote && p.kind == kindMessage {
			continue
		}
		if h.remote && r.pushed {
			return nil, errPushed
		}
		began := time.Now()
		span := r.span(h, p)
		left, did, why := h.filter.look(r.ctx, r.call, p)
		span.End(actions[did])
		if err := r.ctx.Err(); err != nil && (did == failed || did == failedOpen) {
			return nil, err // not the hook's fault
		}
		r.note(mcp.HookRun{Name: h.name, On: p.on, Action: actions[did], Took: time.Since(began)})
		h.noteHealth(r.ctx, r.Log, did, why)
		switch did {
		case refused:
			return nil, r.refusal(to, p.kind, why)
		case failed:
			return nil, r.outage(to, p.kind, h.name, why)
		}
		p.value = left
	}
	return p.value, nil
}
