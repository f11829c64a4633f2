package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

func TestParamsFor(t *testing.T) {
	tests := []struct{ name, method, in, key, want string }{
		{"another name", MethodToolsCall, `{"name":"crm__a","arguments":{"name":"x"}}`, "a",
			`{"name":"a","arguments":{"name":"x"}}`},
		{"the same name", MethodToolsCall, `{ "name":"a"}`, "a", `{ "name":"a"}`},
		{"the same name, escaped", MethodToolsCall, `{"name":"\u0061"}`, "a", `{"name":"\u0061"}`},
		{"no name", MethodPromptsGet, `{}`, "p", `{"name":"p"}`},
		{"no params", MethodResourcesRead, ``, "file:///a", `{"uri":"file:///a"}`},
		{"a prompt's completion", MethodComplete, `{"ref":{"type":"ref/prompt","name":"x__p"},"argument":{}}`, "p",
			`{"ref":{"type":"ref/prompt","name":"p"},"argument":{}}`},
		{"a template's completion", MethodComplete, `{"ref":{"type":"ref/resource","uri":"x+a:{b}"}}`, "a:{b}",
			`{"ref":{"type":"ref/resource","uri":"a:{b}"}}`},
		{"a completion without ref", MethodComplete, `{"argument":{}}`, "p", `{"argument":{}}`},
		{"a method without names", MethodToolsList, `{"cursor":"c"}`, "a", `{"cursor":"c"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := Raw(test.in)
			got := ParamsFor(test.method, in, test.key)
			if string(got) != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if test.in == test.want && &got[0] != &in[0] {
				t.Error("it was copied without need")
			}
		})
	}
}

func TestCallerUser(t *testing.T) {
	caller := NewCaller(Caller{Issuer: "https://a", Subject: "1"})
	if caller.User() != (Caller{Issuer: "https://a", Subject: "1"}).User() || len(caller.User()) != 32 {
		t.Errorf("got %q", caller.User())
	}
	others := []Caller{{}, {Issuer: "https://b", Subject: "1"}, {Issuer: "https://a", Subject: "2"},
		{Issuer: "https://a1", Subject: ""}, {Subject: "https://a1"}}
	for _, other := range others {
		if other.User() == caller.User() {
			t.Errorf("%+v is the same user", other)
		}
	}
	if got, ok := CallerFrom(WithCaller(t.Context(), caller)); !ok || got.User() != caller.User() {
		t.Errorf("the context carries %+v, %v", got, ok)
	}
	if _, ok := CallerFrom(context.Background()); ok {
		t.Error("an empty context has a caller")
	}
}

func TestErrors(t *testing.T) {
	e := UpstreamError(failure.UpstreamTimeout, "crm", ExecutedUnknown, "%s did not answer", "crm")
	if want := `{"upstream":"crm","retryable":false,"executed":"unknown"}`; string(e.Data) != want ||
		e.Message != "crm did not answer" {
		t.Errorf("got %s, %q", e.Data, e.Message)
	}
	wrapped := fmt.Errorf("calling: %w", e)
	if !errors.Is(wrapped, &Error{Code: CodeUpstreamTimeout}) || errors.Is(wrapped, &Error{Code: CodeInternal}) {
		t.Error("errors are not told apart by their code")
	}
	for method, want := range map[string]string{
		MethodToolsCall:     `Unknown tool: x"`,
		MethodPromptsGet:    `Unknown prompt: x"`,
		MethodComplete:      `Unknown reference: x"`,
		MethodResourcesRead: `Resource not found`,
	} {
		if got := ErrUnknown(method, `x"`); got.Message != want || got.Code != CodeInvalidParams {
			t.Errorf("%s: %v", method, got)
		}
	}
	if got := string(ErrUnknown(MethodResourcesRead, `a"b`).Data); got != `{"uri":"a\"b"}` {
		t.Errorf("got %s", got)
	}
}

func TestChainOrder(t *testing.T) {
	var order []string
	mark := func(name string) Middleware {
		return func(next Handler) Handler {
			return HandlerFunc(func(ctx context.Context, c *Call) (*Reply, error) {
				order = append(order, name)
				return next.Handle(ctx, c)
			})
		}
	}
	last := HandlerFunc(func(context.Context, *Call) (*Reply,
		error) {
		order = append(order, "last")
		return &Reply{}, nil
	})
	if _, err := Chain(last, mark("outer"), mark("inner")).Handle(t.Context(), &Call{}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"outer", "inner", "last"}; !slices.Equal(order, want) {
		t.Errorf("got %v", order)
	}
}

func TestListRendersOnce(t *testing.T) {
	list, calls := &List{Items: []Item{{Name: "a"}}}, 0
	build := func(l *List) []byte { calls++; return []byte(l.Items[0].Name) }
	for _, form := range []string{"x", "y", "x"} {
		if got := string(list.Render(form, build)); got != "a" {
			t.Errorf("%s: got %q", form, got)
		}
	}
	if calls != 2 {
		t.Errorf("it was built %d times", calls)
	}
}

// TestEntry: clients of 2026-07-28 get params with every question.
func TestEntry(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ params, want string }{
		{"", `{"method":"roots/list","params":{}}`},
		{"null", `{"method":"roots/list","params":{}}`},
		{`{"a":1}`, `{"method":"roots/list","params":{"a":1}}`},
	} {
		request := InputRequest{Key: "r", Method: MethodRootsList}
		if tt.params != "" {
			request.Params = Raw(tt.params)
		}
		if got := request.Entry(); string(got) != tt.want {
			t.Errorf("params %q: got %s", tt.params, got)
		}
	}
}
