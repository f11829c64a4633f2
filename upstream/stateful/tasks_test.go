package stateful_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

const (
	coreCaps  = `{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}`
	extCaps   = `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	insists   = `{"code":-32021,"message":"tasks are needed","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`
	knowsThem = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
)

// taskFake is a server that runs every call as a task, "t". The test writes its answers
// about the task. The tasks are those of 2025-11-25, or of the extension, on which the
// server then insists.
func taskFake(t *testing.T, stateful bool,
	tell func(w http.ResponseWriter, r *http.Request, m fake.Message) bool) *fake.Server {
	t.Helper()
	f := fake.NewBubble(t, stateful, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		params := mcp.Raw(m.Params)
		switch {
		case tell != nil && tell(w, r, m):
		case m.Method == mcp.MethodToolsCall && stateful:
			if _, ok := params.Member("task"); !ok {
				return false
			}
			fake.Result(w, m, `{"task":{"taskId":"t","status":"working","ttl":null,"pollInterval":1000}}`)
		case m.Method == mcp.MethodToolsCall:
			if !strings.Contains(string(m.Params), "io.modelcontextprotocol/tasks") {
				fake.Failure(w, 400, m, insists)
				return true
			}
			fake.Result(w, m, `{"resultType":"task","taskId":"t","status":"working","ttlMs":null,"pollIntervalMs":1000}`)
		case m.Method == mcp.MethodTasksResult:
			fake.Events(w, ": here\n\n")
			<-r.Context().Done()
		case m.Method == mcp.MethodTasksGet:
			fake.Result(w, m, `{"resultType":"complete","taskId":"t","status":"working","ttl":null,"ttlMs":null}`)
		default:
			return false
		}
		return true
	})
	f.Caps = extCaps
	if stateful {
		f.Caps = coreCaps
	}
	return f
}

// inTask is a call that has to run as a task, for a caller that knows no tasks.
func inTask() *mcp.Call {
	c := fake.Asked("a")
	c.Caps = mcp.Raw(`{"elicitation":{"form":{}}}`)
	c.Task = mcp.Raw(`{}`)
	return c
}

// eachForm runs a test in a bubble for the servers of both forms.
func eachForm(t *testing.T, test func(t *testing.T, stateful bool)) {
	for _, stateful := range []bool{true, false} {
		t.Run(fmt.Sprint("stateful ", stateful), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, stateful) })
		})
	}
}

// TestTasksForThoseWhoDeclareThem: a server must not answer with a task to a client
// that did not declare that it knows tasks.
func TestTasksForThoseWhoDeclareThem(t *testing.T) {
	f := fake.New(t, false, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
		if m.Method == mcp.MethodDiscover {
			return false
		}
		fake.Result(w, m, `{"resultType":"task","taskId":"t","status":"working","ttlMs":null}`)
		return true
	})
	u := fake.Start(t, upstream.Config{URL: f.URL})
	for name, caps := range map[string]string{"nothing": "", "another extension": `{"extensions":{"com.example/x":{}}}`,
		"the old form": `{"tasks":{}}`} {
		c := fake.Tool("a")
		c.Caps = mcp.Raw(caps)
		_, err := fake.Do(t, u, c)
		fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
		if got := f.Requests(mcp.MethodToolsCall); strings.Contains(string(got[len(got)-1].Params),
			"io.modelcontextprotocol/tasks") {
			t.Errorf("with %s declared, the server was told %s", name, got[len(got)-1].Params)
		}
	}
	c := fake.Tool("a")
	c.Caps, c.Tasks = mcp.Raw(knowsThem), mcp.ExtensionTasks
	if reply := fake.MustDo(t, u, c); !reply.Task {
		t.Errorf("with the extension declared: %+v", reply)
	}
	read := &mcp.Call{Method: mcp.MethodResourcesRead, Name: "file:///a", Caps: mcp.Raw(knowsThem),
		Tasks: mcp.ExtensionTasks, Notify: func(mcp.Event) {}}
	_, err := fake.Do(t, u, read)
	fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
}

// TestTasksThatAreNone: a task that nobody could ask for is not a task.
func TestTasksThatAreNone(t *testing.T) {
	for _, task := range []string{`{}`, `{"taskId":1,"status":"working"}`, `{"taskId":"","status":"working"}`,
		`{"taskId":null,"status":"working"}`,
		`{"taskId":"` + strings.Repeat("x", mcp.MaxTaskID+1) + `","status":"working"}`} {
		core := fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			if m.Method != mcp.MethodToolsCall {
				return false
			}
			fake.Result(w, m, `{"task":`+task+`}`)
			return true
		})
		core.Caps = coreCaps
		c := fake.Tool("a")
		c.Task, c.Tasks = mcp.Raw(`{"ttl":1}`), mcp.CoreTasks
		_, err := fake.Do(t, fake.Start(t, upstream.Config{URL: core.URL}), c)
		fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
		ext := fake.New(t, false, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			if m.Method != mcp.MethodToolsCall {
				return false
			}
			fake.Result(w, m, string(mcp.Raw(task).With("resultType", mcp.Raw(`"task"`))))
			return true
		})
		c = fake.Tool("a")
		c.Caps, c.Tasks = mcp.Raw(knowsThem), mcp.ExtensionTasks
		_, err = fake.Do(t, fake.Start(t, upstream.Config{URL: ext.URL}), c)
		fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	}
}

// TestTheFormOfATaskIsThatOfItsServer: an id is invalid once its server has another form of
// tasks.
func TestTheFormOfATaskIsThatOfItsServer(t *testing.T) {
	for _, stateful := range []bool{true, false} {
		f := fake.New(t, stateful, nil) // it does not have tasks
		u := fake.Start(t, upstream.Config{URL: f.URL})
		form := mcp.CoreTasks
		if stateful {
			f.Version = "2025-06-18"
			f.Caps = coreCaps // these are invalid there
		}
		for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksResult, mcp.MethodTasksCancel} {
			_, err := fake.Do(t, u, &mcp.Call{Method: method, Name: "t", Session: "user:session", Tasks: form,
				Notify: func(mcp.Event) {}})
			fake.WantError(t, err, mcp.CodeInvalidParams, "")
			if got := f.Requests(method); len(got) > 0 {
				t.Errorf("the server was asked %s", method)
			}
		}
	}
}

// TestEndsOfATaskThatIsWaitedFor covers every way in which such a task can end.
func TestEndsOfATaskThatIsWaitedFor(t *testing.T) {
	tests := []struct {
		name, core, ext string // the answers of tasks/result and of tasks/get
		code            int    // 0 for okResult
		cancels         bool
	}{
		{"completed", `"result":` + fake.OK, `"result":{"status":"completed","result":` + fake.OK + `}`, 0, false},
		{"failed", `"error":{"code":7,"message":"m"}`, `"result":{"status":"failed","error":{"code":7,"message":"m"}}`,
			7, false},
		{"failed and does not say how", "", `"result":{"status":"failed","statusMessage":"why"}`, mcp.CodeInternal, false},
		{"cancelled by somebody", "", `"result":{"status":"cancelled"}`, mcp.CodeInternal, false},
		{"completed without a result", "", `"result":{"status":"completed"}`, mcp.CodeUpstreamBadAnswer, false},
		{"in no known state", "", `"result":{"status":"dreaming"}`, mcp.CodeUpstreamBadAnswer, true},
		{"in no state", "", `"result":{}`, mcp.CodeUpstreamBadAnswer, true},
		{"forgotten", `"error":{"code":-32602,"message":"Task not found"}`,
			`"error":{"code":-32602,"message":"Task not found"}`, mcp.CodeInvalidParams, false},
		{"asks what nobody can be asked", "",
			`"result":{"status":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":{"messages":[]}}}}`, mcp.CodeInternal, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			eachForm(t, func(t *testing.T, stateful bool) {
				method, answer := mcp.MethodTasksGet, tt.ext
				if stateful {
					method, answer = mcp.MethodTasksResult, tt.core
				}
				if answer == "" {
					return
				}
				f := taskFake(t, stateful, func(w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
					if m.Method == method {
						fake.Raw(w, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer))
					}
					return m.Method == method
				})
				u := f.Upstream(t, upstream.Config{})
				reply, err := u.Handle(t.Context(), inTask())
				if e, _ := errors.AsType[*mcp.Error](err); tt.code != 0 && (e == nil || e.Code != tt.code) ||
					tt.code == 0 && err != nil {
					t.Errorf("got %v, want code %d", err, tt.code)
				}
				if tt.code == 0 && string(reply.Result) != fake.OK {
					t.Errorf("result %s", reply.Result)
				}
				synctest.Wait()
				if n := len(f.Requests(mcp.MethodTasksCancel)); n > 0 && !tt.cancels && tt.name != "forgotten" ||
					n == 0 && tt.cancels {
					t.Errorf("cancelled %d times", n)
				}
				if n := len(f.Requests(mcp.MethodToolsCall)); stateful && n != 1 || !stateful && n != 2 {
					t.Errorf("the call was made %d times", n)
				}
			})
		})
	}
}

// TestTaskThatTakesTooLong: the call ends at its time limit, and its task with it.
func TestTaskThatTakesTooLong(t *testing.T) {
	eachForm(t, func(t *testing.T, stateful bool) {
		f := taskFake(t, stateful, nil)
		u := f.Upstream(t, upstream.Config{Timeout: upstream.Timeout{Call: time.Minute, Total: 10 * time.Minute}})
		began := time.Now()
		_, err := u.Handle(t.Context(), inTask())
		fake.WantError(t, err, mcp.CodeUpstreamTimeout, mcp.ExecutedUnknown)
		if took := time.Since(began); took < 10*time.Minute || took > 11*time.Minute {
			t.Errorf("it took %s", took)
		}
		f.Await(t, mcp.MethodTasksCancel, 1)
	})
}

// TestTaskWithoutItsCaller: when the caller leaves or the gateway stops, the task is
// cancelled.
func TestTaskWithoutItsCaller(t *testing.T) {
	eachForm(t, func(t *testing.T, stateful bool) {
		f := taskFake(t, stateful, nil)
		u := f.Upstream(t, upstream.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, cancel)
		if _, err := u.Handle(ctx, inTask()); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		f.Await(t, mcp.MethodTasksCancel, 1)

		ended := make(chan error, 1)
		go func() {
			_, err := u.Handle(t.Context(), inTask())
			ended <- err
		}()
		<-time.After(10 * time.Second)
		now, cancel := context.WithCancel(t.Context())
		cancel()
		_ = u.Close(now)
		fake.WantError(t, <-ended, mcp.CodeDraining, mcp.ExecutedUnknown)
		f.Await(t, mcp.MethodTasksCancel, 2)
	})
}

// TestTaskIsNotMadeTwice: whatever becomes of the wait, the call ran.
func TestTaskIsNotMadeTwice(t *testing.T) {
	eachForm(t, func(t *testing.T, stateful bool) {
		gone := func(w http.ResponseWriter, status int, m fake.Message) bool {
			if m.Method == mcp.MethodTasksGet || m.Method == mcp.MethodTasksResult {
				w.WriteHeader(status)
				return true
			}
			return false
		}
		for _, status := range []int{404, 405, 500, 503} {
			f := taskFake(t, stateful, func(w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
				return gone(w, status, m)
			})
			u := f.Upstream(t, upstream.Config{})
			_, err := u.Handle(t.Context(), inTask())
			e, _ := errors.AsType[*mcp.Error](err)
			if executed, _ := e.Data.Member("executed"); e == nil || executed.Text() == string(mcp.ExecutedNo) {
				t.Errorf("status %d: %v %s", status, err, e.Data)
			}
			if n := len(f.Requests(mcp.MethodToolsCall)); stateful && n != 1 || !stateful && n != 2 {
				t.Errorf("status %d: the call was made %d times", status, n)
			}
		}
	})
}

// TestTaskSurvivesHiccups: a poll that fails is repeated, for a while.
func TestTaskSurvivesHiccups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		polls := atomic.Int32{}
		f := taskFake(t, false, func(w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			if m.Method != mcp.MethodTasksGet {
				return false
			}
			if n := polls.Add(1); n%4 != 0 {
				w.WriteHeader(503)
			} else if n < 12 {
				fake.Result(w, m, `{"taskId":"t","status":"working"}`)
			} else {
				fake.Result(w, m, `{"taskId":"t","status":"completed","result":`+fake.OK+`}`)
			}
			return true
		})
		fake.WantOK(t, f.Upstream(t, upstream.Config{}), inTask())
	})
}

// TestWaitsAreBounded: only a limited number of one user's calls wait for tasks, and they
// take no places of other calls.
func TestWaitsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := taskFake(t, true, nil)
		u := f.Upstream(t, upstream.Config{Limits: upstream.Limits{Concurrent: 1, AsksPerUser: 3}})
		wait := func(user string) *mcp.Call {
			return &mcp.Call{Method: mcp.MethodTasksResult, Name: "t", Session: user + ":session", Tasks: mcp.CoreTasks,
				Notify: func(mcp.Event) {},
				Caller: mcp.NewCaller(mcp.Caller{Issuer: "https://issuer", Subject: user})}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 4)
		for _, user := range []string{"ann", "ann", "ann", "bob"} {
			go func() {
				_, err := u.Handle(ctx, wait(user))
				ended <- err
			}()
		}
		f.Await(t, mcp.MethodTasksResult, 4)
		_, err := u.Handle(ctx, wait("ann"))
		fake.WantError(t, err, mcp.CodeOverloaded, mcp.ExecutedNo)
		fake.WantOK(t, u, fake.Tool("a"))
		cancel()
		for range 4 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}
		if n := len(f.Requests(mcp.MethodTasksCancel)); n > 0 {
			t.Errorf("who waits no more has not cancelled the task: %d times", n)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 20*time.Minute)
		defer cancel()
		_, err = u.Handle(ctx, wait("ann"))
		if e := fake.WantError(t, err, mcp.CodeUpstreamTimeout, mcp.ExecutedUnknown); !strings.Contains(e.Message,
			"ask for its result again") {
			t.Errorf("after the time limit: %v", e)
		}
	})
}

// TestParkedTaskExpires: when nobody answers its question, a task that was made here is
// cancelled.
func TestParkedTaskExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := taskFake(t, true, func(w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			if m.Method != mcp.MethodTasksResult {
				return false
			}
			fake.Events(w, `data: {"jsonrpc":"2.0","id":"q",`+fake.Elicit+"}\n\n")
			<-r.Context().Done()
			return true
		})
		u := f.Upstream(t, upstream.Config{Timeout: upstream.Timeout{Ask: fake.Patience / 2}})
		if reply := fake.MustDo(t, u, inTask()); reply.Ask == nil {
			t.Fatalf("got %+v", reply)
		}
		f.Await(t, mcp.MethodTasksCancel, 1)
		if got := f.AwaitAnswer(t, "q"); got != `{"action":"cancel"}` {
			t.Errorf("the question was answered %s", got)
		}
	})
}

// TestQuestionOfATaskOnAnotherStream: a server may send it on any stream, with a reference
// to its task (2025-11-25 basic/utilities/tasks).
func TestQuestionOfATaskOnAnotherStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		say := make(chan string)
		f := taskFake(t, true, func(w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			if r.Method != http.MethodGet {
				return false
			}
			fake.Events(w, ": hello\n\n")
			for {
				select {
				case text := <-say:
					fake.Events(w, "data: "+text+"\n\n")
				case <-r.Context().Done():
					return true
				}
			}
		})
		u := f.Upstream(t, upstream.Config{})
		waiting := func(id string) *mcp.Call {
			c := fake.Asked("")
			c.Method, c.Name, c.Params, c.Tasks = mcp.MethodTasksResult, id, mcp.Raw(`{}`), mcp.CoreTasks
			return c
		}
		replies := map[string]chan *mcp.Reply{"t1": make(chan *mcp.Reply, 1), "t2": make(chan *mcp.Reply, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for id, ended := range replies {
			go func() {
				reply, _ := u.Handle(ctx, waiting(id))
				ended <- reply
			}()
		}
		f.Await(t, mcp.MethodTasksResult, 2)
		question := func(id, task string) string {
			return `{"jsonrpc":"2.0","id":"` + id +
				`","method":"elicitation/create","params":{"message":"m","requestedSchema":{},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + task + `"}}}}`
		}
		say <- question("q2", "t2")
		reply := <-replies["t2"]
		if reply == nil || reply.Ask == nil || len(reply.Ask.Requests) != 1 {
			t.Fatalf("who waits for the task was not asked: %+v", reply)
		}
		say <- question("q3", "t3")
		if got := f.AwaitAnswer(t, "q3"); !strings.Contains(got, "-32602") {
			t.Errorf("for a task that nobody waits for: %s", got)
		}
		again := waiting("t2")
		again.Round, again.Answers = reply.Ask.Round,
			map[string]mcp.Raw{reply.Ask.Requests[0].Key: mcp.Raw(`{"action":"accept","content":{}}`)}
		go func() { _, _ = u.Handle(ctx, again) }()
		if got := f.AwaitAnswer(t, "q2"); got != `{"action":"accept","content":{}}` {
			t.Errorf("answered %s", got)
		}
	})
}

// TestStatesThatLookLikeOurs: such states return to their server unchanged.
func TestStatesThatLookLikeOurs(t *testing.T) {
	for _, state := range []string{`task:["t"]`, "task:", "=", "=task:x", "==", "plain", "anew:x"} {
		f := fake.New(t, false, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			if m.Method != mcp.MethodToolsCall {
				return false
			}
			if _, again := mcp.Raw(m.Params).Member("requestState"); again {
				return false
			}
			fake.Result(w, m, string(mcp.Object("resultType", mcp.Raw(`"input_required"`), "requestState", mcp.String(state))))
			return true
		})
		u := fake.Start(t, upstream.Config{URL: f.URL})
		c := fake.Tool("a")
		c.Round = fake.MustDo(t, u, c).Ask.Round
		fake.WantOK(t, u, c)
		got, _ := mcp.Raw(f.Requests(mcp.MethodToolsCall)[1].Params).Member("requestState")
		if got.Text() != state || len(f.Requests(mcp.MethodTasksGet)) > 0 {
			t.Errorf("%q came back as %s", state, got)
		}
	}
}

// TestQuestionsOfAPolledTask: each question is put once, and its answer goes by
// tasks/update.
func TestQuestionsOfAPolledTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := func(key, message string) string {
			return `"` + key + `":{"method":"elicitation/create","params":{"mode":"form","message":"` + message +
				`","requestedSchema":{}}}`
		}
		open := []string{q("a", "1") + "," + q("b", "2"), q("a", "1") + "," + q("b", "2"), q("b", "2") + "," + q("c", "3")}
		polls := atomic.Int32{}
		f := taskFake(t, false, func(w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			switch m.Method {
			case mcp.MethodTasksGet:
				if n := int(polls.Add(1)) - 1; n < len(open) {
					fake.Result(w, m, `{"taskId":"t","status":"input_required","inputRequests":{`+open[n]+`}}`)
				} else {
					fake.Result(w, m, `{"taskId":"t","status":"completed","result":`+fake.OK+`}`)
				}
			case mcp.MethodTasksUpdate:
				fake.Result(w, m, `{"resultType":"complete"}`)
			default:
				return false
			}
			return true
		})
		u := f.Upstream(t, upstream.Config{})
		c := inTask()
		first := fake.MustDo(t, u, c).Ask
		if first == nil || len(first.Requests) != 2 || first.Here || first.Drop == nil {
			t.Fatalf("asked %+v", first)
		}
		again := c.Clone()
		again.Round, again.Answers = first.Round, map[string]mcp.Raw{"a": mcp.Raw(`{"action":"accept","content":{}}`),
			"b": mcp.Raw(`{"action":"decline"}`)}
		second := fake.MustDo(t, u, again).Ask
		if second == nil || len(second.Requests) != 1 || second.Requests[0].Key != "c" {
			t.Fatalf("asked %+v", second)
		}
		update := f.Requests(mcp.MethodTasksUpdate)[0]
		if responses, _ := mcp.Raw(update.Params).Member("inputResponses"); string(responses) != `{"a":{"action":"accept","content":{}},"b":{"action":"decline"}}` ||
			update.Header.Get("Mcp-Name") != "t" {
			t.Errorf("the server got %s", update.Params)
		}
		last := c.Clone()
		last.Round, last.Answers = second.Round, map[string]mcp.Raw{"c": mcp.Raw(`{"action":"cancel"}`)}
		fake.WantOK(t, u, last)

		refused := c.Clone()
		refused.Round, refused.Refused = first.Round,
			map[string]*mcp.Error{"a": mcp.Relayed(-1, "no", nil), "b": mcp.Relayed(-1, "no", nil)}
		reply := fake.MustDo(t, u, refused)
		if failed, _ := reply.Result.Member("isError"); !failed.IsTrue() {
			t.Errorf("a client that refuses: %s", reply.Result)
		}
		f.Await(t, mcp.MethodTasksCancel, 1)

		first.Drop("the client has left")
		f.Await(t, mcp.MethodTasksCancel, 2)
	})
}
