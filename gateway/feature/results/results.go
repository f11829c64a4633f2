package results

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Store keeps values of users.
type Store interface {
	// Keep keeps a value for ttl, in place of the one with the same id. kept is false if
	// there is no room.
	Keep(ctx context.Context, user, id string, value []byte, ttl time.Duration) (kept bool, err error)
	// Load returns a value, nil for none. It must not be modified.
	Load(ctx context.Context, user, id string) ([]byte, error)
}

// Deps are the dependencies of the stage. All but Metrics are required.
type Deps struct {
	// Of returns the settings for a tool: the size of the largest content, in bytes, that is
	// sent whole, 0 for any; and how long the whole of a larger one is kept.
	Of func(tool mcp.Target) (inline int64, keep time.Duration)
	// Least is the smallest inline of any tool, 0 if everything is sent whole.
	Least int64
	Store Store
	// Visible reports whether a caller may know of a tool.
	Visible func(caller *mcp.Caller, tool mcp.Target) bool
	// Name derives an id that only the gateway can derive.
	Name    func(values ...string) string
	Log     *slog.Logger
	Metrics *Metrics
}

// Middleware returns the stage, which does nothing if all results are sent whole.
func Middleware(deps Deps) mcp.Middleware {
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics(nil)
	}
	return func(next mcp.Handler) mcp.Handler {
		if deps.Least == 0 {
			return next
		}
		s := stage{deps, next}
		return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
			switch c.Method {
			case mcp.MethodToolsCall, mcp.MethodTasksResult:
				return s.call(ctx, c)
			case mcp.MethodTasksGet:
				return s.task(ctx, c)
			case mcp.MethodListen:
				return next.Handle(ctx, s.listening(ctx, c))
			case mcp.MethodResourcesRead:
				return s.read(ctx, c)
			case mcp.MethodResourcesList, mcp.MethodResourceTemplatesList:
				return s.list(ctx, c)
			case mcp.MethodDiscover:
				return s.discover(ctx, c)
			}
			return next.Handle(ctx, c)
		})
	}
}

// Reads reports whether a call reads a kept result, which any replica can do.
func Reads(c *mcp.Call) bool {
	return c.Method == mcp.MethodResourcesRead && strings.HasPrefix(c.Name, mcp.ResultScheme)
}

type stage struct {
	Deps
	next mcp.Handler
}

// call shortens the result of a tool, or of a task.
func (s stage) call(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	reply, err := s.next.Handle(ctx, c)
	if err != nil || reply == nil || reply.Task || int64(len(reply.Result)) <= s.Least {
		return reply, err
	}
	task := ""
	if c.Method == mcp.MethodTasksResult {
		task = c.Name
	}
	if short := s.shorten(ctx, c, task, reply.Result, reply.Outline); short != nil {
		return &mcp.Reply{Result: short, Release: reply.Release}, nil
	}
	return reply, nil
}

// task shortens the result in a task that has ended.
func (s stage) task(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	reply, err := s.next.Handle(ctx, c)
	if err != nil || reply == nil {
		return reply, err
	}
	if short := s.shortenTask(ctx, c, c.Name, reply.Result); short != nil {
		return &mcp.Reply{Result: short, Release: reply.Release}, nil
	}
	return reply, nil
}

// listening returns a call of subscriptions/listen that shortens tasks, too. Tasks of 2025-11-25
// have no results in them.
func (s stage) listening(ctx context.Context, c *mcp.Call) *mcp.Call {
	if c.Tasks != mcp.ExtensionTasks {
		return c
	}
	inner := c.Clone()
	inner.Notify = func(e mcp.Event) {
		if e.Method == mcp.NoteTask {
			if short := s.shortenTask(ctx, c, mcp.TaskID(e.Params), e.Params); short != nil {
				e.Params = short
			}
		}
		c.Notify(e)
	}
	return inner
}

// shortenTask returns nil for a task that stays as it is.
func (s stage) shortenTask(ctx context.Context, c *mcp.Call, id string, task mcp.Raw) mcp.Raw {
	if int64(len(task)) <= s.Least {
		return nil
	}
	result, _ := task.Member("result")
	short := s.shorten(ctx, c, id, result, nil)
	if short == nil {
		return nil
	}
	return task.Edit(mcp.Edit{Name: "result", Value: short})
}

// shorten keeps a large result and returns the shortened one for the client; nil if the result
// stays as it is. task is the id of the task that the result belongs to, "" for none.
func (s stage) shorten(ctx context.Context, c *mcp.Call, task string, result mcp.Raw, outline *mcp.Outline) mcp.Raw {
	kind, name := mcp.KindTools, c.Name
	if task != "" {
		kind, name = mcp.KindTask, task
	}
	tool, ok := c.Lens.Target(ctx, kind, name)
	if !ok {
		return nil // the gateway's own
	}
	inline, keep := s.Of(tool)
	if inline == 0 || int64(len(result)) <= inline {
		return nil
	}
	p := partsOf(result, outline)
	large := int64(len(p.structured)) > inline
	left := p.structured
	if !large || !p.isError && c.Lens.Now().Structured(tool) {
		left = nil // clients refuse a result without it
	}
	if left == nil && int64(len(p.content)) <= inline {
		if large {
			s.count(tool, outcomeStructured)
		}
		return nil
	}
	id := rand.Text()
	if task != "" { // each time that the task is asked for, it is the same result
		id = s.Name(c.Caller.User(), task)
	}
	uri := mcp.ResultScheme + id
	whole := func() []byte { return wholeOf(uri, tool, p.content, left) }
	if !s.keep(ctx, c, tool, id, int64(len(p.content)+len(left)), whole, keep) {
		return nil
	}
	s.count(tool, outcomeCut)
	b := cut(p.content, int(inline))
	content := mcp.Array(append(b.blocks, note(uri, p.content, b, left, keep), link(uri, keep))...)
	edits := []mcp.Edit{{Name: "content", Value: content}}
	if left != nil {
		edits = append(edits, mcp.Edit{Name: "structuredContent"})
	}
	return result.Edit(edits...)
}

// keep stores the whole of a result of about this size, and reports whether it could.
func (s stage) keep(ctx context.Context, c *mcp.Call, tool mcp.Target, id string, size int64, whole func() []byte,
	keep time.Duration) (kept bool) {
	var err error
	if c.Room.Take(size) { // for the copy
		defer c.Room.Give(size)
		kept, err = s.Store.Keep(ctx, c.Caller.User(), id, whole(), keep)
	}
	switch {
	case kept:
		return true
	case ctx.Err() != nil: // the caller has gone
		return false
	case err != nil:
		s.count(tool, outcomeUnavailable)
	default:
		s.count(tool, outcomeNoRoom)
	}
	attrs := []slog.Attr{failure.ResultNotKept.Attr(), slog.String("upstream", tool.Upstream),
		slog.String("tool", tool.Name), slog.Int64("bytes", size), slog.String("user", c.Caller.Subject)}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	s.Log.LogAttrs(ctx, slog.LevelWarn, "a large result was sent whole: it could not be kept", attrs...)
	return false
}

func (s stage) count(tool mcp.Target, outcome string) {
	s.Metrics.results.WithLabelValues(tool.Upstream, outcome).Inc()
}

// read reads a kept result. One that is unknown, has expired or belongs to another user gets the
// answer for an unknown resource, and so does one of a tool that the caller may not see any more.
func (s stage) read(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	if !Reads(c) {
		return s.next.Handle(ctx, c)
	}
	id := strings.TrimPrefix(c.Name, mcp.ResultScheme)
	var kept []byte
	if isID(id) {
		var err error
		if kept, err = s.Store.Load(ctx, c.Caller.User(), id); err != nil {
			return nil, unavailable(ctx, err)
		}
	}
	tool, result := readWhole(kept)
	if kept == nil || !s.Visible(&c.Caller, tool) {
		c.Verdict.Decided(mcp.Verdict{Effect: "unknown"})
		return nil, mcp.ErrUnknown(c.Method, c.Name)
	}
	c.Verdict.Decided(mcp.Verdict{Target: tool, Effect: "allow"})
	if len(result) > mcp.CountedBytes && !c.Room.Take(int64(len(result))) {
		return nil, mcp.Errorf(failure.NoRoom, "The gateway has no room for a large answer now: try again in a minute")
	}
	return &mcp.Reply{Result: result}, nil
}

func unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return context.Cause(ctx)
	}
	e := mcp.Errorf(failure.StoreDown, "Kept results are not available now: try again in a minute").
		WithData(mcp.Object("retryable", mcp.Raw("true"), "executed", mcp.String(string(mcp.ExecutedNo))))
	e.Cause = err.Error()
	return e
}

// isID reports whether the gateway could have made an id.
func isID(id string) bool {
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return len(id) >= 26 && len(id) <= 32
}

// list answers with an empty list if no upstream has one: discover has announced resources to
// clients.
func (s stage) list(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	reply, err := s.next.Handle(ctx, c)
	if !mcp.HasCode(err, mcp.CodeMethodNotFound) {
		return reply, err
	}
	if _, more := c.Params.Member("cursor"); more {
		return nil, mcp.Errorf(failure.InvalidCursor,
			"Invalid cursor: it is unknown, or the list has changed; start again without a cursor")
	}
	return &mcp.Reply{List: &mcp.List{}}, nil
}

// discover announces resources to clients.
func (s stage) discover(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	reply, err := s.next.Handle(ctx, c)
	if err != nil || reply == nil || !reply.Result.IsObject() {
		return reply, err
	}
	caps := reply.Result.At("capabilities")
	if _, has := caps.Member("resources"); has {
		return reply, nil
	}
	if !caps.IsObject() {
		caps = mcp.Raw("{}")
	}
	return &mcp.Reply{Result: reply.Result.With("capabilities", caps.With("resources", mcp.Raw("{}"))),
		Release: reply.Release}, nil
}
