package disclosure

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// below stands for the stages below: the tools of two upstreams, some restricted to some
// users, and a record of the calls that get through.
type below struct {
	mcp.Lens            // for what nothing asks
	mu       sync.Mutex // guards the fields below
	tools    []mcp.Item
	hidden   map[string]string // tools that only this user sees
	pageSize int
	noLists  bool // other than that of tools
	reached  []*mcp.Call
}

const exportTool = `{"name":"crm__export","title":"Export","description":"Exports what the CRM has of a month as a table. The argument query selects rows by the syntax at https://crm.example/q.\n\nArgs:\n  query: what\n  month: when","inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"Which rows"},"month":{"type":"string","x-mcp-header":"Month"}},"required":["month"],"examples":[{"month":"2026-10"}]},"outputSchema":{"type":"object","properties":{"rows":{"type":"array"}}},"annotations":{"readOnlyHint":true,"title":"CRM export"},"icons":[{"src":"https://crm.example/i.png"}],"execution":{"taskSupport":"optional"},"_meta":{"ui":{"resourceUri":"ui://crm/page"},"anthropic/alwaysLoad":true,"vendor":1}}`

const deleteTool = `{"name":"crm__delete_all","description":"Deletes everything.","inputSchema":{"type":"object","properties":{"sure":{"type":"boolean"}}},"annotations":{"destructiveHint":true}}`

const secretTool = `{"name":"crm__secret","description":"For one user alone.","inputSchema":{"type":"object","properties":{"code":{"type":"string"}}}}`

const weatherTool = `{"name":"weather__now","inputSchema":{"type":"object","properties":{"city":{"type":"string"}}}}`

func newBelow() *below {
	b := &below{hidden: map[string]string{"crm__secret": "root"}, pageSize: 100}
	b.offer("crm", "export", exportTool)
	b.offer("crm", "delete_all", deleteTool)
	b.offer("crm", "secret", secretTool)
	b.offer("weather", "now", weatherTool)
	return b
}

func (b *below) offer(upstream, native, raw string) {
	name, _ := mcp.Raw(raw).Member("name")
	b.tools = append(b.tools, mcp.Item{Name: name.Text(), Raw: mcp.Raw(raw),
		Target: mcp.Target{Kind: mcp.KindTools, Upstream: upstream, Name: native}})
}

// redefine changes the definition of a tool.
func (b *below) redefine(raw string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name, _ := mcp.Raw(raw).Member("name")
	for i := range b.tools {
		if b.tools[i].Name == name.Text() {
			b.tools[i].Raw = mcp.Raw(raw)
		}
	}
}

func (b *below) Target(_ context.Context, _, public string) (mcp.Target, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, item := range b.tools {
		if item.Name == public {
			return item.Target, true
		}
	}
	return mcp.Target{}, false
}

func (b *below) sees(c *mcp.Call, name string) bool {
	only, hidden := b.hidden[name]
	return !hidden || only == c.Caller.Subject
}

func (b *below) Handle(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch c.Method {
	case mcp.MethodToolsList:
		return b.list(c)
	case mcp.MethodResourcesList, mcp.MethodResourceTemplatesList:
		if b.noLists {
			return nil, mcp.ErrMethod(c.Method)
		}
		name := "crm+file:///a"
		if c.Method == mcp.MethodResourceTemplatesList {
			name = "crm+file:///{a}"
		}
		return &mcp.Reply{List: &mcp.List{Items: []mcp.Item{
			{Name: URI, Raw: mcp.Raw(`{"uri":"` + URI + `","name":"of an upstream"}`)},
			{Name: name, Raw: mcp.Object(mcp.ItemKey(c.Method), mcp.String(name), "name", mcp.Raw(`"a"`))},
		}}}, nil
	case mcp.MethodToolsCall:
		for _, item := range b.tools {
			if item.Name == c.Name && b.sees(c, c.Name) {
				b.reached = append(b.reached, c)
				return &mcp.Reply{Result: mcp.Raw(`{"content":[{"type":"text","text":"called"}]}`)}, nil
			}
		}
		return nil, mcp.ErrUnknown(c.Method, c.Name)
	case mcp.MethodDiscover:
		return &mcp.Reply{Result: mcp.Object("capabilities", mcp.Raw(`{"tools":{"listChanged":true}}`), "instructions",
			mcp.String(c.Preface+"\n\nBe kind."))}, nil
	}
	b.reached = append(b.reached, c)
	return nil, mcp.ErrUnknown(c.Method, c.Name)
}

// list returns pages as the catalog does: cursors stay valid until something changes.
func (b *below) list(c *mcp.Call) (*mcp.Reply, error) {
	var visible []mcp.Item
	for _, item := range b.tools {
		if b.sees(c, item.Name) {
			visible = append(visible, item)
		}
	}
	from := 0
	if cursor, ok := c.Params.Member("cursor"); ok {
		from = strings.Count(cursor.Text(), "x")
	}
	to := min(from+b.pageSize, len(visible))
	list := &mcp.List{Items: visible[from:to]}
	if to < len(visible) {
		next := strings.Repeat("x", to)
		list.Next = &next
	}
	return &mcp.Reply{List: list}, nil
}

// calls returns the names of the tools that were called.
func (b *below) calls() (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.reached {
		names = append(names, c.Method+" "+c.Name)
	}
	return names
}

// rig is a stage above a below.
type rig struct {
	stage  mcp.Handler // below which nothing puts lenses into calls
	below  *below
	grants *session.Grants
	h      mcp.Handler
}

func newRig(t testing.TB, cfg Config, change func(*Deps)) *rig {
	t.Helper()
	r := &rig{below: newBelow(), grants: session.NewGrants(nil)}
	deps := Deps{Grants: r.grants, Log: slog.New(slog.DiscardHandler),
		Upstreams: map[string]Upstream{"crm": {}, "weather": {}}}
	if change != nil {
		change(&deps)
	}
	d, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	r.stage = d.Middleware(r.below)
	r.h = mcp.Through(func(*mcp.Call) mcp.Lens { return r.below })(r.stage)
	return r
}

func progressive(t testing.TB) *rig { return newRig(t, Config{Mode: ModeProgressive}, nil) }

// who is the caller in a rig.
type who struct {
	user, session string
	ephemeral     bool
}

var (
	alice   = who{"alice", "a:1", false}
	modern  = who{"alice", "a:~1", true}
	another = who{"alice", "a:2", false}
	root    = who{"root", "r:1", false}
)

func (w who) call(method, name, params string) *mcp.Call {
	return &mcp.Call{
		ID: "1", Method: method, Name: name, Params: mcp.Raw(params), Caller: mcp.Caller{Issuer: "i", Subject: w.user},
		Session: w.session, Ephemeral: w.ephemeral, Notify: func(mcp.Event) {},
	}
}

func (r *rig) handle(t testing.TB, c *mcp.Call) *mcp.Reply {
	t.Helper()
	reply, err := r.h.Handle(t.Context(), c)
	if err != nil {
		t.Fatalf("%s %s: %v", c.Method, c.Name, err)
	}
	return reply
}

// tool calls a tool and returns the text of its result.
func (r *rig) tool(t testing.TB, w who, name, arguments string) string {
	t.Helper()
	reply := r.handle(t, w.call(mcp.MethodToolsCall, name, `{"name":"`+name+`","arguments":`+arguments+`}`))
	var result struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(reply.Result, &result); err != nil || len(result.Content) != 1 {
		t.Fatalf("%s: %v: %s", name, err, reply.Result)
	}
	return result.Content[0].Text
}

// fetch reads our resource and returns its text.
func (r *rig) fetch(t testing.TB, w who, query string) string {
	t.Helper()
	reply := r.handle(t, w.call(mcp.MethodResourcesRead, URI+query, `{"uri":"`+URI+query+`"}`))
	var result struct {
		Contents []struct{ URI, MimeType, Text string }
	}
	if err := json.Unmarshal(reply.Result, &result); err != nil || len(result.Contents) != 1 {
		t.Fatalf("%s: %v: %s", query, err, reply.Result)
	}
	if one := result.Contents[0]; one.URI != URI+query || one.MimeType != "application/json" {
		t.Errorf("%s: the content is %s of %s", query, one.MimeType, one.URI)
	}
	return result.Contents[0].Text
}

// list returns the items of a list.
func (r *rig) list(t testing.TB, w who, method string) (items []mcp.Item) {
	t.Helper()
	params := `{}`
	for {
		list := r.handle(t, w.call(method, "", params)).List
		items = append(items, list.Items...)
		if list.Next == nil {
			return items
		}
		params = `{"cursor":"` + *list.Next + `"}`
	}
}

// refuses reports whether a text says that a description is required first.
func refuses(text string) bool { return strings.Contains(text, `"TOOL_DESCRIPTION_REQUIRED"`) }

// broken is a store that is down.
type broken struct{}

func (broken) Grant(context.Context, string, map[string]string, time.Duration) error {
	return session.ErrUnavailable
}

func (broken) Granted(context.Context, string, string, string) (bool, error) {
	return false, session.ErrUnavailable
}
