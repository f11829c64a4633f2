package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// toolDo is the only tool of every server: it plays a script.
const toolDo = "do"

// roleStdio, as the first argument, makes the program a stdio server: it carries lines to
// and from the address in the next argument.
const roleStdio = "as-stdio"

// server is an upstream.
type server struct {
	name     string
	revision *wire.Revision
	asks     bool   // its tool can ask questions
	pushes   bool   // it has resources with subscriptions
	process  bool   // each session is a process
	gate     *gate  // its HTTP side, nil for a process
	config   string // its entry in the gateway's configuration
	load     func() (running, sessions, asked int)
	close    func()
}

// scripted starts a server of internal/mcptest.
func scripted(l *ledger, name string, revision *wire.Revision, transport string) (*server, error) {
	s := &server{name: name, revision: revision, asks: transport == "streamable" || !revision.Stateful,
		pushes: transport == "streamable"}
	play := mcptest.NewServer(revision)
	if transport == "sse" {
		play.Close()
		play = mcptest.NewSSEServer(revision)
	}
	play.Discard()
	play.Tools(toolDo)
	play.Tool(toolDo, func(c *mcptest.Call) { perform(l, play, revision, c) })
	play.On("resources/list", func(c *mcptest.Call) {
		c.Result(`{"resources":[{"uri":"doc://one","name":"one"}]}`)
	})
	s.load, s.close = play.Load, play.Close
	if transport == "stdio" {
		address, err := play.ListenLines()
		if err != nil {
			play.Close()
			return nil, err
		}
		self, err := os.Executable()
		if err != nil {
			play.Close()
			return nil, err
		}
		s.process = true
		s.config = fmt.Sprintf("{name: %s, command: [%q, %q, %q]", name, self, roleStdio, address)
		return s, nil
	}
	g, err := newGate(play, play.Forget)
	if err != nil {
		play.Close()
		return nil, err
	}
	path := "/mcp"
	if transport == "sse" {
		path = "/sse"
	}
	s.gate = g
	s.config = fmt.Sprintf("{name: %s, transport: %s, url: %q", name, transport, g.url()+path)
	s.close = func() {
		g.end()
		play.Close()
	}
	return s, nil
}

// perform plays the script of a call.
func perform(l *ledger, play *mcptest.Server, revision *wire.Revision, c *mcptest.Call) {
	var in script
	if !c.Param("arguments", &in) {
		c.Error(-32602, "no script")
		return
	}
	round, given := 0, map[string]json.RawMessage(nil)
	if c.Param("requestState", new(string)) {
		round = 1
		c.Param("inputResponses", &given)
	}
	l.run(in.Nonce, round)
	if round == 0 {
		var token json.RawMessage
		for i := 1; i <= in.Progress; i++ {
			if wait(c.Context(), in.pause()) != nil {
				return
			}
			if c.Param("_meta|progressToken", &token) {
				c.Notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d,"message":"%s:%d"}`, token,
					i, in.Nonce, i))
			}
		}
		if in.Touch != "" {
			l.touch(in.Nonce, play.Update(in.Touch))
		}
	}
	text := ""
	if in.Ask != "" {
		reply, ok := ask(revision, c, in, given)
		if !ok {
			return
		}
		text = mcptest.AnswerText(reply)
	}
	if wait(c.Context(), in.pause()) != nil {
		return
	}
	switch in.End {
	case endFail:
		c.Error(failCode, in.Nonce)
	case endHang:
		c.Hang()
	case endDie:
		c.Die()
	default:
		c.Text(in.result(text))
	}
}

// ask asks the client of a call. It reports false when the round ends here.
func ask(revision *wire.Revision, c *mcptest.Call, in script,
	given map[string]json.RawMessage) (json.RawMessage, bool) {
	if revision.Stateful {
		m, err := c.Ask(in.Ask, mcptest.Question(in.Ask, in.Nonce))
		if err != nil {
			return nil, false
		}
		if m.Error != nil {
			c.Error(failCode, in.Nonce+" was refused: "+m.Error.Message)
			return nil, false
		}
		return m.Result, true
	}
	if given == nil {
		c.Result(fmt.Sprintf(`{"resultType":"input_required","inputRequests":{"q":{"method":%q,"params":%s}},"requestState":%q}`,
			in.Ask, mcptest.Question(in.Ask, in.Nonce), in.Nonce))
		return nil, false
	}
	return given["q"], true
}
