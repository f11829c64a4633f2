package results

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-mcp/gatehouse/internal/largeresults"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// rig is the stage above tools that return what the test wants.
type rig struct {
	stage    mcp.Handler // below which nothing puts lenses into calls
	mcp.Lens             // for what nothing asks
	Deps
	h       mcp.Handler
	result  string // of the tools, or the task
	schema  bool   // the tools have an output schema
	hidden  bool   // nobody may see the tools any more
	noLists bool   // no upstream has resources
	log     strings.Builder
}

var alice = mcp.NewCaller(mcp.Caller{Issuer: "i", Subject: "alice"})

func newRig(inline int64) *rig {
	r := &rig{}
	r.Deps = Deps{
		Of:    func(mcp.Target) (int64, time.Duration) { return inline, time.Minute },
		Least: inline, Store: largeresults.NewMemory(largeresults.Bounds{}),
		Visible: func(_ *mcp.Caller, tool mcp.Target) bool {
			return !r.hidden && tool.Name == "do" && tool.Upstream == "up"
		},
		Name: func(values ...string) string {
			return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(values, "/"))))[:32]
		},
		Metrics: NewMetrics(nil), Log: slog.New(slog.NewTextHandler(&r.log, nil)),
	}
	r.build()
	return r
}

func (r *rig) build() {

	r.stage = Middleware(r.Deps)(r)
	r.h = mcp.Through(func(*mcp.Call) mcp.Lens { return r })(r.stage)

}

func (r *rig) Target(_ context.Context, _, public string) (mcp.Target, bool) {
	return mcp.Target{Kind: mcp.KindTools, Upstream: "up", Name: "do"}, public != "own"
}

func (r *rig) Now() mcp.Lens { return r }

func (r *rig) Structured(mcp.Target) bool { return r.schema }

func (r *rig) Handle(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
	switch c.Method {
	case mcp.MethodDiscover:
		return &mcp.Reply{Result: mcp.Raw(`{"capabilities":{"tools":{}}}`)}, nil
	case mcp.MethodListen:
		c.Notify(mcp.Event{Method: mcp.NoteTask, Params: mcp.Raw(r.result)})
		return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
	case mcp.MethodToolsCall, mcp.MethodTasksGet, mcp.MethodTasksResult:
		return &mcp.Reply{Result: mcp.Raw(r.result)}, nil
	}
	if r.noLists {
		return nil, mcp.ErrMethod(c.Method)
	}
	return nil, mcp.ErrUnknown(c.Method, c.Name)
}

func (r *rig) handle(t *testing.T, caller mcp.Caller, method, name string) (mcp.Raw, error) {
	t.Helper()
	reply, err := r.h.Handle(t.Context(), &mcp.Call{Method: method, Name: name, Caller: caller, Tasks: mcp.ExtensionTasks})
	if err != nil {
		return nil, err
	}
	if !json.Valid(reply.Result) {
		t.Fatalf("invalid: %s", reply.Result)
	}
	return reply.Result, nil
}

// ask makes a call that must succeed.
func (r *rig) ask(t *testing.T, method, name string) mcp.Raw {
	t.Helper()
	result, err := r.handle(t, alice, method, name)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// linked returns the content without note and link, and the URI.
func linked(t *testing.T, result mcp.Raw) (content []string, uri string) {
	t.Helper()
	var last []mcp.Raw
	result.At("content").Elements(func(block mcp.Raw) bool { last = append(last, block); return true })
	if len(last) < 2 || last[len(last)-1].At("type").Text() != "resource_link" {
		t.Fatalf("no link in %s", result)
	}
	uri = last[len(last)-1].At("uri").Text()
	if said := last[len(last)-2].At("text").Text(); !strings.Contains(said, uri) || !strings.Contains(said, "For 1m, ") {
		t.Errorf("the note: %s", said)
	}
	for _, block := range last[:len(last)-2] {
		content = append(content, string(block))
	}
	return content, uri
}

// read returns the values of the contents of a kept result.
func (r *rig) read(t *testing.T, uri string) (values []string) {
	t.Helper()
	r.ask(t, mcp.MethodResourcesRead, uri).At("contents").Elements(func(c mcp.Raw) bool {
		value, ok := c.Member("text")
		if !ok {
			value = c.At("blob")
		}
		values = append(values, c.At("uri").Text()+" "+c.At("mimeType").Text()+" "+string(value))
		return true
	})
	for i := range values {
		values[i] = strings.TrimPrefix(values[i], uri+" ")
	}
	return values
}

func TestLargeResults(t *testing.T) {
	long, doc := strings.Repeat("x", 2000), `{"rows":"`+strings.Repeat("y", 2000)+`"}`
	image := `{"type":"image","mimeType":"image/png","data":"` + strings.Repeat("A", 2000) + `","_meta":{"m":1}}`
	for _, tt := range []struct {
		name   string
		schema bool
		result string
		// content that is left, members beside it, and what can be read; "" for a result that
		// stays as it is.
		content []string
		others  string
		whole   []string
	}{
		{"a small one", false, `{"content":[` + text("a") + `]}`, nil, "", nil},
		{"a text", false, `{"_meta":{"a":1},"content":[` + text(long) + `],"isError":true,"other":1.0}`,
			[]string{text(long[:1024-2-len(text(""))])}, `{"_meta":{"a":1},"isError":true,"other":1.0}`, []string{`text/plain "` + long + `"`}},
		{"an image", false, `{"content":[` + image + "," + text("b") + `]}`, []string{text("b")}, `{}`,
			[]string{`image/png "` + strings.Repeat("A", 2000) + `"`, `text/plain "b"`}},
		{"embedded and linked resources", false,
			`{"content":[{"type":"resource","resource":{"uri":"up+a:b","mimeType":"text/csv","text":"` + long +
				`"}},{"type":"resource_link","uri":"up+a:c","name":"c"}]}`,
			[]string{`{"type":"resource_link","uri":"up+a:c","name":"c"}`}, `{}`,
			[]string{`up+a:b text/csv "` + long + `"`,
				`application/json "{\"type\":\"resource_link\",\"uri\":\"up+a:c\",\"name\":\"c\"}"`}},
		{"small structured content stays", false, `{"content":[` + text(long) + `],"structuredContent":{"a":1}}`,
			[]string{text(long[:1024-2-len(text(""))])}, `{"structuredContent":{"a":1}}`, []string{`text/plain "` + long + `"`}},
		{"large structured content goes", false, `{"content":[` + text("short") + `],"structuredContent":` + doc + `}`,
			[]string{text("short")}, `{}`, []string{`text/plain "short"`, "application/json " + string(mcp.String(doc))}},
		{"large structured content that a schema requires stays", true,
			`{"content":[` + text("short") + `],"structuredContent":` + doc + `}`, nil, "", nil},
		{"its text does not", true, `{"content":[` + text(doc) + `],"structuredContent":` + doc + `}`,
			[]string{string(mcp.Object("type", mcp.String("text"), "text",
				cutText(mcp.String(doc), 1024-len(text("")))))}, `{"structuredContent":` + doc + `}`,
			[]string{"text/plain " + string(mcp.String(doc))}},
		{"an error needs no structured content", true, `{"content":[],"isError":true,"structuredContent":` + doc + `}`,
			nil, `{"isError":true}`, []string{"application/json " + string(mcp.String(doc))}},
		{"_meta is not content", false, `{"content":[` + text("a") + `],"_meta":{"a":"` + long + `"}}`, nil, "", nil},
		{"content that is none", false, `{"content":"` + long + `"}`, nil, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(1024)
			r.schema, r.result = tt.schema, tt.result
			got := r.ask(t, mcp.MethodToolsCall, "up__do")
			if tt.whole == nil {
				if string(got) != tt.result {
					t.Errorf("%s", got)
				}
				return
			}
			content, uri := linked(t, got)
			if !reflect.DeepEqual(content, tt.content) {
				t.Errorf("content\n%q, want\n%q", content, tt.content)
			}
			if others := got.Without("content"); string(others) != tt.others {
				t.Errorf("members\n%s, want\n%s", others, tt.others)
			}
			if whole := r.read(t, uri); !reflect.DeepEqual(whole, tt.whole) {
				t.Errorf("whole\n%q, want\n%q", whole, tt.whole)
			}
		})
	}
}

func TestTasks(t *testing.T) {
	r := newRig(1024)
	result := `{"content":[` + text(strings.Repeat("line\n", 1000)) + `]}`
	r.result = `{"taskId":"t","status":"completed","result":` + result + `}`
	task := r.ask(t, mcp.MethodTasksGet, "t")
	_, uri := linked(t, task.At("result"))
	if string(task.Without("result")) != `{"taskId":"t","status":"completed"}` {
		t.Errorf("%s", task)
	}
	if _, again := linked(t, r.ask(t, mcp.MethodTasksGet, "t").At("result")); again != uri {
		t.Errorf("asked again: %s, before %s", again, uri)
	}
	if _, other := linked(t, r.ask(t, mcp.MethodTasksGet, "u").At("result")); other == uri {
		t.Error("two tasks share a result")
	}
	var told mcp.Raw
	_, err := r.h.Handle(t.Context(), &mcp.Call{Method: mcp.MethodListen, Caller: alice, Tasks: mcp.ExtensionTasks,
		Notify: func(e mcp.Event) { told = e.Params }})
	if err != nil {
		t.Fatal(err)
	}
	if _, again := linked(t, told.At("result")); again != uri {
		t.Errorf("told: %s, want %s", again, uri)
	}
	r.result = result
	if _, again := linked(t, r.ask(t, mcp.MethodTasksResult, "t")); again != uri {
		t.Errorf("tasks/result: %s, want %s", again, uri)
	}
	if whole := r.read(t, uri); len(whole) != 1 ||
		whole[0] != "text/plain "+string(mcp.String(strings.Repeat("line\n", 1000))) {
		t.Errorf("the whole: %q", whole)
	}
}

// TestUnread: what a reader must not get, and what never existed, is the same to them.
func TestUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(1024)
		r.result = `{"content":[` + text(strings.Repeat("x", 2000)) + `]}`
		_, uri := linked(t, r.ask(t, mcp.MethodToolsCall, "up__do"))
		wantUnknown := func(why string, caller mcp.Caller, uri string) {
			t.Helper()
			_, err := r.handle(t, caller, mcp.MethodResourcesRead, uri)
			if !reflect.DeepEqual(err, mcp.ErrUnknown(mcp.MethodResourcesRead, uri)) {
				t.Errorf("%s: %v", why, err)
			}
		}
		wantUnknown("somebody else", mcp.NewCaller(mcp.Caller{Issuer: "i", Subject: "bob"}), uri)
		wantUnknown("alice of another issuer", mcp.NewCaller(mcp.Caller{Issuer: "j", Subject: "alice"}), uri)
		wantUnknown("an unknown one", alice, mcp.ResultScheme+strings.Repeat("A", 26))
		wantUnknown("no id", alice, mcp.ResultScheme+"../x")
		wantUnknown("nothing", alice, mcp.ResultScheme)
		r.hidden = true
		wantUnknown("a tool that may not be seen any more", alice, uri)
		r.hidden = false
		time.Sleep(time.Minute - 1)
		r.read(t, uri)
		time.Sleep(time.Nanosecond)
		wantUnknown("an expired one", alice, uri)
	})
}

type brokenStore struct{}

func (brokenStore) Keep(context.Context, string, string, []byte, time.Duration) (bool, error) {
	return false, session.ErrUnavailable
}

func (brokenStore) Load(context.Context, string, string) ([]byte, error) {
	return nil, session.ErrUnavailable
}

// TestNotKept: a result that cannot be kept is sent whole.
func TestNotKept(t *testing.T) {
	for _, tt := range []struct {
		outcome string
		store   Store
	}{
		{outcomeNoRoom, largeresults.NewMemory(largeresults.Bounds{MaxUserBytes: 1000})},
		{outcomeUnavailable, brokenStore{}},
	} {
		r := newRig(1024)
		counted := prometheus.NewRegistry()
		r.Store, r.Metrics = tt.store, NewMetrics(counted)
		r.build()
		r.result = `{"content":[` + text(strings.Repeat("x", 2000)) + `]}`
		if got := r.ask(t, mcp.MethodToolsCall, "up__do"); string(got) != r.result {
			t.Errorf("%s: %s", tt.outcome, got)
		}
		families, err := counted.Gather()
		if err != nil || len(families) != 1 || !strings.Contains(families[0].String(), `value:"`+tt.outcome+`"`) ||
			!strings.Contains(r.log.String(), "could not be kept") {
			t.Errorf("%s: counted %v, %v, logged %q", tt.outcome, families, err, r.log.String())
		}
		r.Metrics.Forget("up")
		if families, err = counted.Gather(); err != nil || len(families) != 0 {
			t.Errorf("left: %v, %v", families, err)
		}
	}
	r := newRig(1024)
	r.Store = brokenStore{}
	r.build()
	if _, err := r.handle(t, alice, mcp.MethodResourcesRead, mcp.ResultScheme+strings.Repeat("A", 26)); !mcp.HasCode(err,
		mcp.CodeStoreUnavailable) {
		t.Errorf("reading: %v", err)
	}
}

// TestOff: without settings the stage is not there, and tools of the gateway itself have none.
func TestOff(t *testing.T) {
	r := newRig(0)
	if r.stage != mcp.Handler(r) {
		t.Error("the stage is there")
	}
	r = newRig(1024)
	r.result = `{"content":[` + text(strings.Repeat("x", 2000)) + `]}`
	if got := r.ask(t, mcp.MethodToolsCall, "own"); string(got) != r.result {
		t.Errorf("%s", got)
	}
}

// TestAnnounced: clients are told of resources, and find lists.
func TestAnnounced(t *testing.T) {
	r := newRig(1024)
	r.noLists = true
	if got := r.ask(t, mcp.MethodDiscover, ""); string(got) != `{"capabilities":{"tools":{},"resources":{}}}` {
		t.Errorf("%s", got)
	}
	for _, method := range []string{mcp.MethodResourcesList, mcp.MethodResourceTemplatesList} {
		reply, err := r.h.Handle(t.Context(), &mcp.Call{Method: method})
		if err != nil || reply.List == nil || len(reply.List.Items) > 0 {
			t.Errorf("%s: %v, %v", method, reply, err)
		}
		if _, err := r.h.Handle(t.Context(), &mcp.Call{Method: method, Params: mcp.Raw(`{"cursor":"x"}`)}); !mcp.HasCode(err,
			mcp.CodeInvalidParams) {
			t.Errorf("%s: a cursor that nobody gave: %v", method, err)
		}
	}
}
