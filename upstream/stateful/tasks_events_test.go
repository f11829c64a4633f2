package stateful_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestEventsOfATaskThatIsWaitedFor: a caller that knows of no task is not told the task's
// id at its server.
func TestEventsOfATaskThatIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := taskFake(t, true, func(w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			if m.Method != mcp.MethodTasksResult {
				return false
			}
			related := `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"},"k":1}`
			fake.Events(w, `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"d",`+
				related+`}}`+"\n\n")
			fake.Events(w, fake.Event(m, "", fake.OK))
			return true
		})
		c := inTask()
		var heard []string
		c.Notify = func(e mcp.Event) { heard = append(heard, string(e.Params)) }
		fake.WantOK(t, f.Upstream(t, upstream.Config{}), c)
		if len(heard) != 1 || heard[0] != `{"level":"info","data":"d","_meta":{"k":1}}` {
			t.Errorf("heard %q", heard)
		}
	})
}

// TestQuestionOfACallBesideATask: a question that names no task belongs to the one running
// call, whatever waits for tasks at the same time.
func TestQuestionOfACallBesideATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		say := make(chan string)
		f := taskFake(t, true, func(w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			switch {
			case r.Method == http.MethodGet:
				fake.Events(w, ": hello\n\n")
				for {
					select {
					case text := <-say:
						fake.Events(w, "data: "+text+"\n\n")
					case <-r.Context().Done():
						return true
					}
				}
			case m.Method == mcp.MethodToolsCall:
				fake.Events(w, ": here\n\n")
				<-r.Context().Done()
				return true
			}
			return false
		})
		u := f.Upstream(t, upstream.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waiting := fake.Asked("")
		waiting.Method, waiting.Name, waiting.Params, waiting.Tasks = mcp.MethodTasksResult, "t", mcp.Raw(`{}`), mcp.CoreTasks
		ended := make(chan struct{})
		go func() {
			_, _ = u.Handle(ctx, waiting)
			close(ended)
		}()
		f.Await(t, mcp.MethodTasksResult, 1)
		reply := make(chan *mcp.Reply, 1)
		go func() {
			r, _ := u.Handle(ctx, fake.Asked("a"))
			reply <- r
		}()
		f.Await(t, mcp.MethodToolsCall, 1)
		say <- `{"jsonrpc":"2.0","id":"q",` + fake.Elicit + `}`
		if r := <-reply; r == nil || r.Ask == nil || len(r.Ask.Requests) != 1 {
			t.Errorf("the call ended with %+v", r)
		}
		cancel()
		<-ended
	})
}
