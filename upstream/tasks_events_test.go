package upstream_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestEventsOfATaskThatIsWaitedFor: a caller that knows of no task is not told the task's
// id at its server.
func TestEventsOfATaskThatIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := taskFake(t, true, func(w http.ResponseWriter, _ *http.Request, m rpc) bool {
			if m.Method != mcp.MethodTasksResult {
				return false
			}
			related := `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"},"k":1}`
			events(w, `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"d",`+
				related+`}}`+"\n\n")
			events(w, event(m, "", okResult))
			return true
		})
		c := inTask()
		var heard []string
		c.Notify = func(e mcp.Event) { heard = append(heard, string(e.Params)) }
		wantOK(t, f.start(t, upstream.Config{}), c)
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
		f := taskFake(t, true, func(w http.ResponseWriter, r *http.Request, m rpc) bool {
			switch {
			case r.Method == http.MethodGet:
				events(w, ": hello\n\n")
				for {
					select {
					case text := <-say:
						events(w, "data: "+text+"\n\n")
					case <-r.Context().Done():
						return true
					}
				}
			case m.Method == mcp.MethodToolsCall:
				events(w, ": here\n\n")
				<-r.Context().Done()
				return true
			}
			return false
		})
		u := f.start(t, upstream.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waiting := asked("")
		waiting.Method, waiting.Name, waiting.Params, waiting.Tasks = mcp.MethodTasksResult, "t", mcp.Raw(`{}`), mcp.CoreTasks
		ended := make(chan struct{})
		go func() {
			_, _ = u.Handle(ctx, waiting)
			close(ended)
		}()
		f.await(t, mcp.MethodTasksResult, 1)
		reply := make(chan *mcp.Reply, 1)
		go func() {
			r, _ := u.Handle(ctx, asked("a"))
			reply <- r
		}()
		f.await(t, mcp.MethodToolsCall, 1)
		say <- `{"jsonrpc":"2.0","id":"q",` + elicit + `}`
		if r := <-reply; r == nil || r.Ask == nil || len(r.Ask.Requests) != 1 {
			t.Errorf("the call ended with %+v", r)
		}
		cancel()
		<-ended
	})
}
