package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

const (
	coreCaps = `{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}`
	extCaps  = `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
)

func running20251125(name string) *server {
	s := newServer(name).has(mcp.MethodToolsList,
		`{"name":"must","inputSchema":{},"execution":{"taskSupport":"required","x":1}}`,
		`{"name":"may","inputSchema":{},"execution":{"taskSupport":"optional"}}`,
		`{"name":"never","inputSchema":{},"execution":{"taskSupport":"forbidden"}}`,
		`{"name":"plain","inputSchema":{}}`)
	s.offers(coreCaps)
	return s
}

// tasked makes the server answer tool calls with a task, if they are to run as one.
func (s *server) tasked(id string) *server {
	return s.on(mcp.MethodToolsCall, func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
		if c.Task == nil && c.Tasks != mcp.ExtensionTasks {
			return &mcp.Reply{Result: mcp.Raw(`{"content":[]}`)}, nil
		}
		return &mcp.Reply{Task: true, Result: mcp.Object("resultType", mcp.Raw(`"task"`), "taskId", mcp.String(id), "status",
			mcp.Raw(`"working"`), "ttlMs", mcp.Raw("null"))}, nil
	})
}

func as(c *mcp.Call, user, client string) *mcp.Call {
	c.Caller = mcp.NewCaller(mcp.Caller{Issuer: "https://login.example.com", Subject: user, ClientID: client})
	return c
}

// inForm returns a call of a client that knows tasks in a form.
func inForm(form mcp.TaskForm, method, name string, params ...string) *mcp.Call {
	c := as(call(method, name, params...), "ann", "cli")
	c.Tasks = form
	if form == mcp.CoreTasks && method == mcp.MethodToolsCall {
		c.Task = mcp.Raw(`{"ttl":5}`)
	}
	return c
}

func idOf(t *testing.T, reply *mcp.Reply) string {
	t.Helper()
	id := mcp.TaskID(reply.Result)
	if !reply.Task || id == "" {
		t.Fatalf("no task: %s", reply.Result)
	}
	return id
}

func TestTaskSupportIsThatOfTheGateway(t *testing.T) {
	c := start(t, Source{Upstream: running20251125("crm")})
	want := map[string]string{"crm__must": `"optional"`, "crm__may": `"optional"`, "crm__never": `"forbidden"`,
		"crm__plain": ""}
	for _, item := range do(t, c, call(mcp.MethodToolsList, "")).List.Items {
		execution, _ := item.Raw.Member("execution")
		if support, _ := execution.Member("taskSupport"); string(support) != want[item.Name] {
			t.Errorf("%s: %s", item.Name, item.Raw)
		}
		if x, ok := execution.Member("x"); item.Name == "crm__must" && (!ok || string(x) != "1") {
			t.Errorf("what else stands there is lost: %s", item.Raw)
		}
	}
	without := running20251125("old")
	without.offers(`{"tools":{}}`)
	c = start(t, Source{Upstream: without})
	for _, item := range do(t, c, call(mcp.MethodToolsList, "")).List.Items {
		if _, ok := item.Raw.Member("execution"); ok {
			t.Errorf("%s is listed as %s, and no task can be made", item.Name, item.Raw)
		}
	}
}

func TestWhichCallsRunAsTasks(t *testing.T) {
	crm, doc := running20251125("crm"), newServer("doc").tools("plain")
	c := start(t, Source{Upstream: crm}, Source{Upstream: doc})
	alone := start(t, Source{Upstream: doc})
	tests := []struct {
		name    string
		c       *Catalog
		s       *server
		form    mcp.TaskForm
		tool    string
		task    string // of the client
		want    string // of the upstream
		in      mcp.TaskForm
		refused bool
	}{
		{"what the client wants", c, crm, mcp.CoreTasks, "crm__may", `{"ttl":1}`, `{"ttl":1}`, mcp.CoreTasks, false},
		{"what the tool wants, too", c, crm, mcp.CoreTasks, "crm__must", `{"ttl":1}`, `{"ttl":1}`, mcp.CoreTasks, false},
		{"not if it does not", c, crm, mcp.CoreTasks, "crm__may", "", "", mcp.CoreTasks, false},
		{"what the tool wants and the client does not", c, crm, mcp.CoreTasks, "crm__must", "", "{}", mcp.NoTasks, false},
		{"nor knows", c, crm, mcp.NoTasks, "crm__must", "", "{}", mcp.NoTasks, false},
		{"nor knows in this form", c, crm, mcp.ExtensionTasks, "crm__must", "", "{}", mcp.ExtensionTasks, false},
		{"a tool that never does", c, crm, mcp.CoreTasks, "crm__never", "{}", "", 0, true},
		{"a tool that does not say", c, crm, mcp.CoreTasks, "crm__plain", "{}", "", 0, true},
		{"a server that has none", c, doc, mcp.CoreTasks, "doc__plain", "{}", "", 0, true},
		{"nobody has any", alone, doc, mcp.CoreTasks, "doc__plain", "{}", "", mcp.CoreTasks, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := inForm(tt.form, mcp.MethodToolsCall, tt.tool)
			in.Task = nil
			if tt.task != "" {
				in.Task = mcp.Raw(tt.task)
			}
			if tt.refused {
				refused(t, tt.c, in, mcp.CodeMethodNotFound)
				return
			}
			do(t, tt.c, in)
			if got := tt.s.last(t, mcp.MethodToolsCall); string(got.Task) != tt.want || got.Tasks != tt.in {
				t.Errorf("the upstream got task %s in form %d, want %s in %d", got.Task, got.Tasks, tt.want, tt.in)
			}
		})
	}
	t.Run("whoever may not know of them was not told of tasks", func(t *testing.T) {
		in := inForm(mcp.CoreTasks, mcp.MethodToolsCall, "doc__plain")
		in.Visible = func(upstream string) bool { return upstream == "doc" }
		do(t, c, in)
	})
}

// TestTaskIDs: an id is valid only for the client that got it, in the client's form of
// tasks, and for the tool that policy has decided on.
func TestTaskIDs(t *testing.T) {
	for _, form := range []mcp.TaskForm{mcp.CoreTasks, mcp.ExtensionTasks} {
		t.Run(fmt.Sprint("form ", form), func(t *testing.T) {
			crm, doc := running20251125("crm").tasked("native-id"), running20251125("doc").tasked("native-id")
			if form == mcp.ExtensionTasks {
				crm.offers(extCaps)
				doc.offers(extCaps)
			}
			c := start(t, Source{Upstream: crm}, Source{Upstream: doc})
			id := idOf(t, do(t, c, inForm(form, mcp.MethodToolsCall, "crm__may")))
			if again := idOf(t, do(t, c, inForm(form, mcp.MethodToolsCall, "crm__may"))); again == id ||
				strings.Contains(id, "native") {
				t.Errorf("ids %q and %q", id, again)
			}
			other := idOf(t, do(t, c, inForm(form, mcp.MethodToolsCall, "doc__must")))

			do(t, c, inForm(form, mcp.MethodTasksGet, id))
			if got := crm.last(t, mcp.MethodTasksGet); got.Name != "native-id" {
				t.Errorf("the upstream was asked for %q", got.Name)
			}
			do(t, c, inForm(form, mcp.MethodTasksCancel, other))
			if doc.called(mcp.MethodTasksCancel) != 1 || crm.called(mcp.MethodTasksCancel) != 0 {
				t.Error("the other one's task did not go there")
			}
			if target, ok := resolve(t.Context(), c, inForm(form, "", ""), mcp.KindTask, other); !ok ||
				target.String() != "tools:doc/must" {
				t.Errorf("it stands for %s, %v", target, ok)
			}

			before := len(crm.calls)
			unknown := refused(t, c, inForm(form, mcp.MethodTasksGet, "no-such-task"), mcp.CodeInvalidParams)
			for name, in := range map[string]*mcp.Call{
				"another user's":    as(inForm(form, mcp.MethodTasksGet, id), "bob", "cli"),
				"another client's":  as(inForm(form, mcp.MethodTasksGet, id), "ann", "cli2"),
				"nobody's":          as(inForm(form, mcp.MethodTasksGet, id), "", ""),
				"native":            inForm(form, mcp.MethodTasksGet, "native-id"),
				"cut":               inForm(form, mcp.MethodTasksGet, id[:len(id)-1]),
				"longer":            inForm(form, mcp.MethodTasksGet, id+"A"),
				"changed":           inForm(form, mcp.MethodTasksGet, id[:20]+flip(id[20])+id[21:]),
				"none":              inForm(form, mcp.MethodTasksGet, ""),
				"huge":              inForm(form, mcp.MethodTasksGet, strings.Repeat("A", 1<<20)),
				"a cursor":          inForm(form, mcp.MethodTasksGet, c.seal.Seal([]byte{1, 1}, "x")),
				"of the other form": inForm(3-form, mcp.MethodTasksGet, id),
			} {
				decided := in.Clone()
				decided.Target = mcp.Target{Kind: mcp.KindTools, Upstream: "crm", Name: "may"} // whatever policy decided
				e, ok := errors.AsType[*mcp.Error](errOf(c.Handle(t.Context(), decided)))
				if name == "of the other form" && form == mcp.ExtensionTasks {
					if !ok || e.Code != mcp.CodeMethodNotFound { // nobody has tasks
						t.Errorf("%s: %v", name, e)
					}
					continue
				}
				if !ok || e.Code != unknown.Code || e.Message != unknown.Message || len(e.Data) != 0 {
					t.Errorf("%s answers %v, an unknown one %v", name, e, unknown)
				}
			}
			for name, target := range map[string]mcp.Target{
				"none": {}, "another tool": {Kind: mcp.KindTools, Upstream: "crm", Name: "must"},
				"another upstream's": {Kind: mcp.KindTools, Upstream: "doc", Name: "may"},
				"a prompt":           {Kind: mcp.KindPrompts, Upstream: "crm", Name: "may"},
			} {
				in := inForm(form, mcp.MethodTasksGet, id)
				in.Target = target
				if _, err := c.Handle(t.Context(), in); !mcp.HasCode(err, mcp.CodeInvalidParams) {
					t.Errorf("decided on %s: %v", name, err)
				}
			}
			if n := len(crm.calls) - before; n != 0 {
				t.Errorf("%d calls got through", n)
			}
		})
	}
}

func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

func errOf(_ *mcp.Reply, err error) error { return err }

// TestReplicasShareTaskIDs: only the key is needed, so an id outlives the catalog that made
// it, but not its upstream.
func TestReplicasShareTaskIDs(t *testing.T) {
	key, err := seal.NewRandom("task id")
	if err != nil {
		t.Fatal(err)
	}
	replica := func(key *seal.Key, s *server) *Catalog {
		c := start(t, Source{Upstream: s})
		c.taskSeal = key
		return c
	}
	id := idOf(t, do(t, replica(key, running20251125("crm").tasked("1")),
		inForm(mcp.CoreTasks, mcp.MethodToolsCall, "crm__may")))
	s := running20251125("crm")
	do(t, replica(key, s), inForm(mcp.CoreTasks, mcp.MethodTasksGet, id))
	if s.last(t, mcp.MethodTasksGet).Name != "1" {
		t.Error("the other replica does not know it")
	}
	refused(t, replica(key, running20251125("doc")), inForm(mcp.CoreTasks, mcp.MethodTasksGet, id), mcp.CodeInvalidParams)
	strange, err := seal.NewRandom("task id")
	if err != nil {
		t.Fatal(err)
	}
	refused(t, replica(strange, running20251125("crm")), inForm(mcp.CoreTasks, mcp.MethodTasksGet, id),
		mcp.CodeInvalidParams)
}

// TestTasksThatCannotBeAskedFor: a task that nobody could ask for is not passed on.
func TestTasksThatCannotBeAskedFor(t *testing.T) {
	for name, id := range map[string]string{"no id": "", "an endless one": strings.Repeat("x", mcp.MaxTaskID+1)} {
		s := running20251125("crm").tasked(id)
		e := refused(t, start(t, Source{Upstream: s}), inForm(mcp.CoreTasks, mcp.MethodToolsCall, "crm__may"),
			mcp.CodeUpstreamBadAnswer)
		if len(e.Message) > 200 {
			t.Errorf("%s: %v", name, e)
		}
	}
	s := running20251125("crm").on(mcp.MethodToolsCall, func(context.Context, *mcp.Call) (*mcp.Reply, error) {
		return &mcp.Reply{Task: true, Result: mcp.Raw(`{"resultType":"task","taskId":"1"}`)}, nil
	})
	refused(t, start(t, Source{Upstream: s}), inForm(mcp.NoTasks, mcp.MethodToolsCall, "crm__may"),
		mcp.CodeUpstreamBadAnswer)
}

// TestURIsInTasks: a task has public URIs wherever it contains any.
func TestURIsInTasks(t *testing.T) {
	s := running20251125("crm").tasked("1")
	c := start(t, Source{Upstream: s})
	id := idOf(t, do(t, c, inForm(mcp.CoreTasks, mcp.MethodToolsCall, "crm__may")))
	link := `{"type":"resource_link","uri":"file:///a","name":"a"}`
	public := `{"type":"resource_link","uri":"crm+file:///a","name":"a"}`
	tests := []struct{ name, method, in, want string }{
		{"a result in the task", mcp.MethodTasksGet, `{"taskId":"1","status":"completed","result":{"content":[` +
			link + `]}}`,
			`{"taskId":"ID","status":"completed","result":{"content":[` + public + `]}}`},
		{"a question", mcp.MethodTasksGet,
			`{"taskId":"1","inputRequests":{"q":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":` + link + `}]}},"r":{"method":"roots/list"}}}`,
			`{"taskId":"ID","inputRequests":{"q":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":` + public + `}]}},"r":{"method":"roots/list"}}}`},
		{"an error", mcp.MethodTasksGet, `{"taskId":"1","error":{"code":1,"message":"m","data":{"uri":"file:///a"}}}`,
			`{"taskId":"ID","error":{"code":1,"message":"m","data":{"uri":"crm+file:///a"}}}`},
		{"the result itself", mcp.MethodTasksResult, `{"content":[` + link +
			`],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"}}}`,
			`{"content":[` + public + `],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"ID"}}}`},
		{"a result that does not say of which task", mcp.MethodTasksResult, `{"content":[],"_meta":{"k":1}}`,
			`{"content":[],"_meta":{"k":1,"io.modelcontextprotocol/related-task":{"taskId":"ID"}}}`},
		{"nothing but an acknowledgement", mcp.MethodTasksCancel, `{}`, `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s.on(tt.method, func(context.Context, *mcp.Call) (*mcp.Reply,
				error) {
				return &mcp.Reply{Result: mcp.Raw(tt.in)}, nil
			})
			got := do(t, c, inForm(mcp.CoreTasks, tt.method, id))
			if text := strings.ReplaceAll(string(got.Result), id, "ID"); text != tt.want {
				t.Errorf("got\n%s, want\n%s", text, tt.want)
			}
		})
	}
	t.Run("questions and events say of which task", func(t *testing.T) {
		s.on(mcp.MethodTasksResult, func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
			c.Notify(mcp.Event{Method: mcp.NoteProgress,
				Params: mcp.Raw(`{"progress":1,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"}}}`)})
			c.Notify(mcp.Event{Method: mcp.NoteProgress,
				Params: mcp.Raw(`{"progress":2,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"2"}}}`)})
			return &mcp.Reply{Ask: &mcp.Ask{Round: mcp.NewRound(mcp.FrameServer, "s"), Here: true,
				Requests: []mcp.InputRequest{{Key: "g1", Method: mcp.MethodElicit, Params: mcp.Raw(`{"message":"m"}`)},
					{Key: "g2", Method: mcp.MethodRootsList}}}}, nil
		})
		in := inForm(mcp.CoreTasks, mcp.MethodTasksResult, id)
		var events []string
		in.Notify = func(e mcp.Event) { events = append(events, string(e.Params)) }
		ask := do(t, c, in).Ask
		if ask.Round.Top().Value != "s" || !ask.Here || len(ask.Requests) != 2 {
			t.Errorf("asked %+v", ask)
		}
		for _, q := range ask.Requests {
			meta, _ := q.Params.Member("_meta")
			if task, _ := meta.Member("io.modelcontextprotocol/related-task"); mcp.TaskID(task) != id {
				t.Errorf("%s: %s", q.Method, q.Params)
			}
		}
		if len(events) != 2 || !strings.Contains(events[0], id) || strings.Contains(events[1], "related") {
			t.Errorf("events %q", events)
		}
	})
	t.Run("an error repeats the id that the client knows", func(t *testing.T) {
		for said, want := range map[string]string{
			"Task 1 has expired":                "Task ID has expired",
			`no task "1"`:                       `no task "ID"`,
			"1":                                 "ID",
			"Task 1: 1 of 11 at 10.1 a1 1-x é1": "Task ID: ID of 11 at 10.ID a1 1-x é1",
		} {
			s.fails(mcp.MethodTasksGet, mcp.Errorf(failure.InvalidParams, "%s", said))
			e := refused(t, c, inForm(mcp.CoreTasks, mcp.MethodTasksGet, id), mcp.CodeInvalidParams)
			if got := strings.ReplaceAll(e.Message, id, "ID"); got != want {
				t.Errorf("%q became %q", said, got)
			}
		}
	})
}

// TestTasksOfUpstreamsThatNobodySees: a caller who sees no upstream with tasks has no tasks
// at all.
func TestTasksOfUpstreamsThatNobodySees(t *testing.T) {
	c := start(t, Source{Upstream: running20251125("crm")},
		Source{Upstream: newServer("doc").has(mcp.MethodToolsList, `{"name":"a","inputSchema":{}}`)})
	for _, form := range []mcp.TaskForm{mcp.NoTasks, mcp.CoreTasks, mcp.ExtensionTasks} {
		for name, want := range map[string]int{"crm": mcp.CodeInvalidParams, "doc": mcp.CodeMethodNotFound} {
			in := inForm(form, mcp.MethodTasksGet, "x")
			in.Visible = func(upstream string) bool { return upstream == name }
			if form == mcp.NoTasks && name == "crm" {
				want = mcp.CodeMissingCapability
			}
			refused(t, c, in, want)
		}
	}
}

// TestTaskIDsExpire: nobody reaches a task by an id that another task had before at its
// server.
func TestTaskIDsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for ttl, life := range map[string]time.Duration{
			"0": leastTaskLife, "60000": leastTaskLife, "-1": leastTaskLife, "172800000": 48 * time.Hour, "null": mostTaskLife,
			"99999999999999": mostTaskLife, "1e30": mostTaskLife, "": mostTaskLife,
		} {
			task := mcp.Raw(`{}`)
			if ttl != "" {
				task = mcp.Object("ttlMs", mcp.Raw(ttl))
			}
			if got := time.Until(time.Unix(taskExpiry(task), 0)); got != life {
				t.Errorf("a task of %s ms can be asked for %s, want %s", ttl, got, life)
			}
		}
		c := start(t, Source{Upstream: running20251125("crm")})
		ann := as(call(mcp.MethodTasksGet, ""), "ann", "cli").Caller
		id := c.sealTask(taskID{mcp.CoreTasks, "crm", "may", "1", taskExpiry(mcp.Raw(`{"ttlMs":1}`))}, &ann)
		time.Sleep(leastTaskLife - time.Second)
		if _, _, ok := c.openTask(id, &ann); !ok {
			t.Error("the id has ended early")
		}
		time.Sleep(time.Second)
		if _, _, ok := c.openTask(id, &ann); ok {
			t.Error("the id has no end")
		}
	})
}

func FuzzTaskID(f *testing.F) {
	c := newCatalog(f, Config{}, Source{Upstream: newServer("crm")})
	caller := mcp.NewCaller(mcp.Caller{Issuer: "i", Subject: "s", ClientID: "c"})
	f.Add("crm", "tool", "native", []byte{1, 1, 3, 'c', 'r', 'm'})
	f.Add("crm", "", "\x00", []byte{})
	f.Fuzz(func(t *testing.T, upstream, tool, native string, plain []byte) {
		want := taskID{mcp.CoreTasks, upstream, tool, native, time.Now().Add(time.Hour).Unix()}
		got, _, ok := c.openTask(c.sealTask(want, &caller), &caller)
		if ok != (upstream == "crm" && native != "") && len(tool)+len(native) < maxSealed/2 || ok && got != want {
			t.Errorf("%+v came back as %+v, %v", want, got, ok)
		}
		if got, _, ok := c.openTask(c.taskSeal.Seal(plain, caller.User(), caller.ClientID), &caller); ok &&
			got.upstream != "crm" {
			t.Errorf("%q opens as %+v", plain, got)
		}
	})
}
