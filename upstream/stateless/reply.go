package stateless

import (
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// Values of resultType, 2026-07-28 basic/index#resulttype.
const (
	resultComplete      = "complete"
	resultInputRequired = "input_required"
	resultTask          = "task"
)

// reply turns a server's reply into ours, by the resultType of its result.
func (d *Dialect) reply(c *mcp.Call, declared dialect.Capabilities, reply *mcp.Reply) (*mcp.Reply, error) {
	result := reply.Result
	kind, ok := reply.Outline.Member(result, "resultType")
	switch {
	case !ok, kind.Text() == resultComplete:
	case kind.Text() == resultInputRequired && mcp.CanAsk(c.Method):
		reply, err := d.askReply(declared, result)
		if err == nil && !d.env.Admit.MayAsk(c, reply.Ask.Requests...) {
			return nil, d.env.Admit.AskedTooMuch()
		}
		return reply, err
	case kind.Text() == resultTask && c.Method == mcp.MethodToolsCall && declared.Tasks &&
		mcp.TaskID(result) != "" && result.At("status").Text() != "":
		reply.Task = true
		return reply, nil
	default:
		return nil, transport.Garbage("resultType %.40q", kind.Text())
	}
	if c.Method == mcp.MethodTasksGet {
		task, err := d.openTask(declared, result)
		if err != nil {
			return nil, err
		}
		reply.Result = task
		return reply, nil
	}
	if mcp.ListMember(c.Method) == "" {
		return reply, nil
	}
	reply, err := dialect.ReadList(c.Method, result)
	if err == nil && c.Method == mcp.MethodToolsList && !d.env.Process {
		reply.List = d.LearnTools(c, reply.List)
	}
	return reply, err
}

// askReply turns an InputRequiredResult into an Ask (2026-07-28 basic/patterns/mrtr). Keys
// and state stay as they are, unless they look like the gateway's own.
func (d *Dialect) askReply(declared dialect.Capabilities, result mcp.Raw) (*mcp.Reply, error) {
	ask := &mcp.Ask{}
	var err error
	requests, hasRequests := result.Member("inputRequests")
	requests.Each(func(key string, request mcp.Raw) bool {
		method, params := request.At("method").Text(), request.At("params")
		if why := declared.Refuses(method, params); why != nil {
			err = mcp.UpstreamError(failure.QuestionImpossible, d.env.Upstream, mcp.ExecutedUnknown,
				"Upstream %s asks what it was told cannot be asked: %s", d.env.Upstream, why.Message)
			return false
		}
		if method == mcp.MethodElicit { // there is no such id in this dialect, and a server must not forge ours
			params = params.Without("elicitationId")
		}
		params, why := d.env.Voice.Put(method, params)
		if why != nil {
			err = mcp.UpstreamError(failure.QuestionImpossible, d.env.Upstream, mcp.ExecutedUnknown,
				"Upstream %s asks what the user cannot be asked: %s", d.env.Upstream, why.Message)
			return false
		}
		ask.Requests = append(ask.Requests, mcp.InputRequest{Key: dialect.PublicKey(mcp.Raw(`"` + key + `"`).Text()),
			Method: method, Params: params})
		return true
	})
	if err != nil {
		return nil, err
	}
	state, hasState := result.Member("requestState")
	switch {
	case hasState:
		ask.Round = mcp.NewRound(mcp.FrameServer, state.Text())
	case !hasRequests:
		return nil, transport.Garbage("an input_required result without inputRequests and requestState")
	}
	return &mcp.Reply{Ask: ask}, nil
}
