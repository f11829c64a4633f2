package stateful_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// bridged is a call about a task, or a tool call, of a stateless client that knows tasks of
// the extension.
func bridged(method, name, user string) *mcp.Call {
	c := &mcp.Call{
		Method: method, Name: name, Session: user + ":~x", Ephemeral: true, Caps: mcp.Raw(knowsThem),
		Tasks:  mcp.ExtensionTasks,
		Caller: mcp.NewCaller(mcp.Caller{Subject: user}), Notify: func(mcp.Event) {},
	}
	if method == mcp.MethodToolsCall {
		c.Task = mcp.Raw(`{}`)
	}
	return c
}

// askingTask is a server whose tasks all ask a question with the task's name in its id, and
// end when they get the answer.
func askingTask(t *testing.T, cfg upstream.Config) (*fake.Server, *fake.Upstream) {
	t.Helper()
	var f *fake.Server
	f = taskFake(t, true, func(w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		raw, _ := mcp.Raw(m.Params).Member("taskId")
		id := raw.Text()
		switch m.Method {
		case mcp.MethodTasksGet:
			fake.Result(w, m, `{"taskId":"`+id+`","status":"input_required","ttl":null}`)
		case mcp.MethodTasksResult:
			question := "q-" + id
			for _, before := range f.Requests(mcp.MethodTasksResult) {
				if task, _ := mcp.Raw(before.Params).Member("taskId"); task.Text() == id && string(before.ID) != string(m.ID) {
					question += "-again"
				}
			}
			fake.Events(w, `data: {"jsonrpc":"2.0","id":"`+question+`",`+fake.Elicit+"}\n\n")
			select {
			case <-r.Context().Done():
			case <-answered(f, question):
				fake.Events(w, fake.Event(m, "", fake.OK))
			}
		case mcp.MethodTasksCancel:
			fake.Result(w, m, `{"taskId":"`+id+`","status":"cancelled","ttl":null}`)
		default:
			return false
		}
		return true
	})
	return f, f.Upstream(t, cfg)
}

// answered returns a channel that is closed when the server's question has an answer.
func answered(f *fake.Server, id string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		for {
			news := f.News()
			for _, s := range f.Requests("") {
				if s.Verb == http.MethodPost && s.Method == "" && string(s.ID) == `"`+id+`"` {
					close(done)
					return
				}
			}
			select {
			case <-news:
			case <-time.After(fake.Patience):
				return
			}
		}
	}()
	return done
}

func keyOf(t *testing.T, reply *mcp.Reply) (key string) {
	t.Helper()
	requests, _ := reply.Result.Member("inputRequests")
	requests.Each(func(name string, _ mcp.Raw) bool {
		key = name
		return true
	})
	return key
}

// TestQuestionsThatNobodyComesBackFor: the stream that waits for their answers is released.
func TestQuestionsThatNobodyComesBackFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := askingTask(t, upstream.Config{Timeout: upstream.Timeout{Ask: 10 * time.Second}})
		first := keyOf(t, fake.MustDo(t, u, bridged(mcp.MethodTasksGet, "t", "ann")))
		for range 5 { // each return of the client starts the time anew
			<-time.After(9 * time.Second)
			if key := keyOf(t, fake.MustDo(t, u, bridged(mcp.MethodTasksGet, "t", "ann"))); key != first || key == "" {
				t.Errorf("asked under %q, then under %q", first, key)
			}
		}
		if n := len(f.Requests(mcp.MethodTasksResult)); n != 1 {
			t.Errorf("%d streams wait", n)
		}
		if got := f.AwaitAnswer(t, "q-t"); got != `{"action":"cancel"}` {
			t.Errorf("in the end it was answered %s", got)
		}
		f.Await(t, mcp.NoteCancelled, 1)
		if n := len(f.Requests(mcp.MethodTasksCancel)); n > 0 {
			t.Error("the task is its client's, and was cancelled")
		}
		late := bridged(mcp.MethodTasksUpdate, "t", "ann")
		late.Answers = map[string]mcp.Raw{first: mcp.Raw(`{"action":"accept","content":{}}`)}
		if reply := fake.MustDo(t, u, late); string(reply.Result) != `{}` {
			t.Errorf("too late: %s", reply.Result)
		}
		if again := keyOf(t, fake.MustDo(t, u, bridged(mcp.MethodTasksGet, "t", "ann"))); again == first || again == "" {
			t.Errorf("a question after that is under %q, the first was under %q", again, first)
		}
	})
}

// TestTasksThatAskAreBounded: only a limited number of one user's tasks wait.
func TestTasksThatAskAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := askingTask(t, upstream.Config{Limits: upstream.Limits{AsksPerUser: 2}})
		keys := map[string]string{}
		for _, id := range []string{"t1", "t2"} {
			keys[id] = keyOf(t, fake.MustDo(t, u, bridged(mcp.MethodTasksGet, id, "ann")))
		}
		_, err := fake.Do(t, u, bridged(mcp.MethodTasksGet, "t3", "ann"))
		fake.WantError(t, err, mcp.CodeOverloaded, mcp.ExecutedNo)
		fake.MustDo(t, u, bridged(mcp.MethodTasksGet, "t3", "bob"))
		answer := bridged(mcp.MethodTasksUpdate, "t1", "ann")
		answer.Answers = map[string]mcp.Raw{keys["t1"]: mcp.Raw(`{"action":"decline"}`),
			keys["t2"]: mcp.Raw(`{"action":"accept","content":{}}`)}
		fake.MustDo(t, u, answer)
		if got := f.AwaitAnswer(t, "q-t1"); got != `{"action":"decline"}` {
			t.Errorf("answered %s", got)
		}
		synctest.Wait() // its stream has ended
		fake.MustDo(t, u, bridged(mcp.MethodTasksGet, "t3", "ann"))
		fake.MustDo(t, u, bridged(mcp.MethodTasksCancel, "t2", "ann"))
		if got := f.AwaitAnswer(t, "q-t2"); got != `{"action":"cancel"}` {
			t.Errorf("the question of another task was answered %s", got)
		}
		now, cancel := context.WithCancel(t.Context())
		cancel()
		_ = u.Close(now) // with two waiting tasks
		_, err = fake.Do(t, u, bridged(mcp.MethodTasksGet, "t4", "ann"))
		fake.WantError(t, err, mcp.CodeDraining, mcp.ExecutedNo)
	})
}

// TestHoldsEndWithTheirSession: nothing waits for a client whose session has ended.
func TestHoldsEndWithTheirSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := askingTask(t, upstream.Config{})
		fake.MustDo(t, u, bridged(mcp.MethodTasksGet, "t", "ann"))
		u.EndSession("ann:~x", true)
		if got := f.AwaitAnswer(t, "q-t"); got != `{"action":"cancel"}` {
			t.Errorf("answered %s", got)
		}
	})
}

// TestTaskWithoutItsQuestion: a server may say that a task has questions and not ask any.
func TestTaskWithoutItsQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request, m fake.Message){
			"silent":  func(_ http.ResponseWriter, r *http.Request, _ fake.Message) { <-r.Context().Done() },
			"ended":   func(w http.ResponseWriter, _ *http.Request, m fake.Message) { fake.Result(w, m, fake.OK) },
			"refuses": func(w http.ResponseWriter, _ *http.Request, _ fake.Message) { w.WriteHeader(500) },
		} {
			f := taskFake(t, true, func(w http.ResponseWriter, r *http.Request, m fake.Message) bool {
				switch m.Method {
				case mcp.MethodTasksGet:
					fake.Result(w, m, `{"taskId":"t","status":"input_required","ttl":null}`)
				case mcp.MethodTasksResult:
					answer(w, r, m)
				default:
					return false
				}
				return true
			})
			u := f.Upstream(t, upstream.Config{})
			began := time.Now()
			reply := fake.MustDo(t, u, bridged(mcp.MethodTasksGet, "t", "ann"))
			if requests, _ := reply.Result.Member("inputRequests"); string(requests) != "{}" ||
				time.Since(began) > 10*time.Second {
				t.Errorf("%s: %s after %s", name, reply.Result, time.Since(began))
			}
		}
	})
}

// TestSessionLastsForItsTasks: at many servers, tasks end with their session.
func TestSessionLastsForItsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := taskFake(t, true, nil)
		u := f.Upstream(t, upstream.Config{Timeout: upstream.Timeout{Idle: time.Minute}})
		reply := fake.MustDo(t, u, bridged(mcp.MethodToolsCall, "a", "ann"))
		if !reply.Task || mcp.TaskID(reply.Result) != "t" {
			t.Fatalf("got %+v", reply)
		}
		<-time.After(30 * time.Minute)
		if n := u.Status().Sessions; n != 1 {
			t.Errorf("after half an hour there are %d sessions", n)
		}
		<-time.After(time.Hour)
		if n := u.Status().Sessions; n != 0 {
			t.Errorf("in the end there are %d sessions", n)
		}
	})
}

// TestErrorsOfBridgedTasks: errors are passed on, and invalid tasks are not treated as
// tasks.
func TestErrorsOfBridgedTasks(t *testing.T) {
	f := fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodTasksGet && m.Method != mcp.MethodTasksCancel {
			return false
		}
		fake.Failure(w, 200, m, `{"code":-32602,"message":"Task not found"}`)
		return true
	})
	f.Caps = coreCaps
	u := fake.Start(t, upstream.Config{URL: f.URL})
	for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksCancel} {
		_, err := fake.Do(t, u, bridged(method, "t", "ann"))
		fake.WantError(t, err, mcp.CodeInvalidParams, "")
	}
	_, err := fake.Do(t, u, bridged(mcp.MethodTasksResult, "t", "ann")) // the extension does not have this method
	fake.WantError(t, err, mcp.CodeInvalidParams, "")
	none := fake.New(t, true, nil)
	u = fake.Start(t, upstream.Config{URL: none.URL})
	for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel} {
		_, err := fake.Do(t, u, bridged(method, "t", "ann"))
		fake.WantError(t, err, mcp.CodeInvalidParams, "")
		if n := len(none.Requests(method)); n > 0 {
			t.Errorf("a server without tasks was asked %s", method)
		}
	}
	if strings.Contains(string(f.Requests(mcp.MethodInitialize)[0].Params), "tasks") {
		t.Error("a server of 2025-11-25 was told of the extension")
	}
}

// TestURLsOfBridgedTasks: members of a question that 2026-07-28 does not have are removed
// from a question in a task, too.
func TestURLsOfBridgedTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := taskFake(t, true, func(w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			switch m.Method {
			case mcp.MethodTasksGet:
				fake.Result(w, m, `{"taskId":"t","status":"input_required","ttl":null}`)
			case mcp.MethodTasksResult:
				fake.Events(w, `data: {"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":`+
					`{"mode":"url","message":"m","url":"https://a.example/","elicitationId":"e"}}`+"\n\n")
				<-r.Context().Done()
			default:
				return false
			}
			return true
		})
		c := bridged(mcp.MethodTasksGet, "t", "ann")
		c.Caps = mcp.Raw(`{"elicitation":{"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
		reply := fake.MustDo(t, f.Upstream(t, upstream.Config{}), c)
		requests, _ := reply.Result.Member("inputRequests")
		question, _ := requests.Member(keyOf(t, reply))
		if params, _ := question.Member("params"); string(params) != `{"mode":"url","message":"fake asks: m","url":"https://a.example/"}` {
			t.Errorf("asked %s", reply.Result)
		}
	})
}

// TestSeveralWaitForOneQuestion: all callers get the question as soon as it comes.
func TestSeveralWaitForOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := taskFake(t, true, func(w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			switch m.Method {
			case mcp.MethodTasksGet:
				fake.Result(w, m, `{"taskId":"t","status":"input_required","ttl":null}`)
			case mcp.MethodTasksResult:
				fake.Events(w, ": here\n\n")
				<-time.After(time.Second)
				fake.Events(w, `data: {"jsonrpc":"2.0","id":"q",`+fake.Elicit+"}\n\n")
				<-r.Context().Done()
			default:
				return false
			}
			return true
		})
		u := f.Upstream(t, upstream.Config{})
		fake.MustDo(t, u, bridged(mcp.MethodToolsCall, "a", "ann"))
		began := time.Now()
		replies := make(chan *mcp.Reply, 3)
		for range 3 {
			go func() {
				reply, _ := u.Handle(t.Context(), bridged(mcp.MethodTasksGet, "t", "ann"))
				replies <- reply
			}()
		}
		for range 3 {
			reply := <-replies
			if reply == nil || keyOf(t, reply) == "" || time.Since(began) >= 1500*time.Millisecond {
				t.Errorf("after %s: %+v", time.Since(began), reply)
			}
		}
	})
}

// TestFollowedTasksAreThosePromised: the tasks that an acknowledgement names are followed,
// and it does not name more tasks than can be.
func TestFollowedTasksAreThosePromised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := taskFake(t, true, nil)
		u := f.Upstream(t, upstream.Config{})
		c := bridged(mcp.MethodListen, "", "ann")
		ids := `"first"`
		for i := range 999 {
			ids += fmt.Sprintf(`,"t%d"`, i)
		}
		c.Params = mcp.Raw(`{"notifications":{"taskIds":[` + ids + `]}}`)
		ctx, cancel := context.WithCancel(t.Context())
		promised := 0
		c.Notify = func(e mcp.Event) {
			notifications, _ := e.Params.Member("notifications")
			list, _ := notifications.Member("taskIds")
			list.Elements(func(mcp.Raw) bool {
				promised++
				return true
			})
			cancel()
		}
		_, _ = u.Handle(ctx, c)
		if promised != 500 {
			t.Errorf("%d tasks are promised to be followed", promised)
		}
	})
}
