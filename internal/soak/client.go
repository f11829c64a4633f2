package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

const (
	// patience bounds a call, whatever happens to it.
	patience = 90 * time.Second
	// resumePatience bounds the wait for the answer after a stream was cut. A stream that
	// the gateway does not know any more is resumed as a new one, on which nothing arrives.
	resumePatience = 45 * time.Second
)

// client is one client of one user. It performs one action after another.
type client struct {
	*mcptest.Client
	l               *ledger
	servers         []*server
	index           int
	rand            *rand.Rand
	calls, requests int
	get             *getStream // nil without a session
	opened          time.Time  // when the session began
}

func newClient(index int, seed uint64, l *ledger, servers []*server, url, token string,
	transport http.RoundTripper) *client {
	revisions := wire.Revisions()
	c := &client{l: l, servers: servers, index: index, rand: rand.New(rand.NewPCG(seed, uint64(index)))}
	c.Client = mcptest.NewClient(url, revisions[index%len(revisions)])
	c.HTTP = &http.Client{Transport: transport}
	c.Header = http.Header{"Authorization": {"Bearer " + token}}
	c.Caps = `{"elicitation":{},"sampling":{}}`
	return c
}

// work performs actions until stop is closed, and then leaves.
func (c *client) work(ctx context.Context, stop <-chan struct{}) {
	defer c.leave(ctx)
	keepOn(ctx, stop, func() time.Duration {
		wait := time.Duration(c.rand.IntN(40)) * time.Millisecond
		if !c.enter(ctx) {
			return wait + 200*time.Millisecond
		}
		c.act(ctx)
		return wait
	})
}

// keepOn calls do until stop is closed or ctx ends. do returns the pause before the next
// call.
func keepOn(ctx context.Context, stop <-chan struct{}, do func() time.Duration) {
	for {
		timer := time.NewTimer(do())
		select {
		case <-timer.C:
			continue
		case <-stop:
		case <-ctx.Done():
		}
		timer.Stop()
		return
	}
}

// enter makes sure that there is a session, with a GET stream if this client uses one.
func (c *client) enter(ctx context.Context) bool {
	if !c.Revision.Stateful || c.Session != "" {
		return true
	}
	from := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o := c.open(ctx)
	c.l.note("session", from, o)
	if o.failed() {
		c.Session = ""
		return false
	}
	c.get, c.opened = c.openGET(), from
	return true
}

// open begins a session.
func (c *client) open(ctx context.Context) outcome {
	x, err := c.Post(ctx,
		fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"soak","version":"1"}}}`,
			c.Revision.Name, c.Caps))
	if err != nil {
		return broken(err)
	}
	defer x.Close()
	m, err := x.Response()
	if o, bad := refused(x, m, err); bad {
		return o
	}
	c.Session = x.Header.Get("Mcp-Session-Id")
	if c.Session == "" {
		return outcome{kind: "no session", detail: m.Text}
	}
	return c.notify(ctx, "notifications/initialized", "{}")
}

// leave ends the session.
func (c *client) leave(ctx context.Context) {
	if c.Session == "" {
		return
	}
	if c.get != nil {
		c.get.close()
		c.get = nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer c.lost()
	for again := false; ; again = true { // until the session has ended: else the gateway keeps its data
		from := time.Now()
		o := c.tell(ctx, http.MethodDelete, "", http.StatusNoContent)
		if again && o.kind == sessionLost { // the first attempt had ended it, without an answer
			o.kind = answered
		}
		if o.kind == "50303" {
			o.kind = endUnknown
		}
		o.session = c.opened
		c.l.note("end of a session", from, o)
		if !o.failed() || o.kind == sessionLost {
			return
		}
		if wait(ctx, 500*time.Millisecond) != nil {
			return
		}
	}
}

// lost forgets a session that the gateway no longer knows.
func (c *client) lost() {
	if c.get != nil {
		c.get.close()
		c.get = nil
	}
	c.Session = ""
}

// getStream is a session's GET stream, which is opened again whenever it ends.
type getStream struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu    mcptest.Cond   // guards the fields below, wakes when they change
	heard map[string]int // updates, by URI
	over  bool           // no stream will be opened any more
}

func (c *client) openGET() *getStream {
	ctx, cancel := context.WithCancel(context.Background()) // until close
	s := &getStream{cancel: cancel, done: make(chan struct{}), heard: map[string]int{}}
	own := mcptest.NewClient(c.URL, c.Revision)
	own.HTTP, own.Header, own.Session = c.HTTP, c.Header, c.Session
	mine := c.uriSuffix()
	go func() {
		defer s.end()
		last := ""
		for ctx.Err() == nil {
			from := time.Now()
			status := 0
			if status, last = s.listen(ctx, own, last, func(m mcptest.Message) {
				if problem := s.take(m, mine); problem != "" {
					c.l.violation("the GET stream of client %d (%s): %s", c.index, c.Revision.Name, problem)
				}
			}); ctx.Err() != nil {
				return
			}
			c.l.note("GET stream ended", from, outcome{kind: answered})
			if status == http.StatusNotFound {
				return // the session is gone, as the next call will find out
			}
			_ = wait(ctx, 100*time.Millisecond) // not to spin; the loop checks ctx
		}
	}()
	return s
}

// listen reads one stream to its end. It returns the client's position, which a refusal does not
// change.
func (s *getStream) listen(ctx context.Context, c *mcptest.Client, last string, take func(mcptest.Message)) (status int,
	lastID string) {
	x, err := c.Get(ctx, last)
	if err != nil {
		return 0, last
	}
	defer x.Close()
	if !x.Stream {
		return x.Status, last
	}
	for {
		m, err := x.Next()
		last = cmp.Or(x.LastEventID(), last)
		if err != nil {
			return x.Status, last
		}
		take(m)
	}
}

// take takes one message and returns what is wrong with it, "" if nothing is.
func (s *getStream) take(m mcptest.Message, mine string) string {
	switch m.Method {
	case "notifications/resources/updated":
		var uri string
		if !m.Param("uri", &uri) || !endsWith(uri, mine) {
			return "hears of another's resource: " + m.Text
		}
		s.mu.Lock()
		s.heard[uri]++
		s.mu.Wake()
		s.mu.Unlock()
		return ""
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
		"notifications/skills/list_changed", "notifications/message":
		return ""
	}
	return "got what belongs elsewhere: " + m.Text
}

// await waits until the number of updates heard exceeds before.
func (s *getStream) await(ctx context.Context, uri string, before int) bool {
	heard := false
	err := s.mu.Await(ctx, func() bool { heard = s.heard[uri] > before; return heard || s.over })
	return err == nil && heard
}

func (s *getStream) end() {
	s.mu.Lock()
	s.over = true
	s.mu.Wake()
	s.mu.Unlock()
	close(s.done)
}

func (s *getStream) count(uri string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard[uri]
}

func (s *getStream) close() {
	s.cancel()
	<-s.done
}

// uriSuffix is the suffix of the URIs of this client's resources.
func (c *client) uriSuffix() string { return "doc://c" + strconv.Itoa(c.index) }

func endsWith(uri, suffix string) bool {
	return len(uri) >= len(suffix) && uri[len(uri)-len(suffix):] == suffix
}

// broken is the outcome of a connection that broke before the answer.
func broken(err error) outcome { return outcome{kind: "cut", detail: err.Error()} }

func httpKind(status int) string { return "HTTP " + strconv.Itoa(status) }

// refused returns the outcome of an answer without a result: a connection that ended, an
// HTTP status or a JSON-RPC error.
func refused(x *mcptest.Exchange, m mcptest.Message, err error) (outcome, bool) {
	switch {
	case err == nil && m.Error != nil:
		o := outcome{kind: strconv.Itoa(m.Error.Code), detail: m.Text}
		var data struct{ Executed string }
		if json.Unmarshal(m.Error.Data, &data) == nil {
			o.executed = data.Executed
		}
		if x.Status == http.StatusNotFound && string(m.ID) == "null" {
			o.kind = sessionLost
		}
		return o, true
	case x.Status != http.StatusOK:
		return outcome{kind: httpKind(x.Status), detail: fmt.Sprint(err)}, true
	case err != nil:
		return broken(err), true
	}
	return outcome{}, false
}

// notify sends a notification.
func (c *client) notify(ctx context.Context, method, params string) outcome {
	return c.tell(ctx, http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params),
		http.StatusAccepted)
}

// tell makes a request that is answered by a status alone.
func (c *client) tell(ctx context.Context, httpMethod, body string, want int) outcome {
	x, err := c.Do(ctx, httpMethod, body, nil)
	if err != nil {
		return broken(err)
	}
	defer x.Close()
	if x.Status != want {
		return refusedText(x.Status, x.Text())
	}
	return outcome{kind: answered}
}

// refusedText is the outcome of a request that was refused with a text: a JSON-RPC error,
// or a message of the balancer.
func refusedText(status int, text string) outcome {
	var said struct{ Error struct{ Code int } }
	switch err := json.Unmarshal([]byte(text), &said); {
	case err != nil || said.Error.Code == 0:
		return outcome{kind: httpKind(status), detail: text}
	case status == http.StatusNotFound:
		return outcome{kind: sessionLost, detail: text}
	}
	return outcome{kind: strconv.Itoa(said.Error.Code), detail: text}
}
