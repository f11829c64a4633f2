package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// shelves is a catalog with some things in it. It is asked by public names, such as
// u__name, and answers only calls that carry the target that it has itself.
type shelves struct {
	targets map[string]mcp.Target // by kind and public name
	schemas map[string]mcp.Raw    // by public name
	answer  func(c *mcp.Call) (*mcp.Reply, error)
	calls   []*mcp.Call
}

func newShelves(targets ...mcp.Target) *shelves {
	s := &shelves{targets: make(map[string]mcp.Target)}
	for _, t := range targets {
		s.targets[t.Kind+" "+public(t)] = t
	}
	return s
}

func public(t mcp.Target) string {
	if t.Kind == mcp.KindResources {
		return t.Upstream + "+" + t.Name
	}
	return t.Upstream + "__" + t.Name
}

// seeing puts a lens into calls.
func seeing(l mcp.Lens) mcp.Middleware { return mcp.Through(func(*mcp.Call) mcp.Lens { return l }) }

func (s *shelves) Now() mcp.Lens { return s }

func (*shelves) Structured(mcp.Target) bool { return true }

func (s *shelves) Target(_ context.Context, kind, public string) (mcp.Target, bool) {
	t, ok := s.targets[kind+" "+public]
	return t, ok
}

func (s *shelves) Schema(_ context.Context, public string) *mcp.Schema {
	if schema, ok := s.schemas[public]; ok {
		return &mcp.Schema{Text: schema}
	}
	return &mcp.Schema{Text: mcp.Raw(`{"type":"object"}`)}
}

func (s *shelves) Handle(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
	s.calls = append(s.calls, c)
	if kind := c.Kind(); kind != "" {
		if t, ok := s.targets[kind+" "+c.Name]; !ok || c.Target != t {
			return nil, mcp.ErrUnknown(c.Method, c.Name)
		}
	}
	if s.answer != nil {
		return s.answer(c)
	}
	return &mcp.Reply{Result: mcp.Raw(`{"ok":true}`)}, nil
}

// reached are the calls that could have gone on to an upstream.
func (s *shelves) reached() (names []string) {
	for _, c := range s.calls {
		if c.Target.Upstream != "" {
			names = append(names, c.Target.String())
		}
	}
	return names
}

func guardForTest(t testing.TB, cfg Config, s *shelves) mcp.Handler {
	t.Helper()
	g, err := NewGuard(newForTest(t, cfg), GuardDeps{})
	if err != nil {
		t.Fatal(err)
	}
	return mcp.Chain(s, seeing(s), g.Middleware)
}

func callOf(method, name, params string, caller mcp.Caller) *mcp.Call {
	return &mcp.Call{ID: "1", Method: method, Name: name, Params: mcp.Raw(params), Caller: caller,
		Notify: func(mcp.Event) {}}
}

func TestNewGuardNeedsItsParts(t *testing.T) {
	if _, err := NewGuard(nil, GuardDeps{}); err == nil {
		t.Error("made without a policy")
	}
}

// TestGuardDeniedIsMissing: on every path, what is denied answers as what does not exist,
// and nothing of it gets further.
func TestGuardDeniedIsMissing(t *testing.T) {
	template := resource("u", "secret://{id}")
	template.Template = true
	s := newShelves(tool("u", "secret"), tool("u", "open"),
		mcp.Target{Kind: mcp.KindPrompts, Upstream: "u", Name: "secret"}, resource("u", "secret://1"), template)
	h := guardForTest(t, Config{Rules: []Rule{{Name: "a", Allow: []string{"tools:u/open"}}}}, s)
	tests := []struct{ name, method, known, unknown, params string }{
		{"a tool", mcp.MethodToolsCall, "u__secret", "u__nothing", `{"name":%q,"arguments":{}}`},
		{"a prompt", mcp.MethodPromptsGet, "u__secret", "u__nothing", `{"name":%q}`},
		{"a resource", mcp.MethodResourcesRead, "u+secret://1", "u+nothing://1", `{"uri":%q}`},
		{"completion for a prompt", mcp.MethodComplete, "u__secret", "u__nothing",
			`{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"a","value":"b"}}`},
		{"completion for a resource", mcp.MethodComplete, "u+secret://1", "u+nothing://1",
			`{"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"a","value":"b"}}`},
		{"completion for a template", mcp.MethodComplete, "u+secret://{id}", "u+nothing://{id}",
			`{"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"id","value":"b"}}`},
		{"a tool by its bare name", mcp.MethodToolsCall, "secret", "nothing", `{"name":%q}`},
		{"with an escape", mcp.MethodToolsCall, "u__secre%74", "u__nothin%67", `{"name":%q}`},
		{"with a space", mcp.MethodToolsCall, "u__secret ", "u__nothing ", `{"name":%q}`},
		{"with NUL", mcp.MethodToolsCall, "u__secret\x00", "u__nothing\x00", `{"name":%q}`},
		{"with a dot", mcp.MethodToolsCall, "u__secret.", "u__nothing.", `{"name":%q}`},
		{"a resource under another prefix", mcp.MethodResourcesRead, "v+secret://1", "v+nothing://1", `{"uri":%q}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			say := func(name string) string {
				_, err := h.Handle(t.Context(), callOf(tt.method, name, fmt.Sprintf(tt.params, name), user("alice")))
				e, ok := errors.AsType[*mcp.Error](err)
				if !ok {
					t.Fatalf("%s: got %v", name, err)
				}
				text, err := json.Marshal(e)
				if err != nil {
					t.Fatal(err)
				}
				return strings.ReplaceAll(string(text), "nothin", "secre")
			}
			known, unknown := say(tt.known), strings.NewReplacer("secreg", "secret", "secre%67",
				"secre%74").Replace(say(tt.unknown))
			if known != unknown {
				t.Errorf("denied:  %s\nmissing: %s", known, unknown)
			}
		})
	}
	if got := s.reached(); got != nil {
		t.Errorf("reached: %q", got)
	}
}

// TestGuardLetsThrough: what is allowed goes on with its target, and nothing that the
// call said of targets before counts.
func TestGuardLetsThrough(t *testing.T) {
	s := newShelves(tool("u", "open"), tool("u", "secret"), resource("u", "docs://1"))
	h := guardForTest(t, Config{Rules: []Rule{{Name: "a", Allow: []string{"tools:u/open", "resources:u/*"}}}}, s)
	c := callOf(mcp.MethodToolsCall, "u__open", `{"name":"u__open","arguments":{"a":1}}`, user("alice"))
	c.Answers, c.Target = map[string]mcp.Raw{"x": mcp.Raw(`{}`)}, tool("u", "secret")
	reply, err := h.Handle(t.Context(), c)
	if err != nil || string(reply.Result) != `{"ok":true}` {
		t.Fatalf("got %v, %v", reply, err)
	}
	if got := s.calls[0]; got.Target != tool("u", "open") || got.Answers == nil || !bytes.Equal(got.Params, c.Params) {
		t.Errorf("got %+v", got)
	}
	if c.Target != tool("u", "secret") {
		t.Error("the call itself was changed")
	}
	if _, err := h.Handle(t.Context(), callOf(mcp.MethodResourcesRead, "u+docs://1", `{"uri":"u+docs://1"}`,
		user("alice"))); err != nil {
		t.Error(err)
	}
	if _, err := h.Handle(t.Context(), callOf(mcp.MethodComplete, "u+docs://1",
		`{"ref":{"type":"ref/resource","uri":"u+docs://1"}}`, user("alice"))); err != nil {
		t.Error(err)
	}
	_, err = h.Handle(t.Context(), callOf(mcp.MethodComplete, "u+docs://1",
		`{"ref":{"type":"ref/tool","name":"u__secret"}}`, user("alice")))
	if !mcp.HasCode(err, mcp.CodeInvalidParams) {
		t.Errorf("another kind of reference: got %v", err)
	}
}

// TestGuardReadsNoTemplates: a template is completed, never read, whatever is allowed.
func TestGuardReadsNoTemplates(t *testing.T) {
	template := resource("u", "docs://{id}")
	template.Template = true
	s := newShelves(template)
	for _, cfg := range []Config{{Default: DefaultAllow}, {Rules: []Rule{{Name: "a", Allow: []string{"*:*"}}}}} {
		_, err := guardForTest(t, cfg, s).Handle(t.Context(),
			callOf(mcp.MethodResourcesRead, "u+docs://{id}", `{"uri":"u+docs://{id}"}`, user("alice")))
		if !mcp.HasCode(err, mcp.CodeInvalidParams) || s.calls != nil {
			t.Errorf("got %v, %d calls", err, len(s.calls))
		}
	}
}

// late is a catalog in which a name comes up between two looks.
type late struct {
	*shelves
	looks int
}

func (l *late) Target(ctx context.Context, kind, public string) (mcp.Target, bool) {
	if l.looks++; l.looks == 1 {
		return mcp.Target{}, false
	}
	return l.shelves.Target(ctx, kind, public)
}

// TestGuardDecidesOnce: what was not there to be decided on does not run because it has
// come up since.
func TestGuardDecidesOnce(t *testing.T) {
	s := &late{shelves: newShelves(tool("u", "x"))}
	g, err := NewGuard(newForTest(t, Config{Rules: []Rule{{Name: "d", Deny: []string{"tools:*"}}}}), GuardDeps{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = mcp.Chain(s, seeing(s), g.Middleware).Handle(t.Context(),
		callOf(mcp.MethodToolsCall, "u__x", `{}`, user("alice")))
	if !mcp.HasCode(err, mcp.CodeInvalidParams) || s.reached() != nil {
		t.Errorf("got %v, reached %q", err, s.reached())
	}
}

// TestGuardTakesNobodysWord: what a call says of targets and visible upstreams before the
// guard does not get past it.
func TestGuardTakesNobodysWord(t *testing.T) {
	s := newShelves(tool("u", "x"))
	h := guardForTest(t, Config{Default: DefaultAllow}, s)
	for _, method := range []string{mcp.MethodDiscover, mcp.MethodListen, mcp.MethodToolsList, mcp.MethodToolsCall} {
		s.calls = nil
		c := callOf(method, "u__x", `{"name":"u__x","notifications":{}}`, user("alice"))
		c.Target, c.Visible, c.VisibleSkills = tool("other", "y"), func(string) bool { return true },
			func(string) bool { return true }
		if _, err := h.Handle(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if got := s.calls[0]; got.Visible != nil || got.VisibleSkills != nil || got.Target.Upstream == "other" {
			t.Errorf("%s: got %+v", method, got)
		}
	}
}

// TestGuardRefusesUnknownMethods: a method that is not known here could name something.
func TestGuardRefusesUnknownMethods(t *testing.T) {
	s := newShelves(tool("u", "open"))
	h := guardForTest(t, Config{Default: DefaultAllow}, s)
	for _, method := range []string{"tools/describe", "resources/subscribe", "resources/unsubscribe", "tasks/list",
		"skills/activate", "", "Tools/call", mcp.MethodPing, mcp.MethodInitialize, mcp.MethodSetLevel} {
		_, err := h.Handle(t.Context(), callOf(method, "u__open", `{"name":"u__open"}`, user("alice")))
		if !mcp.HasCode(err, mcp.CodeMethodNotFound) {
			t.Errorf("%q: got %v", method, err)
		}
	}
	if s.calls != nil {
		t.Errorf("%d calls got through", len(s.calls))
	}
}

// TestArguments: on the way to an upstream.
func TestArguments(t *testing.T) {
	s := newShelves(tool("u", "create"))
	h := guardForTest(t, Config{Rules: []Rule{{Name: "a", Allow: []string{"tools:u/create"},
		When: `args.repo == "acme/x"`}}}, s)
	tests := []struct {
		params string
		want   bool
	}{
		{`{"name":"u__create","arguments":{"repo":"acme/x"}}`, true},
		{`{"name":"u__create","arguments":{"repo":"evil/x"}}`, false},
		{`{"name":"u__create","arguments":{"repo":"acme/x","repo":"evil/x"}}`, false},
		{`{"name":"u__create","arguments":{"repo":"acme/x","Repo":"evil/x"}}`, false},
		{`{"name":"u__create","arguments":{"repo":"acme/x"},"arguments":{"repo":"evil/x"}}`, false},
		{`{"name":"u__create","arguments":{"repo":"acme/x"},"Arguments":{"repo":"evil/x"}}`, false},
		{`{"name":"u__create","arguments":{"repo":"acme/x"},"\u0061rguments":{"repo":"evil/x"}}`, false},
		{`{"name":"u__create","Arguments":{"repo":"acme/x"}}`, false},
		{`{"name":"u__create","arguments":{"x":{"repo":"acme/x"}}}`, false},
		{`{"name":"u__create","arguments":{"repo":["acme/x"]}}`, false},
		{`{"name":"u__create","arguments":"repo"}`, false},
		{`{"name":"u__create","arguments":null}`, false},
		{`{"name":"u__create"}`, false},
	}
	for _, tt := range tests {
		s.calls = nil
		_, err := h.Handle(t.Context(), callOf(mcp.MethodToolsCall, "u__create", tt.params, user("alice")))
		if (err == nil) != tt.want || (s.reached() != nil) != tt.want {
			t.Errorf("%s: got %v, reached %q", tt.params, err, s.reached())
		}
	}
}

// TestGuardCancelled: a call that its client cancelled is not judged by conditions that
// were cut off.
func TestGuardCancelled(t *testing.T) {
	s := newShelves(tool("u", "x"))
	h := guardForTest(t, Config{Rules: []Rule{{Name: "a", Allow: []string{"tools:*"},
		When: `args.l.all(a, args.l.all(b, a+b >= 0))`}}}, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	params := `{"arguments":{"l":[` + strings.Repeat("1,", 150) + `1]}}`
	if _, err := h.Handle(ctx, callOf(mcp.MethodToolsCall, "u__x", params, user("alice"))); !errors.Is(err,
		context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestGuardDiscover(t *testing.T) {
	s := newShelves()
	cfg := Config{Rules: []Rule{
		{Name: "a", Allow: []string{"tools:crm/get_*", "resources:team-*/x://y"}},
		{Name: "b", Who: Who{Groups: []string{"sre"}}, Allow: []string{"tools:prod/*"}, Ask: []string{"tools:prod/*"}},
		{Name: "c", Allow: []string{"tools:hr/*"}, When: `caller.claims.hr == true`},
		{Name: "d", Allow: []string{"*:closed/*"}},
		{Name: "e", Deny: []string{"*:closed/*"}},
		{Name: "f", Allow: []string{"tools:half/*", "prompts:half/*"}},
		{Name: "g", Deny: []string{"tools:half/*"}},
		{Name: "h", Allow: []string{"tools:maybe/*"}},
		{Name: "i", Deny: []string{"*:maybe/*"}, When: `args.x == 1`},
	}}
	h := guardForTest(t, cfg, s)
	seen := func(h mcp.Handler, c mcp.Caller) (names []string) {
		for _, method := range []string{mcp.MethodDiscover, mcp.MethodListen} {
			s.calls = nil
			if _, err := h.Handle(t.Context(), callOf(method, "", `{"notifications":{}}`, c)); err != nil {
				t.Fatal(err)
			}
			names = nil
			for _, upstream := range []string{"crm", "team-a", "prod", "hr", "closed", "half", "maybe", "other"} {
				if s.calls[0].Visible == nil || s.calls[0].Visible(upstream) {
					names = append(names, upstream)
				}
			}
		}
		return names
	}
	hr := user("bob", "sre")
	hr.Claims = mcp.Raw(`{"hr":true}`)
	for _, tt := range []struct {
		caller mcp.Caller
		want   string
	}{{user("alice"), "crm team-a half maybe"}, {user("alice", "sre"), "crm team-a prod half maybe"},
		{hr, "crm team-a prod hr half maybe"}} {
		if got := strings.Join(seen(h, tt.caller), " "); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.caller.Groups, got, tt.want)
		}
	}
	if got := seen(guardForTest(t, Config{Default: DefaultAllow, Rules: []Rule{{Name: "d", Deny: []string{"*:hr/*"}}}}, s),
		user("alice")); slices.Contains(got, "hr") || len(got) != 7 {
		t.Errorf("default allow: got %q", got)
	}
	if got := seen(guardForTest(t, Config{Default: DefaultAllow}, s), user("alice")); len(got) != 8 ||
		s.calls[0].Visible != nil {
		t.Errorf("no rules: got %q", got)
	}
}

// TestGuardDiscoverSkills: that a caller may know of an upstream does not mean that skills there may
// be the caller's.
func TestGuardDiscoverSkills(t *testing.T) {
	s := newShelves()
	p, err := New(Config{Rules: []Rule{
		{Name: "a", Allow: []string{"tools:crm/*", "resources:crm/*", "skills:pb/x", "skills:old/*", "skills:hr/*"}},
		{Name: "b", Deny: []string{"skills:old/*"}},
		{Name: "c", Who: Who{Groups: []string{"sre"}}, Ask: []string{"skills:pb/*"}, Allow: []string{"*:crm/*"}},
	}}, View{Name: "v", Show: []string{"skills:pb/*"}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGuard(p, GuardDeps{})
	if err != nil {
		t.Fatal(err)
	}
	h, at := mcp.Chain(s, seeing(s), g.Middleware), user("alice")
	at.View = "v"
	for _, tt := range []struct {
		caller mcp.Caller
		want   string
	}{{user("alice"), "pb hr"}, {user("alice", "sre"), "crm pb hr"}, {at, "pb"}} {
		for _, method := range []string{mcp.MethodDiscover, mcp.MethodListen} {
			s.calls = nil
			if _, err := h.Handle(t.Context(), callOf(method, "", `{"notifications":{}}`, tt.caller)); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, upstream := range []string{"crm", "pb", "old", "hr", "other"} {
				for range 2 { // the second time it is remembered, beside what is known of the upstream
					if s.calls[0].Visible(upstream); s.calls[0].VisibleSkills(upstream) && !slices.Contains(names, upstream) {
						names = append(names, upstream)
					}
				}
			}
			if got := strings.Join(names, " "); got != tt.want {
				t.Errorf("%s by %+v: skills of %q, want %q", method, tt.caller, got, tt.want)
			}
		}
	}
}

// TestListen: a caller hears of what they may read, and the acknowledgement has the
// rest as missing.
func TestListen(t *testing.T) {
	s := newShelves(resource("u", "open://1"), resource("u", "secret://1"), resource("u", "asked://1"),
		resource("u", "open://1/part"))
	s.answer = func(c *mcp.Call) (*mcp.Reply, error) {
		for _, uri := range []string{"u+open://1", "u+open://1/part", "u+secret://1", "u+nothing://1"} {
			c.Notify(mcp.Event{Method: mcp.NoteResourceUpdated, Params: mcp.Object("uri", mcp.String(uri))})
		}
		c.Notify(mcp.Event{Method: mcp.NoteResourceUpdated, Params: mcp.Raw(`{}`)})
		c.Notify(mcp.Event{Method: mcp.NoteToolsListChanged, Params: mcp.Raw(`{}`)})
		return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
	}
	h := guardForTest(t, Config{Rules: []Rule{{Name: "a", Allow: []string{"resources:u/open://*"}},
		{Name: "q", Allow: []string{"resources:u/asked://*"}, Ask: []string{"resources:u/asked://*"}}}}, s)
	c := callOf(mcp.MethodListen, "",
		`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["u+secret://1","u+open://1","u+asked://1","u+nothing://1"]}}`, user("alice"))
	var events []string
	c.Notify = func(e mcp.Event) { events = append(events, e.Method+string(e.Params)) }
	if _, err := h.Handle(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got, want := string(s.calls[0].Params), `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["u+open://1"]}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	want := []string{
		mcp.NoteResourceUpdated + `{"uri":"u+open://1"}`, mcp.NoteResourceUpdated + `{"uri":"u+open://1/part"}`,
		mcp.NoteToolsListChanged + `{}`,
	}
	if !slices.Equal(events, want) {
		t.Errorf("got %q", events)
	}
	for _, params := range []string{`{"notifications":{"resourceSubscriptions":7}}`, `{"notifications":7}`, `{}`, ``} {
		if _, err := h.Handle(t.Context(), callOf(mcp.MethodListen, "", params, user("alice"))); !mcp.HasCode(err,
			mcp.CodeInvalidParams) {
			t.Errorf("%s: %v", params, err)
		}
	}
}

// TestHolds: what becomes of arguments must not get around a rule.
func TestHolds(t *testing.T) {
	target := mcp.Target{Kind: mcp.KindTools, Upstream: "u", Name: "do"}
	s := newShelves(target)
	s.schemas = map[string]mcp.Raw{"u__do": mcp.Raw(`{"type":"object","properties":{"to":{"type":"string"}}}`)}
	g, err := NewGuard(newForTest(t, Config{Default: DefaultAllow, Rules: []Rule{
		{Name: "never", Deny: []string{"tools:u/do"}, When: `args.to == "never"`},
		{Name: "boss", Ask: []string{"tools:u/do"}, When: `args.to.startsWith("boss")`},
		{Name: "team", Ask: []string{"tools:u/do"}, When: `args.to == "team"`},
		{Name: "team, too", Ask: []string{"tools:u/do"}, When: `args.to == "boss and team"`},
		{Name: "four eyes", Ask: []string{"tools:u/do"}, When: `args.to.endsWith("2")`, Approvers: changers},
		{Name: "the user, too", Ask: []string{"tools:u/do"}, When: `args.to == "too2"`},
		{Name: "others, too", Ask: []string{"tools:u/do"}, When: `args.to == "more2"`, Approvers: changers},
	}}), GuardDeps{})
	if err != nil {
		t.Fatal(err)
	}
	call := func(to string) *mcp.Call {
		c := callOf(mcp.MethodToolsCall, "u__do", fmt.Sprintf(`{"arguments":{"to":%q}}`, to), mcp.Caller{})
		c.Target, c.Lens = target, s
		return c
	}
	for _, tt := range []struct {
		before, after string
		holds         bool
	}{
		{"me", "you", true}, {"boss", "me", true}, {"boss", "boss1", true}, {"boss and team", "boss", true},
		{"me", "never", false}, {"boss", "never", false}, {"me", "boss", false}, {"boss", "boss and team", false},
		{"team", "boss", false},
		{"boss2", "boss", true}, {"you2", "me2", true}, {"too2", "you2", true}, {"more2", "you2", true},
		{"you2", "you", true},
		{"boss", "boss2", false}, {"you", "you2", false}, {"you2", "too2", false}, {"you2", "more2", false},
		{"you2", "team", false},
	} {
		err := g.Holds(t.Context(), call(tt.before), call(tt.after))
		if (err == nil) != tt.holds || err != nil && mcp.FailureOf(err) != failure.ArgumentsDenied {
			t.Errorf("%s becomes %s: %v", tt.before, tt.after, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Holds(gone, call("me"), call("you")); err == nil {
		t.Error("it holds though nobody could judge it")
	}
}
