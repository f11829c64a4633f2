package upstream

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// slowProgram is a stateless stdio server that is slow to start, like one that has to be
// fetched first, and then answers everything that was written to it.
type slowProgram struct {
	startup time.Duration
	started int
}

func (p *slowProgram) Dial(context.Context, *transport.Identity) (transport.Conn, error) {
	p.started++
	return &slowConn{ready: time.Now().Add(p.startup)}, nil
}

type slowConn struct{ ready time.Time }

func (c *slowConn) Start(req *transport.Request) (transport.Stream, error) {
	result := `"error":{"code":-32601,"message":"Method not found"}`
	switch req.Method {
	case mcp.MethodDiscover:
		result = `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`
	case mcp.MethodToolsCall:
		result = `"result":{"resultType":"complete","content":[]}`
	}
	return &slowStream{life: req.Life, ready: c.ready,
		text: `{"jsonrpc":"2.0","id":` + strconv.FormatInt(req.ID, 10) + `,` + result + `}`}, nil
}

func (c *slowConn) Post(context.Context, []byte) error { return nil }
func (c *slowConn) OpenGET(context.Context, string, func()) (transport.Stream, error) {
	return nil, transport.ErrNoGETStream
}
func (c *slowConn) Deliver(bool, func(wire.Message)) {}
func (c *slowConn) Bind(*wire.Revision)              {}
func (c *slowConn) Resume(_, _ string)               {}
func (c *slowConn) Header() http.Header              { return nil }
func (c *slowConn) Lost() <-chan struct{}            { return nil }
func (c *slowConn) Close(context.Context) error      { return nil }

type slowStream struct {
	life  *transport.Life
	ready time.Time
	text  string
}

func (s *slowStream) Next() (wire.Message, error) {
	if s.text == "" {
		return wire.Message{}, io.EOF
	}
	timer := time.NewTimer(time.Until(s.ready))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.life.Done():
		return wire.Message{}, context.Cause(s.life)
	}
	text := s.text
	s.text = ""
	return wire.ScanUpstream([]byte(text))
}

func (s *slowStream) Resumption() (string, time.Duration) { return "", 0 }
func (s *slowStream) Reply(result mcp.Raw) *mcp.Reply     { return &mcp.Reply{Result: result} }
func (s *slowStream) Taken() <-chan struct{}              { return nil }
func (s *slowStream) Close()                              { s.life.End() }

// A stateless server that starts more slowly than the silence allowed to it is taken for a
// stateful one, once: when it then refuses initialize, the next probe waits longer.
func TestSlowStatelessProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, err := New(Config{Name: "slow", Command: []string{"slow"}}, Deps{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		program := &slowProgram{startup: 2 * probeSilence}
		u.transport = program
		call := &mcp.Call{Method: mcp.MethodToolsCall, Name: "a", Session: "user:session", Notify: func(mcp.Event) {}}
		reply, err := u.Handle(t.Context(), call)
		if err != nil || string(reply.Result) != `{"resultType":"complete","content":[]}` {
			t.Errorf("reply %+v, error %v", reply, err)
		}
		if program.started != 2 {
			t.Errorf("the program was started %d times", program.started)
		}
		if err := u.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestSilentProgram: while a program does not answer after its start, its state says so.
func TestSilentProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, err := New(Config{Name: "silent", Command: []string{"npx"}}, Deps{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		u.transport = &slowProgram{startup: time.Hour}
		done := make(chan error)
		go func() {
			_, err := u.Handle(t.Context(), &mcp.Call{Method: mcp.MethodToolsList, Notify: func(mcp.Event) {}})
			done <- err
		}()
		time.Sleep(40 * time.Second)
		if s := u.Status(); s.State != StateConnecting ||
			!strings.Contains(s.Last.Cause, "npx: no answer yet; it has said nothing on stderr") {
			t.Errorf("after 40 s: %s, %q", s.State, s.Last.Cause)
		}
		e, ok := errors.AsType[*mcp.Error](<-done)
		if !ok || !strings.Contains(e.Cause, "NODE_EXTRA_CA_CERTS") {
			t.Errorf("in the end: %+v", e)
		}
		if err := u.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
