package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// followTasks starts a listen call of a client that knows tasks in a form.
func followTasks(t *testing.T, c *Catalog, form mcp.TaskForm, session, filter string) *client {
	in := inForm(form, mcp.MethodListen, "", `{"notifications":`+filter+`}`)
	in.Session = session
	cl := listenBy(t, c, in)
	synctest.Wait()
	return cl
}

func taskNote(id, status string) string {
	return mcp.NoteTask + fmt.Sprintf(` {"taskId":%q,"status":%q}`, id, status)
}

// TestListenToTasks: a client that names its tasks is told of these, by its own ids.
func TestListenToTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crm, doc := running20251125("crm").tasked("1"), running20251125("doc").tasked("1")
		crm.offers(extCaps)
		doc.offers(extCaps)
		c := start(t, Source{Upstream: crm}, Source{Upstream: doc})
		id := idOf(t, do(t, c, inForm(mcp.ExtensionTasks, mcp.MethodToolsCall, "crm__may")))
		twin := idOf(t, do(t, c, inForm(mcp.ExtensionTasks, mcp.MethodToolsCall, "crm__may"))) // the same task has two ids
		other := idOf(t, do(t, c, inForm(mcp.ExtensionTasks, mcp.MethodToolsCall, "doc__may")))
		bob := as(inForm(mcp.ExtensionTasks, mcp.MethodToolsCall, "crm__may"), "bob", "cli")
		his := idOf(t, do(t, c, bob))
		ann := inForm(mcp.ExtensionTasks, "", "").Caller
		old := c.sealTask(taskID{mcp.CoreTasks, "crm", "may", "1", time.Now().Add(time.Hour).Unix()}, &ann)

		cl := followTasks(t, c, mcp.ExtensionTasks, "ann:1",
			fmt.Sprintf(`{"taskIds":[%q,%q,%q,%q,%q,"nobody's"]}`, id, his, other, old, twin))
		want := []string{ack(fmt.Sprintf(`{"taskIds":[%q,%q,%q]}`, id, other, twin))}
		cl.want(t, want...)
		if got := crm.last(t, mcp.MethodListen); string(got.Params) != `{"notifications":{"taskIds":["1"]}}` ||
			got.Tasks != mcp.ExtensionTasks {
			t.Errorf("the upstream was asked for %s", got.Params)
		}
		crm.says(mcp.NoteTask, `{"taskId":"1","status":"working"}`)
		crm.says(mcp.NoteTask, `{"taskId":"2","status":"working"}`)
		crm.says(mcp.NoteTask, `{}`)
		cl.want(t, append(want, taskNote(id, "working"), taskNote(twin, "working"))...)

		// Changes while nobody listened are fetched.
		crm.on(mcp.MethodTasksGet, func(context.Context, *mcp.Call) (*mcp.Reply, error) {
			return &mcp.Reply{Result: mcp.Raw(`{"taskId":"1","status":"completed","resultType":"complete"}`)}, nil
		})
		for _, st := range crm.open(false) {
			st.end <- errors.New("lost")
		}
		<-time.After(2 * time.Minute)
		got := cl.told()
		if len(got) < 5 || got[3] != taskNote(id, "completed") || got[4] != taskNote(twin, "completed") {
			t.Errorf("after a loss: %q", got)
		}
	})
}

func TestListenToTooManyTasks(t *testing.T) {
	ids := strings.Repeat(`"x",`, mcp.MaxFiltered) + `"y"`
	c := start(t, Source{Upstream: running20251125("crm")})
	for _, filter := range []string{`{"taskIds":1}`, `{"taskIds":[1]}`} {
		refused(t, c, inForm(mcp.ExtensionTasks, mcp.MethodListen, "", `{"notifications":`+filter+`}`), mcp.CodeInvalidParams)
	}
	var different strings.Builder
	for i := range mcp.MaxFiltered + 1 {
		fmt.Fprintf(&different, `"%d",`, i)
	}
	refused(t, c, inForm(mcp.ExtensionTasks, mcp.MethodListen, "",
		`{"notifications":{"taskIds":[`+different.String()+`"z"]}}`), mcp.CodeInvalidParams)
	if _, err := mcp.FilterOf(mcp.Raw(`{"notifications":{"taskIds":[` + ids + `]}}`)); err != nil {
		t.Errorf("the same one often: %v", err)
	}
}

// TestBoard: a session is told of the tasks of 2025-11-25 that its client has.
func TestBoard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crm, doc := running20251125("crm").tasked("1"), running20251125("doc").tasked("9")
		c := start(t, Source{Upstream: crm}, Source{Upstream: doc})
		ann := followTasks(t, c, mcp.CoreTasks, "ann:1", `{}`)
		else1 := followTasks(t, c, mcp.CoreTasks, "ann:2", `{}`)
		stateless := followTasks(t, c, mcp.ExtensionTasks, "ann:1", `{}`)
		before := crm.called(mcp.MethodListen)
		if doc.called(mcp.MethodListen) != before {
			t.Error("somebody listens already")
		}

		make := inForm(mcp.CoreTasks, mcp.MethodToolsCall, "crm__may")
		make.Session = "ann:1"
		id := idOf(t, do(t, c, make))
		synctest.Wait()
		if n := crm.called(mcp.MethodListen) - before; n != 1 || crm.last(t, mcp.MethodListen).Session != "ann:1" {
			t.Errorf("%d listen for the session", n)
		}
		crm.says(mcp.NoteTask, `{"taskId":"1","status":"working"}`)
		crm.says(mcp.NoteTask, `{"taskId":"2","status":"working"}`)
		doc.says(mcp.NoteTask, `{"taskId":"1","status":"working"}`)
		ann.want(t, ack(`{}`), taskNote(id, "working"))
		else1.want(t, ack(`{}`))
		stateless.want(t, ack(`{}`))

		again := inForm(mcp.CoreTasks, mcp.MethodTasksGet, id) // another session of the same client learns of the task
		again.Session = "ann:2"
		do(t, c, again)
		synctest.Wait()
		crm.says(mcp.NoteTask, `{"taskId":"1","status":"completed"}`)
		if got := else1.told(); len(got) < 2 || got[1] != taskNote(id, "completed") {
			t.Errorf("the other session: %q", got)
		}
		if crm.called(mcp.MethodListen)-before != 2 {
			t.Errorf("%d listen", crm.called(mcp.MethodListen)-before)
		}
	})
}

func TestBoardIsBounded(t *testing.T) {
	c := newCatalog(t, Config{}, Source{Upstream: newServer("crm")})
	in := inForm(mcp.CoreTasks, mcp.MethodListen, "")
	in.Session = "ann:1"
	f := c.taskFollowers.join(in)
	for i := range 3 * maxFollowed {
		c.taskFollowers.saw(in, 0, fmt.Sprint("native ", i), fmt.Sprint("public ", i))
	}
	if len(f.known) != maxFollowed || len(f.order) != maxFollowed || len(f.take()) != 1 {
		t.Errorf("%d tasks are known", len(f.known))
	}
	if id, ok := f.public(followed{0, fmt.Sprint("native ", 3*maxFollowed-1)}); !ok ||
		id != fmt.Sprint("public ", 3*maxFollowed-1) {
		t.Errorf("the newest is %q, %v", id, ok)
	}
	if _, ok := f.public(followed{0, "native 0"}); ok {
		t.Error("the oldest is still known")
	}
	c.taskFollowers.forget(in, f)
	if len(c.taskFollowers.followers) != 0 {
		t.Error("who has left is still kept")
	}
	if c.taskFollowers.join(inForm(mcp.ExtensionTasks, mcp.MethodListen, "")) != nil {
		t.Error("a client of the extension names its tasks")
	}
}
