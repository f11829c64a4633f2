package hooks

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// finds is a hook that redacts the word SECRET, refuses that of the name "no".
func finds(name string, on ...string) Hook {
	h := Hook{Name: name, On: on}
	if name == "no" {
		h.Refuse = &Refuse{Patterns: []string{"SECRET"}, Reason: "it is secret"}
	} else {
		h.Redact = &Redact{Patterns: []string{"SECRET"}, With: "*"}
	}
	return h
}

// tool knows one task, t, of the tool do.
type tool struct{ mcp.Lens }

var do = mcp.Target{Kind: mcp.KindTools, Upstream: "up", Name: "do"}

func (tool) Target(_ context.Context, kind, public string) (mcp.Target, bool) {
	return do, kind == mcp.KindTask && public == "t"
}

// world is a server behind hooks.
type world struct {
	hooks Config
	got   *mcp.Call // by the server
	holds error
	heard []mcp.Event
	serve func(c *mcp.Call) (*mcp.Reply, error)
}

func (w *world) handle(t *testing.T, c *mcp.Call) (*mcp.Reply, error) {
	t.Helper()
	all, err := New(w.hooks, Deps{Holds: func(context.Context, *mcp.Call, *mcp.Call) error { return w.holds }})
	if err != nil {
		t.Fatal(err)
	}
	c.Lens, c.Notify = tool{}, func(e mcp.Event) { w.heard = append(w.heard, e) }
	if c.Verdict == nil {
		c.Verdict = &mcp.Verdict{}
	}
	return all.Middleware(mcp.HandlerFunc(func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
		w.got = c
		return w.serve(c)
	})).Handle(t.Context(), c)
}

func answers(result string) func(*mcp.Call) (*mcp.Reply, error) {
	return func(*mcp.Call) (*mcp.Reply, error) { return &mcp.Reply{Result: mcp.Raw(result)}, nil }
}

func call(method, params string) *mcp.Call {
	return &mcp.Call{Method: method, Target: do, Params: mcp.Raw(params), ParamHeaders: map[string]string{"a": "SECRET"}}
}

func wantRefused(t *testing.T, err error, executed string) {
	t.Helper()
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok || e.Name != failure.HookRefused || e.Data.At("executed").Text() != executed {
		t.Errorf("the error is %v, want that a hook refuses, executed %s", err, executed)
	}
}

// TestPrimitives: what is selected is changed or refused in every primitive, and all else stays.
func TestPrimitives(t *testing.T) {
	for _, tt := range []struct {
		name, method, params, sent, result, left string
	}{
		{"tool", mcp.MethodToolsCall, `{"name":"do", "arguments":{"a":"SECRET","n":1.0},"_meta":{"b":"SECRET"}}`,
			`{"name":"do", "arguments":{"a":"*","n":1.0},"_meta":{"b":"SECRET"}}`,
			`{ "content":[{"type":"text","text":"a SECRET"}],"structuredContent":{"SECRET":"\u0053ECRET", "n":1.0},"SECRET":"x"}`,
			`{ "content":[{"type":"text","text":"a *"}],"structuredContent":{"*":"*", "n":1.0},"SECRET":"x"}`},
		{"task's result", mcp.MethodTasksResult, `{"taskId":"t"}`, `{"taskId":"t"}`,
			`{"content":[{"type":"text","text":"SECRET"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"SECRET"},"io.modelcontextprotocol/more":"SECRET","x":"SECRET"}}`,
			`{"content":[{"type":"text","text":"*"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"SECRET"},"io.modelcontextprotocol/more":"*","x":"*"}}`},
		{"task", mcp.MethodTasksGet, `{"taskId":"SECRET"}`, `{"taskId":"SECRET"}`,
			`{"taskId":"SECRET","statusMessage":"SECRET","result":{"structuredContent":{"SECRET":1}},"error":{"code":1,"message":"SECRET"},"inputRequests":{"q":{"method":"m","params":{"message":"SECRET","url":"SECRET"}}}}`,
			`{"taskId":"SECRET","statusMessage":"*","result":{"structuredContent":{"*":1}},"error":{"code":1,"message":"*"},"inputRequests":{"q":{"method":"m","params":{"message":"*","url":"SECRET"}}}}`},
		{"no objects", mcp.MethodToolsCall, `{}`, `{}`,
			`{"_meta":"SECRET","content":[{"type":"text","text":"\"\\u0053ECRET\""}]}`,
			`{"_meta":"*","content":[{"type":"text","text":"\"*\""}]}`},
		{"task of no objects", mcp.MethodTasksGet, `{}`, `{}`,
			`{"result":"SECRET","error":"SECRET","_meta":["SECRET"],"inputRequests":{"q":"SECRET","r":{"params":"SECRET"}}}`,
			`{"result":"*","error":"*","_meta":["*"],"inputRequests":{"q":"*","r":{"params":"*"}}}`},
		{"task with a text of questions", mcp.MethodTasksGet, `{}`, `{}`, `{"inputRequests":"SECRET"}`,
			`{"inputRequests":"*"}`},
		{"prompt", mcp.MethodPromptsGet, `{"name":"do","arguments":{"a":"SECRET"}}`, `{"name":"do","arguments":{"a":"*"}}`,
			`{"messages":[{"role":"user","content":{"type":"text","text":"SECRET"}}]}`,
			`{"messages":[{"role":"user","content":{"type":"text","text":"*"}}]}`},
		{"resource", mcp.MethodResourcesRead, `{"uri":"a:b"}`, `{"uri":"a:b"}`,
			`{"contents":[{"uri":"a:b","text":"SECRET"},{"uri":"a:c","blob":"AAAA"}]}`,
			`{"contents":[{"uri":"a:b","text":"*"},{"uri":"a:c","blob":"AAAA"}]}`},
		{"skill", mcp.MethodSkillsGet, `{"uri":"a:b"}`, `{"uri":"a:b"}`, `{"contents":[{"text":"SECRET"}]}`,
			`{"contents":[{"text":"*"}]}`},
		{"completion", mcp.MethodComplete,
			`{"ref":{"type":"ref/prompt","name":"SECRET"},"argument":{"name":"a","value":"SECRET"},"context":{"arguments":{"b":"SECRET"}}}`,
			`{"ref":{"type":"ref/prompt","name":"SECRET"},"argument":{"name":"a","value":"*"},"context":{"arguments":{"b":"*"}}}`,
			`{"completion":{"values":["SECRET"]}}`, `{"completion":{"values":["*"]}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{hooks: Config{finds("yes")}, serve: answers(tt.result)}
			c := call(tt.method, tt.params)
			reply, err := w.handle(t, c)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(w.got.Params); got != tt.sent {
				t.Errorf("the server got\n%s\nwant\n%s", got, tt.sent)
			}
			if got := string(reply.Result); got != tt.left {
				t.Errorf("the client got\n%s\nwant\n%s", got, tt.left)
			}
			if string(c.Params) != tt.params {
				t.Error("the client's call was changed")
			}

			w.hooks = Config{finds("no", Results)}
			_, err = w.handle(t, call(tt.method, tt.params))
			if executed := map[string]string{"completion": "unknown", "task": "unknown",
				"task with a text of questions": "unknown"}[tt.name]; executed != "" {
				wantRefused(t, err, executed)
			} else {
				wantRefused(t, err, "yes")
			}

			w.hooks = Config{{Name: "other", What: []string{"tools:up/other", "prompts:*", "tools:down/*"},
				Redact: finds("yes").Redact}}
			reply, err = w.handle(t, call(tt.method, tt.params))
			if err != nil || string(reply.Result) != tt.result || string(w.got.Params) != tt.params {
				t.Errorf("a hook of something else changed %s and %s: %v", w.got.Params, reply.Result, err)
			}
		})
	}
}

// TestArguments: what hooks make of arguments is what the server gets, and policy has to agree.
func TestArguments(t *testing.T) {
	const params = `{"name":"do","arguments":{"a":"SECRET"}}`
	w := &world{hooks: Config{finds("yes"), finds("no")}, serve: answers(`{}`)}
	if _, err := w.handle(t, call(mcp.MethodToolsCall, params)); err != nil || w.got.ParamHeaders != nil {
		t.Errorf("the second hook gets what the first has left, and headers are not compared: %v, %v", err,
			w.got.ParamHeaders)
	}
	w.got, w.hooks = nil, Config{finds("no"), finds("yes")}
	_, err := w.handle(t, call(mcp.MethodToolsCall, params))
	if wantRefused(t, err, "no"); w.got != nil {
		t.Error("the call ran")
	}
	w.hooks, w.holds = Config{finds("yes")}, mcp.Errorf(failure.ArgumentsDenied, "no")
	if _, err = w.handle(t, call(mcp.MethodToolsCall, params)); mcp.FailureOf(err) != failure.ArgumentsDenied ||
		w.got != nil {
		t.Errorf("policy was not asked again: %v", err)
	}
	if _, err = w.handle(t, call(mcp.MethodToolsCall, `{"name":"do"}`)); err != nil || w.got.ParamHeaders == nil {
		t.Errorf("without arguments: %v", err)
	}
	w.got = nil
	for _, uri := range []string{"a:SECRET", "a:%53ECRET"} {
		c := call(mcp.MethodResourcesRead, `{}`)
		c.Name = uri
		_, err = w.handle(t, c)
		if wantRefused(t, err, "no"); w.got != nil {
			t.Errorf("%s was read", uri)
		}
	}
}

// TestMidCall: what is said while a call runs is looked at, too, in both directions.
func TestMidCall(t *testing.T) {
	dropped := ""
	question := &mcp.Ask{Drop: func(reason string) { dropped = reason }, Round: mcp.NewRound(mcp.FrameServer, "s"),
		Requests: []mcp.InputRequest{{Key: "q", Method: mcp.MethodElicit,
			Params: mcp.Raw(`{"message":"SECRET?","url":"https://a.example/SECRET"}`)}}}
	w := &world{hooks: Config{finds("yes")}}
	w.serve = func(c *mcp.Call) (*mcp.Reply, error) {
		c.Notify(mcp.Event{Method: mcp.NoteProgress,
			Params: mcp.Raw(`{"progressToken":"SECRET","progress":1,"message":"SECRET"}`)})
		c.Notify(mcp.Event{Method: mcp.NoteMessage, Params: mcp.Raw(`{"level":"info","data":{"SECRET":1}}`)})
		return &mcp.Reply{Ask: question}, nil
	}
	reply, err := w.handle(t, call(mcp.MethodToolsCall, `{}`))
	if err != nil || string(reply.Ask.Requests[0].Params) != `{"message":"*?","url":"https://a.example/SECRET"}` ||
		reply.Ask.Round.Top().Value != "s" {
		t.Errorf("the question is %v, %v", reply, err)
	}
	want := []mcp.Event{
		{Method: mcp.NoteProgress, Params: mcp.Raw(`{"progressToken":"SECRET","progress":1,"message":"*"}`)},
		{Method: mcp.NoteMessage, Params: mcp.Raw(`{"level":"info","data":{"*":1}}`)},
	}
	if diff := cmp.Diff(want, w.heard); diff != "" {
		t.Error(diff)
	}

	w.hooks, w.heard = Config{finds("no")}, nil
	_, err = w.handle(t, call(mcp.MethodToolsCall, `{}`))
	wantRefused(t, err, "unknown")
	if len(w.heard) > 0 || !strings.Contains(dropped, "guardrail") {
		t.Errorf("heard was %v, and the question was dropped because of %q", w.heard, dropped)
	}

	w.serve = func(*mcp.Call) (*mcp.Reply, error) {
		return nil, mcp.Relayed(-1, "SECRET", mcp.Raw(`{"SECRET":"SECRET"}`))
	}
	again := call(mcp.MethodToolsCall, `{}`)
	again.Round = mcp.NewRound(mcp.FrameServer, "s2")
	again.Answers, again.Refused = map[string]mcp.Raw{"q": mcp.Raw(`{"action":"accept","content":{"a":"SECRET"}}`)},
		map[string]*mcp.Error{"r": mcp.Relayed(1, "SECRET", nil)}
	_, err = w.handle(t, again)
	wantRefused(t, err, "unknown")
	w.hooks = Config{finds("yes")}
	_, err = w.handle(t, again)
	if e, _ := errors.AsType[*mcp.Error](err); e == nil || e.Name != failure.Upstream || e.Code != -1 ||
		e.Message != "*" || string(e.Data) != `{"*":"*"}` {
		t.Errorf("the error is %v", err)
	}
	if string(w.got.Answers["q"]) != `{"action":"accept","content":{"a":"*"}}` || w.got.Refused["r"].Message != "*" ||
		string(again.Answers["q"]) == string(w.got.Answers["q"]) {
		t.Errorf("the server got the answers %s and %v", w.got.Answers, w.got.Refused)
	}
}

// TestListen: tasks that are pushed are those that are asked for.
func TestListen(t *testing.T) {
	w := &world{hooks: Config{finds("yes")}}
	w.serve = func(c *mcp.Call) (*mcp.Reply, error) {
		for _, id := range []string{"t", "unknown"} {
			c.Notify(mcp.Event{Method: mcp.NoteTask, Params: mcp.Object("taskId", mcp.String(id), "result",
				mcp.Raw(`{"content":["SECRET"]}`))})
		}
		c.Notify(mcp.Event{Method: mcp.NoteResourceUpdated, Params: mcp.Raw(`{"uri":"a:SECRET"}`)})
		return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
	}
	listen := &mcp.Call{Method: mcp.MethodListen}
	if _, err := w.handle(t, listen); err != nil {
		t.Fatal(err)
	}
	updated := mcp.Event{Method: mcp.NoteResourceUpdated, Params: mcp.Raw(`{"uri":"a:SECRET"}`)}
	if diff := cmp.Diff([]mcp.Event{{Method: mcp.NoteTask, Params: mcp.Raw(`{"taskId":"t","result":{"content":["*"]}}`)},
		updated}, w.heard); diff != "" {
		t.Error(diff)
	}
	w.hooks, w.heard = Config{finds("no")}, nil
	if _, err := w.handle(t, listen); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]mcp.Event{updated}, w.heard); diff != "" {
		t.Error(diff)
	}
}

// TestRecord: the record of a call has what each hook did, at its most.
func TestRecord(t *testing.T) {
	w := &world{hooks: Config{finds("yes"), finds("no")}, serve: answers(`{"content":[]}`)}
	c := call(mcp.MethodToolsCall, `{"arguments":{"a":"SECRET"}}`)
	c.Answers = map[string]mcp.Raw{"a": mcp.Raw(`"x"`)}
	if _, err := w.handle(t, c); err != nil {
		t.Fatal(err)
	}
	want := []mcp.HookRun{
		{Name: "yes", On: Arguments, Action: "change"}, {Name: "no", On: Arguments, Action: "pass"},
		{Name: "yes", On: Results, Action: "pass"}, {Name: "no", On: Results, Action: "pass"},
	}
	if diff := cmp.Diff(want, c.Verdict.Hooks, cmpopts.IgnoreFields(mcp.HookRun{}, "Took")); diff != "" {
		t.Error(diff)
	}
}

// TestWho: a caller whose claims are ambiguous does not get around a hook.
func TestWho(t *testing.T) {
	hook := finds("no")
	hook.Who = policy.Who{Groups: []string{"sales"}}
	w := &world{hooks: Config{hook}, serve: answers(`{"content":"SECRET"}`)}
	for _, tt := range []struct {
		caller  mcp.Caller
		refused bool
	}{
		{mcp.Caller{Subject: "alice", Groups: []string{"sales"}}, true},
		{mcp.Caller{Subject: "bob", Groups: []string{"legal"}}, false},
		{mcp.Caller{Subject: "carol", Claims: mcp.Raw(`{"a":1,"a":2}`)}, true},
	} {
		c := call(mcp.MethodToolsCall, `{}`)
		c.Caller = mcp.NewCaller(tt.caller)
		if _, err := w.handle(t, c); (err != nil) != tt.refused {
			t.Errorf("%s: %v", tt.caller.Subject, err)
		}
	}
	lines, err := w.hooks.Explain(&mcp.Caller{Groups: []string{"sales"}}, do)
	if diff := cmp.Diff([]string{`Hook "no" runs on arguments and results.`}, lines); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
