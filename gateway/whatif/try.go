package whatif

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// mostTried bounds a result that operators get, in bytes.
const mostTried = 1 << 20

// asksAll are the default capabilities of a trial: the operator sees what a tool asks.
const asksAll = `{"elicitation":{"form":{},"url":{}}}`

// Try calls a tool as a stateless client of the caller would, so policy, limits, hooks and approvals
// apply, and the call is recorded. Errors: admin.ErrNobody, that of admin.BadRequest.
func (s Service) Try(ctx context.Context, as *mcp.Caller, t admin.Trial) (done admin.Tried, err error) {
	now, caller := s.Configuration.Now(), mcp.Caller{}
	switch {
	case as != nil:
		caller = *as
	case now.Config.Auth.Identifies():
		return done, admin.ErrNobody
	}
	caller.View = t.View
	caller = mcp.NewCaller(caller)
	if _, err := config.ViewNamed(now.Config, t.View); err != nil {
		return done, admin.BadRequest(fmt.Sprintf("view %q: the configuration has no view of this name", t.View))
	}
	call, err := trial(caller, t, s.Self)
	if err != nil {
		return done, admin.BadRequest(err.Error())
	}
	done.ID = call.ID
	if now.ViewUsers.Refuse(&caller) {
		done.Error = told(mcp.Errorf(failure.ViewRefused, "this endpoint is for other users"), call.ID)
		return done, nil
	}
	room := s.Memory.Room(caller)
	defer room.Free()
	began := time.Now()
	call.Room, call.Trail = &room, s.Recent.Trails().Begin(began)
	ctx = mcp.WithCaller(ctx, caller)
	var reply *mcp.Reply
	if err = s.Own(ctx, call); err == nil {
		reply, err = s.Observe(ctx, call, s.Calls)
	}
	done.Took = float64(time.Since(began).Microseconds()) / 1000
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		done.Error = &admin.TriedError{Code: mcp.CodeUpstreamTimeout,
			Message: "The console waits no longer: the call was cancelled, and may have run."}
	case err != nil:
		done.Error = told(err, call.ID)
	case reply == nil:
		done.Error = told(errors.New("no reply"), call.ID)
	case reply.Ask != nil:
		done.Asked = questions(reply.Ask)
		done.Note = "The call asked its user, and the console cannot answer. The call has ended: call the tool with a client that can."
		reply.Ask.Dropped("the console cannot answer questions")
	case len(reply.Result) > mostTried:
		done.Note = fmt.Sprintf("The result has %d bytes, which are too many to be shown: a client gets them.",
			len(reply.Result))
	default:
		done.Result = slices.Clone(reply.Result)
	}
	if reply != nil && reply.Release != nil {
		reply.Release()
	}
	return done, nil
}

// trial makes the call. Its message is checked as those of clients are.
func trial(caller mcp.Caller, t admin.Trial, self string) (*mcp.Call, error) {
	arguments, caps := t.Arguments, t.Capabilities
	if arguments == nil {
		arguments = mcp.Raw("{}")
	}
	if caps == nil {
		caps = mcp.Raw(asksAll)
	}
	params := mcp.Object("name", mcp.String(t.Name), "arguments", arguments)
	_, err := wire.Scan(mcp.Object("jsonrpc", mcp.String("2.0"), "id", mcp.Raw("1"), "method",
		mcp.String(mcp.MethodToolsCall), "params", params))
	switch {
	case t.Name == "":
		return nil, errors.New("name: which tool?")
	case err != nil:
		return nil, err
	case !caps.IsObject():
		return nil, errors.New("the capabilities are no JSON object")
	}
	if err := wire.CheckObject(arguments); err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	// The call is like that of a program that reaches this replica alone: no other one keeps anything for it.
	program := sha256.Sum256([]byte("console\x00" + self + "\x00" + caller.View))
	return &mcp.Call{
		ID: "try-" + strings.ToLower(rand.Text()[:12]), Method: mcp.MethodToolsCall, Name: t.Name, Params: params,
		Caller: caller, Revision: wire.Stateless().Name,
		Session: caller.User() + ":~" + hex.EncodeToString(program[:8]), Ephemeral: true, Caps: caps,
		Notify: func(mcp.Event) {}, Verdict: &mcp.Verdict{},
	}, nil
}

// told returns an error as the client of a call gets it.
func told(err error, id string) *admin.TriedError {
	known, ok := errors.AsType[*mcp.Error](err)
	switch {
	case !ok:
		return &admin.TriedError{Code: mcp.CodeInternal, Name: failure.Internal.String(),
			Message: "internal error: the log has the cause, at call " + id}
	case known.Name == failure.Upstream:
		return &admin.TriedError{Code: known.Code, Message: known.Message}
	}
	return &admin.TriedError{Code: known.Code, Name: known.Name.String(), Message: known.Message}
}

// questions describes the questions of a call in words.
func questions(asked *mcp.Ask) (all []string) {
	for _, q := range asked.Requests {
		switch message, to := q.Params.At("message").Text(), q.Params.At("url").Text(); {
		case to != "":
			all = append(all, message+" (at "+to+")")
		case message != "":
			all = append(all, message)
		default:
			all = append(all, q.Method)
		}
	}
	if all == nil {
		return []string{"The server wants the call to be made again later."}
	}
	return all
}
