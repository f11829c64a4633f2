package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/diagnose"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// This file has the parts of the fault tests: servers that can be broken and mended, and a
// gateway in front of two of them, one of each era, and of a healthy one.

// newMortal starts a server that can be killed. It uses 127.0.0.2, which not every system
// has: nobody who wants a free port of 127.0.0.1 gets its port.
func newMortal(t *testing.T, handler http.Handler) *mcptest.Mortal {
	t.Helper()
	m, err := mcptest.NewMortal("127.0.0.2", handler)
	if err != nil {
		m, err = mcptest.NewMortal("127.0.0.1", handler)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Kill() })
	return m
}

func revive(t *testing.T, m *mcptest.Mortal) {
	t.Helper()
	if err := m.Revive(); err != nil {
		t.Fatal(err)
	}
}

// faulty is a scripted server with the tool "do". During a fault, calls meet the fault and
// lists wait, so that the gateway learns of the server only from calls.
type faulty struct {
	*mcptest.Server
	*mcptest.Mortal
	name   string // of the upstream
	fault  atomic.Pointer[fault]
	struck chan struct{} // receives one value for each call that meets the fault
	inside atomic.Int64  // calls that meet it now
}

type fault struct {
	meet strike
	over chan struct{} // closed when the fault is over
}

// strike is what a call meets instead of an answer; id is that of its request.
type strike func(w http.ResponseWriter, r *http.Request, id string)

func newFaulty(t *testing.T, name, revision string) *faulty {
	t.Helper()
	f := &faulty{Server: scripted(t, revision), name: name, struck: make(chan struct{}, 1000)}
	f.Server.Tools("do")
	f.Server.Tool("do", func(c *mcptest.Call) { c.Text("done") })
	f.Mortal = newMortal(t, f)
	return f
}

// breaks starts a fault, and mend ends it.
func (f *faulty) breaks(meet strike) { f.fault.Store(&fault{meet, make(chan struct{})}) }
func (f *faulty) mend()              { close(f.fault.Swap(nil).over) }

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct {
		ID     json.RawMessage
		Method string
	}
	fault := f.fault.Load()
	if fault != nil && json.Unmarshal(body, &m) == nil && strings.HasSuffix(m.Method, "/list") {
		select {
		case <-fault.over:
		case <-r.Context().Done():
		}
	}
	if fault == nil || m.Method != "tools/call" {
		f.Server.ServeHTTP(w, r)
		return
	}
	f.inside.Add(1)
	defer f.inside.Add(-1)
	f.struck <- struct{}{}
	fault.meet(w, r, string(m.ID))
}

// scene is a gateway in front of two faulty upstreams and a good one, with two clients of
// each era. The others never call the faulty upstreams, so they have no sessions there, whose
// lists could have changed with a call and would be waited for.
type scene struct {
	g       *gateway.Gateway
	faulty  []*faulty
	clients []*mcptest.Client
	others  []*mcptest.Client
}

// newScene makes a scene, and one call of each client to each upstream.
func newScene(t *testing.T, timeout upstream.Timeout, limits upstream.Limits) *scene {
	t.Helper()
	s := &scene{faulty: []*faulty{newFaulty(t, "older", statefulServer), newFaulty(t, "newer", stateless)}}
	var cfg gateway.Config
	for _, f := range s.faulty {
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: f.name, URL: "http://" + f.Address + "/mcp",
			Timeout: timeout, Limits: limits})
	}
	s.open(t, cfg)
	for _, f := range s.faulty {
		s.healed(t, f.name)
	}
	s.nothingLeft(t)
	return s
}

// open starts the gateway, with one more good upstream, and its clients.
func (s *scene) open(t *testing.T, cfg gateway.Config) {
	t.Helper()
	cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: "good", URL: doing(t).URL})
	var stop func()
	var err error
	if s.g, stop, err = run(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for _, u := range cfg.Upstreams {
		s.ready(t, u.Name)
	}
	for _, revision := range eras {
		s.clients = append(s.clients, raw(t, s.g.URL(), revision))
		other := unopened(t, s.g.URL(), revision)
		other.Name = "other"
		if err := other.Open(deadline(t)); err != nil {
			t.Fatal(err)
		}
		s.others = append(s.others, other)
	}
	s.undisturbed(t)
}

// undisturbed requires the good upstream to serve others as if nothing had happened.
func (s *scene) undisturbed(t *testing.T) {
	t.Helper()
	for _, c := range s.others {
		if m := mustCall(t, c, "tools/call", `{"name":"good__do"}`); said(m) != "done" {
			t.Errorf("client %s: the good upstream says %s", c.Revision.Name, m.Text)
		}
		m := mustCall(t, c, "tools/list", "{}")
		var tools []struct{ Name string }
		if m.Value("tools", &tools); len(tools) != len(s.g.Health()) {
			t.Errorf("client %s: %d tools are listed, want those of all upstreams", c.Revision.Name, len(tools))
		}
	}
	if h := s.health(t, "good"); h.State != upstream.StateReady || h.LastFailure != nil {
		t.Errorf("the good upstream is %+v", h)
	}
}

func (s *scene) health(t *testing.T, name string) diagnose.Upstream {
	t.Helper()
	for _, h := range s.g.Health() {
		if h.Name == name {
			return h
		}
	}
	t.Fatalf("there is no upstream %s", name)
	panic("unreachable")
}

// faultOutcome is the result of one call of a tool "do".
type faultOutcome struct {
	client   string // its revision
	upstream string
	status   int
	header   http.Header
	mcptest.Message
	err error
}

// call calls the tool of an upstream.
func (s *scene) call(t *testing.T, c *mcptest.Client, name string) (o faultOutcome) {
	t.Helper()
	o.client, o.upstream = c.Revision.Name, name
	x, err := c.Send(deadline(t), "tools/call", `{"name":"`+name+`__do","_meta":{"progressToken":1}}`)
	if err != nil {
		o.err = err
		return o
	}
	defer x.Close()
	o.status, o.header = x.Status, x.Header
	o.Message, o.err = x.Response()
	return o
}

// all has each client make this many calls to an upstream concurrently.
func (s *scene) all(t *testing.T, name string, calls int, tell func(faultOutcome)) (wait func()) {
	var running sync.WaitGroup
	for _, c := range s.clients {
		for range calls {
			running.Go(func() { tell(s.call(t, c, name)) })
		}
	}
	return running.Wait
}

// healed requires the next call of each client to an upstream to succeed, at once or within
// the seconds until a process may be started again.
func (s *scene) healed(t *testing.T, name string) {
	t.Helper()
	began := time.Now()
	defer func() {
		if took := time.Since(began); took > patience {
			t.Errorf("upstream %s: it took %s to heal", name, took)
		}
	}()
	for _, c := range s.clients {
		if o := s.call(t, c, name); o.err != nil || o.Error != nil || said(o.Message) != "done" {
			t.Fatalf("client %s, upstream %s: it is not healed: %s %v", o.client, o.upstream, o.Text, o.err)
		}
	}
	s.ready(t, name)
}

// comesBack requires an upstream to heal after the pause that its refusals name, which is
// short at first. Another pause may follow, because the gateway itself may be trying a
// call.
func (s *scene) comesBack(t *testing.T, name string) {
	t.Helper()
	for range 3 {
		var data struct{ RetryAfterMs int }
		o := s.call(t, s.clients[0], name)
		if o.err == nil && o.Error == nil {
			break
		}
		if !dataOf(o.Message, &data) || data.RetryAfterMs <= 0 || data.RetryAfterMs > 5000 {
			t.Fatalf("client %s, upstream %s: it names no pause, or a long one: %s %v", o.client, o.upstream, o.Text, o.err)
		}
		<-time.After(time.Duration(data.RetryAfterMs) * time.Millisecond)
	}
	s.healed(t, name)
}

// ready waits until an upstream is ready, with its lists.
func (s *scene) ready(t *testing.T, name string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx := deadline(t); ; {
		h := s.health(t, name)
		if h.State == upstream.StateReady && h.RefusedUntil.IsZero() {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("upstream %s is still %+v", name, h)
		}
	}
}

// is requires an upstream to be in a state, after a failure at a stage, "" for none.
func (s *scene) is(t *testing.T, name string, state upstream.State, stage string) {
	t.Helper()
	h := s.health(t, name)
	failed := ""
	if h.LastFailure != nil {
		failed = h.LastFailure.Stage
	}
	if h.State != state || failed != stage {
		t.Errorf("upstream %s is %s after a failure at %q, want %s after one at %q: %+v", name, h.State, failed, state,
			stage, h.LastFailure)
	}
}

// nothingLeft requires all calls to have ended, at the gateway and at the faulty servers.
func (s *scene) nothingLeft(t *testing.T) {
	t.Helper()
	ctx := deadline(t)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		load := s.g.Load()
		left := load.Front.Calls + load.Front.Questions
		for _, u := range load.Upstreams {
			left += u.Calls + u.Parked
		}
		for _, f := range s.faulty {
			left += int(f.inside.Load())
		}
		if left == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d things are left: %+v", left, load)
		}
	}
}

// verdict is the expected error.
type verdict struct {
	status   int // of HTTP, for a client of either era
	code     int
	executed string
	says     string // part of the message: the remedy
}

// check compares the outcome of a call with the verdict. The error must name the upstream
// but not its address.
func (want verdict) check(t *testing.T, o faultOutcome) {
	t.Helper()
	var data struct {
		Upstream, Executed string
		RequestID          string `json:"request_id"`
		Retryable          *bool
	}
	if o.err != nil || o.Error == nil || !dataOf(o.Message, &data) {
		t.Errorf("client %s, upstream %s: %s, %v; want the error %d", o.client, o.upstream, o.Text, o.err, want.code)
		return
	}
	if o.status != want.status || o.Error.Code != want.code || data.Executed != want.executed ||
		!strings.Contains(o.Error.Message, o.upstream) || !strings.Contains(o.Error.Message, want.says) ||
		data.Upstream != o.upstream || data.RequestID == "" || data.Retryable == nil ||
		*data.Retryable && data.Executed != "no" {
		t.Errorf("client %s, upstream %s: %d %s; want %+v", o.client, o.upstream, o.status, o.Text, want)
	}
	if all := fmt.Sprint(o.header, o.Text); strings.Contains(all, "127.0.0.") || strings.Contains(all, "secret") {
		t.Errorf("client %s, upstream %s: it tells too much: %s", o.client, o.upstream, all)
	}
}
