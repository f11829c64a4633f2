package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// stage is a scripted server. Its only tool follows the script of a call step by step. A
// tag in the arguments identifies the call.
type stage struct {
	*mcptest.Server
	name     string // of the upstream
	stateful bool
	// piped: all messages share one pipe. With two or more calls, a message without an id
	// or a token (a log message or a question) belongs to no call.
	piped  bool
	asking sync.WaitGroup // waits for answers, at most until the server ends

	mu      sync.Mutex // guards the fields below
	entries map[string]chan *turn
	strays  []string // calls that nobody made
}

// turn is a call at its server, from its arrival to its result.
type turn struct {
	*mcptest.Call
	token json.RawMessage  // of its progress
	do    chan func() bool // the next action, which reports whether it was the last
	over  chan struct{}    // closed when it has ended for the server
}

// maxTurns exceeds the rounds of any call.
const maxTurns = 64

// newStage starts a stage and returns its configuration as an upstream.
func newStage(t *testing.T, name, revision, transport string) (*stage, upstream.Config) {
	t.Helper()
	s := &stage{name: name, stateful: revision != stateless, piped: transport != "streamable",
		entries: map[string]chan *turn{}}
	t.Cleanup(s.asking.Wait)
	cfg := upstream.Config{Name: name, Limits: upstream.Limits{AsksPerUser: 10000}}
	if transport == "sse" {
		s.Server = mcptest.NewSSEServer(wire.Lookup(revision))
		t.Cleanup(s.Close)
		cfg.Transport = transport
	} else {
		s.Server = scripted(t, revision)
	}
	if cfg.URL = s.URL; transport == "stdio" {
		address, err := s.ListenLines()
		if err != nil {
			t.Fatal(err)
		}
		cfg.URL, cfg.Command = "", []string{os.Args[0], linesCommand, address}
	}
	s.Tools("do")
	s.Tool("do", s.play)
	return s, cfg
}

// expect registers a tag. The channel receives the turns of its call.
func (s *stage) expect(tag string) <-chan *turn {
	entry := make(chan *turn, maxTurns)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[tag] = entry
	return entry
}

func (s *stage) play(c *mcptest.Call) {
	tag, at := "", &turn{Call: c, do: make(chan func() bool), over: make(chan struct{})}
	defer close(at.over)
	c.Param("arguments|tag", &tag)
	c.Param("_meta|progressToken", &at.token)
	s.mu.Lock()
	entry := s.entries[tag]
	if entry == nil || len(entry) == cap(entry) {
		s.strays = append(s.strays, c.Message.Text)
	}
	s.mu.Unlock()
	if entry == nil {
		c.Error(-32602, "nobody made this call")
		return
	}
	entry <- at
	for {
		select {
		case do := <-at.do:
			if do() {
				return
			}
		case <-c.Done():
			return
		}
	}
}

// uninvited returns the calls that arrived but that nobody made.
func (s *stage) uninvited() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.strays
}

// step performs an action of the turn and waits for it. It returns false if the call had
// ended before.
func (at *turn) step(last bool, do func()) bool {
	done := make(chan struct{})
	select {
	case at.do <- func() bool { defer close(done); do(); return last }:
		<-done
		return true
	case <-at.over:
		return false
	}
}

// report sends progress or a log message.
func (at *turn) report(kind, tag string, n int) bool {
	return at.step(false, func() {
		if kind == "progress" {
			at.Notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d,"message":"%s:%d"}`, at.token,
				n, tag, n))
			return
		}
		at.Notify("notifications/message", fmt.Sprintf(`{"level":"info","logger":"l","data":"%s:%d"}`, tag, n))
	})
}

// finish ends the turn by a result, an error, or a broken connection.
func (at *turn) finish(how, tag string) bool {
	if how != "dies" {
		return at.step(true, func() {
			if how == "fails" {
				at.Error(7, tag+" failed")
			} else {
				at.Text(tag + " done")
			}
		})
	}
	select { // after its death it does not return
	case at.do <- func() bool { at.Die(); return true }:
		<-at.over
		return true
	case <-at.over:
		return false
	}
}

// isAnswer reports whether an answer is the one to exactly this question.
func isAnswer(answer json.RawMessage, nonce string) bool {
	return strings.Contains(string(answer), `"`+nonce+` yes"`) && strings.Count(string(answer), " yes") == 1
}

// theAnswer returns a client's answer to a question.
func theAnswer(q query) string { return mcptest.Answer(q.method, q.nonce+" yes") }
