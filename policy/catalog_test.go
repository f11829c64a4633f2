package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// upstream is a server with two of everything: what is open and what is secret.
type upstream struct {
	name string

	mu     sync.Mutex
	called []string
}

func (u *upstream) Name() string { return u.name }

func (u *upstream) Handle(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	list := func(key string, names ...string) (*mcp.Reply, error) {
		l := &mcp.List{}
		for _, name := range names {
			l.Items = append(l.Items, mcp.Item{Name: name,
				Raw: mcp.Object(key, mcp.String(name), "inputSchema", mcp.Raw(`{"type":"object"}`))})
		}
		return &mcp.Reply{List: l}, nil
	}
	switch c.Method {
	case mcp.MethodDiscover:
		return &mcp.Reply{Result: mcp.Raw(`{"capabilities":{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{}},"instructions":"About ` + u.name + `."}`)}, nil
	case mcp.MethodToolsList:
		return list("name", "open", "secret")
	case mcp.MethodPromptsList:
		return list("name", "open", "secret")
	case mcp.MethodResourcesList:
		return list("uri", "docs://open/1", "docs://secret/1")
	case mcp.MethodResourceTemplatesList:
		return list("uriTemplate", "docs://open/{id}", "docs://secret/{id}")
	case mcp.MethodListen:
		filter, _ := c.Params.Member("notifications")
		if _, wanted := filter.Member("resourceSubscriptions"); wanted {
			u.note(c.Method + " " + string(filter))
		}
		c.Notify(mcp.Event{Method: mcp.NoteAcknowledged, Params: mcp.Object("notifications", filter)})
		<-ctx.Done()
		return nil, ctx.Err()
	}
	u.note(c.Method + " " + c.Name)
	return &mcp.Reply{Result: mcp.Raw(`{"ok":true,"completion":{"values":[]}}`)}, nil
}

func (u *upstream) note(what string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.called = append(u.called, what)
}

func (u *upstream) calls() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.called)
}

// startCatalog runs a guard over a catalog of the upstreams until the test ends.
func startCatalog(t *testing.T, cfg policy.Config, upstreams ...*upstream) mcp.Handler {
	t.Helper()
	key, err := seal.NewRandom("test")
	if err != nil {
		t.Fatal(err)
	}
	var sources []catalog.Source
	for _, u := range upstreams {
		sources = append(sources, catalog.Source{Upstream: u})
	}
	c, err := catalog.New(catalog.Config{}, sources,
		catalog.Deps{Log: slog.New(slog.DiscardHandler), Seal: key, Tasks: key})
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := policy.NewGuard(p, policy.GuardDeps{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	c.WaitFirst(ctx)
	return mcp.Chain(c, mcp.Through(c.For), guard.Middleware)
}

func newCall(method, name, params string) *mcp.Call {
	return &mcp.Call{ID: "1", Method: method, Name: name, Params: mcp.Raw(params),
		Caller: mcp.NewCaller(mcp.Caller{Subject: "alice"}), Notify: func(mcp.Event) {}}
}

// TestGuardOverCatalog: with the real catalog, what is denied and what does not exist
// answer with the same bytes, and neither gets to an upstream.
func TestGuardOverCatalog(t *testing.T) {
	crm, hr := &upstream{name: "crm"}, &upstream{name: "hr"}
	h := startCatalog(t, policy.Config{Rules: []policy.Rule{
		{Name: "open", Allow: []string{"tools:crm/open", "prompts:crm/open", "resources:crm/docs://open/*"}},
	}}, crm, hr)
	tests := []struct{ name, method, denied, missing, params string }{
		{"a tool", mcp.MethodToolsCall, "crm__secret", "crm__sesame", `{"name":%q}`},
		{"a tool of an upstream that is not visible", mcp.MethodToolsCall, "hr__secret", "no__secret", `{"name":%q}`},
		{"a bare name", mcp.MethodToolsCall, "secret", "sesame", `{"name":%q}`},
		{"a name with an escape", mcp.MethodToolsCall, "crm__%73ecret", "crm__%73esame", `{"name":%q}`},
		{"a name with NUL", mcp.MethodToolsCall, "crm__open\x00", "crm__sesa\x00", `{"name":%q}`},
		{"a name with a dot", mcp.MethodToolsCall, "crm__open.", "crm__sesa.", `{"name":%q}`},
		{"a name in another case", mcp.MethodToolsCall, "CRM__open", "CRM__sesa", `{"name":%q}`},
		{"a prompt", mcp.MethodPromptsGet, "crm__secret", "crm__sesame", `{"name":%q}`},
		{"a resource", mcp.MethodResourcesRead, "crm+docs://secret/1", "crm+docs://sesame/1", `{"uri":%q}`},
		{"a resource by its bare URI", mcp.MethodResourcesRead, "docs://secret/1", "docs://sesame/1", `{"uri":%q}`},
		{"a resource of another upstream", mcp.MethodResourcesRead, "hr+docs://open/1", "no+docs://open/1", `{"uri":%q}`},
		{"a resource of an upstream within another", mcp.MethodResourcesRead, "crm+hr+docs://open/1",
			"crm+no+docs://open/1", `{"uri":%q}`},
		{"a resource with a dot segment", mcp.MethodResourcesRead, "crm+docs://open/../secret/1",
			"crm+docs://open/../sesame/1", `{"uri":%q}`},
		{"a resource with an encoded one", mcp.MethodResourcesRead, "crm+docs://open/%2e%2e%2fsecret/1",
			"crm+docs://open/%2e%2e%2fsesame/1", `{"uri":%q}`},
		{"a resource of a template", mcp.MethodResourcesRead, "crm+docs://secret/99", "crm+docs://sesame/99", `{"uri":%q}`},
		{"a template for a resource", mcp.MethodResourcesRead, "crm+docs://open/{id}", "crm+docs://sesa/{id}", `{"uri":%q}`},
		{"completion for a prompt", mcp.MethodComplete, "crm__secret", "crm__sesame",
			`{"ref":{"type":"ref/prompt","name":%q}}`},
		{"completion for a template", mcp.MethodComplete, "crm+docs://secret/{id}", "crm+docs://sesame/{id}",
			`{"ref":{"type":"ref/resource","uri":%q}}`},
		{"completion for a resource", mcp.MethodComplete, "hr+docs://open/1", "no+docs://open/1",
			`{"ref":{"type":"ref/resource","uri":%q}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var said [2]string
			for i, name := range []string{tt.denied, tt.missing} {
				_, err := h.Handle(t.Context(), newCall(tt.method, name, fmt.Sprintf(tt.params, name)))
				e, ok := errors.AsType[*mcp.Error](err)
				if !ok {
					t.Fatalf("%q: got %v", name, err)
				}
				text, err := json.Marshal(e)
				if err != nil {
					t.Fatal(err)
				}
				quoted, err := json.Marshal(name)
				if err != nil {
					t.Fatal(err)
				}
				said[i] = strings.ReplaceAll(string(text), strings.Trim(string(quoted), `"`), "NAME")
			}
			if said[0] != said[1] {
				t.Errorf("denied:  %s\nmissing: %s", said[0], said[1])
			}
		})
	}
	for _, u := range []*upstream{crm, hr} {
		if got := u.calls(); got != nil {
			t.Errorf("%s was called: %q", u.name, got)
		}
	}
}

func TestGuardOverCatalogLetsThrough(t *testing.T) {
	crm, hr := &upstream{name: "crm"}, &upstream{name: "hr"}
	h := startCatalog(t, policy.Config{Rules: []policy.Rule{
		{Name: "open", Allow: []string{"tools:crm/open", "prompts:crm/open", "resources:crm/docs://open/*"}},
	}}, crm, hr)
	for _, c := range []*mcp.Call{
		newCall(mcp.MethodToolsCall, "crm__open", `{"name":"crm__open"}`),
		newCall(mcp.MethodPromptsGet, "crm__open", `{"name":"crm__open"}`),
		newCall(mcp.MethodResourcesRead, "crm+docs://open/1", `{"uri":"crm+docs://open/1"}`),
		newCall(mcp.MethodResourcesRead, "crm+docs://open/77", `{"uri":"crm+docs://open/77"}`),
		newCall(mcp.MethodComplete, "crm+docs://open/{id}", `{"ref":{"type":"ref/resource","uri":"crm+docs://open/{id}"}}`),
		newCall(mcp.MethodComplete, "crm__open", `{"ref":{"type":"ref/prompt","name":"crm__open"}}`),
	} {
		if _, err := h.Handle(t.Context(), c); err != nil {
			t.Errorf("%s %s: %v", c.Method, c.Name, err)
		}
	}
	want := []string{"tools/call open", "prompts/get open", "resources/read docs://open/1",
		"resources/read docs://open/77", "completion/complete docs://open/{id}", "completion/complete open"}
	if got := crm.calls(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	for method, want := range map[string]string{
		mcp.MethodToolsList: "crm__open", mcp.MethodPromptsList: "crm__open", mcp.MethodResourcesList: "crm+docs://open/1", mcp.MethodResourceTemplatesList: "crm+docs://open/{id}"} {
		reply, err := h.Handle(t.Context(), newCall(method, "", ""))
		if err != nil || len(reply.List.Items) != 1 || reply.List.Items[0].Name != want || !reply.List.Private {
			t.Errorf("%s: got %+v, %v", method, reply, err)
		}
	}
	reply, err := h.Handle(t.Context(), newCall(mcp.MethodDiscover, "", ""))
	if err != nil || !strings.Contains(string(reply.Result), "About crm.") ||
		strings.Contains(string(reply.Result), "hr") {
		t.Errorf("got %s, %v", reply.Result, err)
	}
}

// TestListenOverCatalog: what is acknowledged is what may be read.
func TestListenOverCatalog(t *testing.T) {
	crm, hr := &upstream{name: "crm"}, &upstream{name: "hr"}
	h := startCatalog(t, policy.Config{Rules: []policy.Rule{{Name: "open",
		Allow: []string{"resources:crm/docs://open/*"}}}}, crm, hr)
	ctx, cancel := context.WithCancel(t.Context())
	c := newCall(mcp.MethodListen, "",
		`{"notifications":{"resourceSubscriptions":["crm+docs://secret/1","crm+docs://open/1","hr+docs://open/1","crm+docs://none/1"]}}`)
	var acknowledged mcp.Raw
	c.Notify = func(e mcp.Event) {
		if e.Method == mcp.NoteAcknowledged {
			acknowledged = e.Params
			cancel()
		}
	}
	if _, err := h.Handle(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if want := `{"notifications":{"resourceSubscriptions":["crm+docs://open/1"]}}`; string(acknowledged) != want {
		t.Errorf("got %s, want %s", acknowledged, want)
	}
	if got := crm.calls(); len(got) != 1 || !strings.Contains(got[0], `["docs://open/1"]`) || hr.calls() != nil {
		t.Errorf("subscribed to %q, %q", got, hr.calls())
	}
}
