package stateful

import (
	"maps"
	"slices"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// calls are the calls under way in a session, by the ids of their requests. Messages from
// outside of their streams find their calls here.
type calls struct {
	mu    sync.Mutex // guards the fields below
	all   map[int64]*exchange
	count int64 // of those that have begun
}

func (c *calls) add(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[x.id] = x
	c.count++
	x.number = c.count
}

func (c *calls) remove(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, x.id)
}

func (c *calls) list() []*exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.all))
}

// find returns a call for which is reports true, nil for none.
func (c *calls) find(is func(*exchange) bool) *exchange {
	for _, x := range c.list() {
		if is(x) {
			return x
		}
	}
	return nil
}

// only returns the one call that is under way, nil if there is none or more than one: then
// it is unclear which call a message is for. A call that waits for a task counts only if
// there is no other, because a task's messages name their task (ofTask).
func (c *calls) only() *exchange {
	all := c.list()
	waits := func(x *exchange) bool { return x.task != "" }
	if others := slices.DeleteFunc(slices.Clone(all), waits); len(others) > 0 {
		all = others
	}
	if len(all) != 1 {
		return nil
	}
	return all[0]
}

// asker returns the call that a question belongs to that does not say it, nil for none: the newest
// one that can be asked outside of its own stream. A call that waits for a task comes last, because a
// task's questions name their task.
func (c *calls) asker() (asker *exchange) {
	for _, x := range c.list() {
		switch {
		case !x.elsewhere || !mcp.CanAsk(x.call.Method) || x.over():
		case asker == nil, x.task == "" && asker.task != "", (x.task == "") == (asker.task == "") && x.number > asker.number:
			asker = x
		}
	}
	return asker
}

// ofTask returns the call that waits for the task that a message names (2025-11-25
// basic/utilities/tasks#related-task-metadata), nil for none.
func (c *calls) ofTask(m wire.Message) *exchange {
	if !namesTask(m) {
		return nil
	}
	id := mcp.TaskID(m.Params.At("_meta", wire.MetaRelatedTask))
	return c.find(func(x *exchange) bool { return x.task != "" && x.task == id })
}

func namesTask(m wire.Message) bool {
	_, ok := m.Params.At("_meta").Member(wire.MetaRelatedTask)
	return ok
}

// level returns the least severe log level that a call wants, "" for none. The session has
// one level for all its calls, and each call gets only what it asked for.
func (c *calls) level() (least string) {
	for _, x := range c.list() {
		if level := x.call.LogLevel; level != "" && (least == "" || wire.LogLevelAtLeast(least, level)) {
			least = level
		}
	}
	return least
}
