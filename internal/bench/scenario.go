package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Names of the upstreams in the gateway's configuration.
const (
	upstreamStateful  = "stateful"
	upstreamStateless = "stateless"
)

func upstreamList(i int) string { return "list" + strconv.Itoa(i) }

// publicName returns the gateway's name for an upstream's tool.
func publicName(upstream, name string) string { return upstream + "__" + name }

// scenario is one kind of load.
type scenario struct {
	name      string
	clients   int
	stateless bool
	crossed   bool // the gateway's upstream is of the other era
	method    string
	tool      string  // of tools/call
	progress  bool    // request progress
	message   mcp.Raw // the argument of the tool
	// target is the largest allowed ratio of the gateway's CPU to that of bare.
	target float64
	check  func(result mcp.Raw, progress []mcp.Raw) error
}

// request is what a client sends, again and again.
type request struct {
	name   string
	params mcp.Raw
	token  string // of its user; "" for none
	tools  int    // how many tools a list has to have
}

func scenarios() []scenario {
	want := results()
	small := wantResult(want["small"])
	call := scenario{method: mcp.MethodToolsCall, tool: "small", clients: 1, target: 1.0, check: small,
		message: mcp.String("hello")}
	with := func(name string, change func(*scenario)) scenario {
		s := call
		s.name = name
		change(&s)
		return s
	}
	all := []scenario{
		with("call-100B stateful c=1", func(*scenario) {}),
		with("call-100B stateful c=32", func(s *scenario) { s.clients = 32 }),
		with("call-100B stateless c=1", func(s *scenario) { s.stateless = true }),
		with("call-100B stateless c=32", func(s *scenario) { s.stateless, s.clients = true, 32 }),
		with("call-1MiB stateless c=4", func(s *scenario) {
			s.stateless, s.clients, s.tool, s.check, s.target = true, 4, "words-1MiB", wantResult(want["words-1MiB"]), 1.1
		}),
		with("list-10x50 stateless c=4", func(s *scenario) {
			s.stateless, s.clients, s.method, s.tool, s.check, s.target = true, 4, mcp.MethodToolsList, "", nil, 0.6
		}),
		with("sse20 stateless c=8", func(s *scenario) {
			s.stateless, s.clients, s.tool, s.progress, s.check, s.target = true, 8, "events", true, wantEvents(small), 1.1
		}),
		with("sse20 stateful c=8", func(s *scenario) {
			s.clients, s.tool, s.progress, s.check, s.target = 8, "events", true, wantEvents(small), 1.5
		}),
	}
	answered := func(name string, stateless bool, target float64) {
		era := upstreamStateful
		if stateless {
			era = upstreamStateless
		}
		all = append(all, with(name+" "+era+" c=4", func(s *scenario) {
			s.stateless, s.clients, s.tool, s.check, s.target = stateless, 4, name, wantResult(want[name]), target
		}))
	}
	for _, stateless := range []bool{false, true} {
		answered("json-64KiB", stateless, 1.3)
		answered("json-1MiB", stateless, 1.5)
	}
	answered("json-4KiB", false, 1.1)
	for _, shape := range []string{"script", "structured", "resource", "image"} {
		answered(shape+"-64KiB", true, 1.3)
	}
	sent := document(documentBytes)
	return append(all,
		with("send-64KiB stateful c=4", func(s *scenario) { s.clients, s.message, s.target = 4, sent, 1.3 }),
		with("send-64KiB stateless c=4", func(s *scenario) {
			s.stateless, s.clients, s.message, s.target = true, 4, sent, 1.3
		}),
		with("session c=4", func(s *scenario) { s.method, s.tool, s.clients, s.check = mcp.MethodInitialize, "", 4, nil }),
		with("call-100B stateful c=256", func(s *scenario) { s.clients = 256 }),
		with("call-100B stateful to stateless c=32", func(s *scenario) { s.clients, s.crossed = 32, true }),
		with("call-100B stateless to stateful c=32", func(s *scenario) {
			s.stateless, s.clients, s.crossed, s.target = true, 32, true, 1.2
		}))
}

// progressToken returns the token of a client's calls; a client has one call in flight.
func progressToken(client int) mcp.Raw { return mcp.String("token-" + strconv.Itoa(client)) }

// request returns a client's request, the same each time. upstream is the name with which the
// tool's public name begins, "" without a gateway. caps is what the client declares.
func (s scenario) request(upstream string, client int, caps mcp.Raw) request {
	var name string
	var params, meta mcp.Raw
	if s.stateless {
		meta = mcp.Object(wire.MetaVersion, mcp.String(wire.Stateless().Name), wire.MetaClientInfo, info(),
			wire.MetaClientCaps, caps)
	}
	if s.progress {
		meta = meta.With("progressToken", progressToken(client))
	}
	params = mcp.Raw("{}")
	if s.tool != "" {
		name = s.tool
		if upstream != "" {
			name = publicName(upstream, name)
		}
		params = mcp.Object("name", mcp.String(name), "arguments", mcp.Object("message", s.message))
	}
	if meta != nil {
		params = params.With("_meta", meta)
	}
	return request{name: name, params: params, tools: lists*perList + 2*len(callTools())}
}

// path returns the path of the server for this scenario.
func (s scenario) path() string {
	switch {
	case s.method == mcp.MethodToolsList:
		return pathMerged
	case s.stateless:
		return pathStateless
	}
	return pathStateful
}

// upstream returns the upstream that the gateway uses for this scenario.
func (s scenario) upstream() string {
	if s.stateless != s.crossed {
		return upstreamStateless
	}
	return upstreamStateful
}

// run makes one request and checks its answer.
func (s scenario) run(c *client, r request, client int) error {
	switch s.method {
	case mcp.MethodToolsList:
		return c.list(r)
	case mcp.MethodInitialize:
		return c.reopen()
	}
	result, progress, err := c.do(s.method, r.name, r.params)
	if err != nil {
		return err
	}
	if s.progress {
		for i, p := range progress {
			token, _ := p.Member("progressToken")
			number, _ := p.Member("progress")
			if !bytes.Equal(token, progressToken(client)) || string(number) != strconv.Itoa(i+1) {
				return fmt.Errorf("event %d of client %d is %s", i+1, client, p)
			}
		}
	}
	return s.check(result, progress)
}

// wantResult checks what a tool has to say: its content and its structured content.
func wantResult(want mcp.Raw) func(mcp.Raw, []mcp.Raw) error {
	return func(result mcp.Raw, _ []mcp.Raw) error {
		for _, name := range []string{"content", "structuredContent"} {
			is, _ := result.Member(name)
			if was, _ := want.Member(name); !bytes.Equal(is, was) {
				return fmt.Errorf("%s of %d bytes, want %d: %.80s", name, len(is), len(was), is)
			}
		}
		return nil
	}
}

func wantEvents(then func(mcp.Raw, []mcp.Raw) error) func(mcp.Raw, []mcp.Raw) error {
	return func(result mcp.Raw, progress []mcp.Raw) error {
		if len(progress) != events {
			return fmt.Errorf("%d progress events, want %d", len(progress), events)
		}
		return then(result, progress)
	}
}

// list reads all pages of a list, and counts them and what is on them.
func (c *client) list(r request) error {
	n, pages, params := 0, 0, r.params
	for {
		result, _, err := c.do(mcp.MethodToolsList, "", params)
		if err != nil {
			return err
		}
		page, ok := result.Member("tools")
		if !ok {
			return errors.New("no tools")
		}
		pages++
		page.Elements(func(mcp.Raw) bool { n++; return true })
		cursor, more := result.Member("nextCursor")
		if !more {
			break
		}
		params = r.params.With("cursor", cursor)
	}
	if want := (r.tools + perPage - 1) / perPage; n != r.tools || pages != want {
		return fmt.Errorf("%d tools on %d pages, want %d on %d", n, pages, r.tools, want)
	}
	return nil
}
