package fake

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Elicit is a question by a form.
const Elicit = `"method":"elicitation/create","params":{"message":"m","mode":"form",` +
	`"requestedSchema":{"type":"object"},"_meta":{"x":1},"task":{},"elicitationId":"e"}`

// LargeResult returns the result of a tool of that name, 100 KiB.
func LargeResult(name string) string {
	return `{"content":[{"type":"text","text":"` + strings.Repeat(name, 100<<10) + `"}]}`
}

// Tool makes a tool call by a client with a session that cannot be asked.
func Tool(name string) *mcp.Call {
	return &mcp.Call{
		Method: mcp.MethodToolsCall, Name: name, Session: "user:session",
		Params: mcp.Raw(`{"name":"` + name + `","arguments":{}}`), Notify: func(mcp.Event) {},
	}
}

// Asked makes a call by a client that supports every kind of question.
func Asked(name string) *mcp.Call {
	c := Tool(name)
	c.Caps = mcp.Raw(`{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}`)
	return c
}

// Do makes a call within Patience.
func Do(t *testing.T, u mcp.Handler, c *mcp.Call) (*mcp.Reply, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	return u.Handle(ctx, c)
}

// MustDo makes a call that must succeed.
func MustDo(t *testing.T, u mcp.Handler, c *mcp.Call) *mcp.Reply {
	t.Helper()
	reply, err := Do(t, u, c)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// WantOK makes a call that must have the result OK.
func WantOK(t *testing.T, u mcp.Handler, c *mcp.Call) {
	t.Helper()
	if reply := MustDo(t, u, c); string(reply.Result) != OK {
		t.Errorf("result %s", reply.Result)
	}
}

// WantError checks that an error has a code, says whether the call ran, and shows no address.
func WantError(t *testing.T, err error, code int, executed mcp.Executed) *mcp.Error {
	t.Helper()
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok {
		t.Fatalf("error %v, want an mcp.Error of code %d", err, code)
	}
	got, _ := e.Data.Member("executed")
	if e.Code != code || got.Text() != string(executed) {
		t.Errorf("error %v executed %q, want code %d executed %q", e, got.Text(), code, executed)
	}
	if strings.Contains(e.Message, "127.0.0.1") {
		t.Errorf("the message shows an address: %s", e.Message)
	}
	return e
}

// List makes a call for a list.
func List(method string) *mcp.Call { return &mcp.Call{Method: method, Notify: func(mcp.Event) {}} }

// Listen makes a subscriptions/listen call; end ends it.
func Listen(t *testing.T, u mcp.Handler, want, session string) (end func(), events chan mcp.Event) {
	t.Helper()
	events = make(chan mcp.Event, 20)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := u.Handle(ctx, &mcp.Call{
			Method: mcp.MethodListen, Session: session, Params: mcp.Raw(`{"notifications":` + want + `}`),
			Notify: func(e mcp.Event) { events <- mcp.Event{Method: e.Method, Params: append(mcp.Raw(nil), e.Params...)} },
		})
		done <- err
	}()
	return func() {
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("listen ended with %v", err)
		}
	}, events
}
