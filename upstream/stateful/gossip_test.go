package stateful_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// gossip is a server that confuses its callers, as far as single messages can. Its tools
// are
//
//	hold  reports progress and is never answered
//	leave is answered at once
//	hear  says what belongs to the calls before, then what belongs to itself
//	pair  waits for a second one, and answers both in the wrong order and in wrong ways
type gossip struct {
	say func(format string, args ...any)

	mu      sync.Mutex  // guards the fields below
	earlier []string    // ids of calls of hold and leave
	pair    [][2]string // ids and sessions of calls of pair
}

func (g *gossip) call(m fake.Message) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name, _ := mcp.Raw(m.Params).Member("name")
	id := string(m.ID)
	switch name.Text() {
	case "hold":
		g.earlier = append(g.earlier, id)
		g.progress(id, "held")
	case "leave":
		g.earlier = append(g.earlier, id)
		g.result(id, "left")
	case "hear":
		g.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","logger":"db","data":"secret"}}`)
		g.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"secret","_meta":{"progressToken":%s}}}`, id)
		for _, other := range g.earlier {
			g.progress(other, "secret")
			g.result(other, "secret")
		}
		g.progress(id, "own")
		g.result(id, "heard")
	case "pair":
		whose, _ := mcp.Raw(m.Params).Member("whose")
		if g.pair = append(g.pair, [2]string{id, whose.Text()}); len(g.pair) < 2 {
			return
		}
		slices.Reverse(g.pair)
		for i, p := range g.pair {
			id, other := p[0], g.pair[1-i][0]
			g.result(`"of `+other+`"`, "secret")
			g.result(other+".5", "secret")
			g.result(other+"e1", "secret")
			g.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"%s0","progress":1}}`, other)
			g.result(id, "of "+p[1])
			g.result(id, "secret")
		}
		g.pair = nil
	default:
		g.result(id, name.Text())
	}
}

func (g *gossip) progress(token, text string) {
	g.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":%q}}`,
		token, text)
}

func (g *gossip) result(id, text string) {
	g.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, id, text)
}

// playGossip runs it as a stdio server.
func playGossip() {
	g := &gossip{say: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m fake.Message
		_ = json.Unmarshal(line, &m)
		switch {
		case m.ID == nil || m.Method == "":
		case m.Method == mcp.MethodDiscover:
			g.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
		case m.Method == mcp.MethodInitialize:
			g.say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}}}}`,
				m.ID)
		case m.Method == mcp.MethodSetLevel:
			g.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		default:
			g.call(m)
		}
	}
}

// startGossip returns an Upstream whose calls all reach one gossip on one pipe, and its
// log.
func startGossip(t *testing.T, how string) (u *upstream.Upstream, session func(user string) string, log *mcptest.Log) {
	t.Helper()
	log = &mcptest.Log{}
	session = func(user string) string { return user + ":session" }
	var cfg upstream.Config
	switch how {
	case "HTTP+SSE":
		f := fake.NewSSE(t, fake.New)
		var mu sync.Mutex
		all := make(map[*fake.Stream]*gossip)
		f.Posted = func(s *fake.Stream, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			if m.Method != mcp.MethodToolsCall {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			if all[s] == nil {
				all[s] = &gossip{say: func(format string, args ...any) { s.Say("data: " + fmt.Sprintf(format, args...) + "\n\n") }}
			}
			w.WriteHeader(http.StatusAccepted)
			all[s].call(m)
			return true
		}
		cfg = fake.OverSSE()
		cfg.URL = f.URL + f.Path
		session = func(string) string { return "" } // clients that share it use the gateway's own session
	case "stdio, stateless":
		cfg = fake.Command(t, "gossip")
		cfg.Revision = "2026-07-28"
	case "stdio, shared":
		cfg = fake.Command(t, "gossip")
		cfg.Shared = true
	}
	cfg.Name = "gossip"
	transport := upstream.NewTransport(nil, cfg)
	t.Cleanup(transport.CloseIdleConnections)
	u, err := upstream.New(cfg, upstream.Deps{Log: slog.New(slog.NewTextHandler(log, nil)), HTTP: transport})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fake.Close(t, u) })
	return u, session, log
}

// hearing makes a call that wants all events; events receives them.
func hearing(name, session string, events chan<- string) *mcp.Call {
	c := fake.Tool(name)
	c.Session, c.LogLevel = session, "debug"
	c.Params = mcp.Raw(`{"name":"` + name + `","_meta":{"progressToken":"t"}}`)
	c.Notify = func(e mcp.Event) { events <- e.Method + " " + string(e.Params) }
	return c
}

var sharedPipes = []string{"stdio, shared", "stdio, stateless", "HTTP+SSE"}

// Messages of a shared process that name no call belong to nobody: not even to the only
// call under way.
func TestLogsOfASharedProcessAreForNoCall(t *testing.T) {
	for _, how := range sharedPipes {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			u, session, log := startGossip(t, how)
			alice, bob := make(chan string, 20), make(chan string, 20)
			fake.MustDo(t, u, hearing("leave", session("alice"), alice))
			ctx, cancel := context.WithCancel(t.Context())
			held := make(chan error, 1)
			go func() {
				_, err := u.Handle(ctx, hearing("hold", session("alice"), alice))
				held <- err
			}()
			select {
			case e := <-alice:
				if !strings.Contains(e, "held") {
					t.Errorf("alice is told %s", e)
				}
			case <-time.After(fake.Patience):
				t.Fatal("alice's call does not begin")
			}
			cancel()
			if err := <-held; err != context.Canceled {
				t.Errorf("alice's call ended with %v", err)
			}
			reply := fake.MustDo(t, u, hearing("hear", session("bob"), bob))
			if !strings.Contains(string(reply.Result), "heard") {
				t.Errorf("bob's result is %s", reply.Result)
			}
			close(bob)
			var heard []string
			for e := range bob {
				heard = append(heard, e)
			}
			if len(heard) != 1 || !strings.Contains(heard[0], `"own"`) {
				t.Errorf("bob is told %q, want his own progress alone", heard)
			}
			if len(alice) > 0 {
				t.Errorf("alice is told %q after her calls", <-alice)
			}
			waiting, stop := context.WithTimeout(t.Context(), fake.Patience)
			defer stop()
			if err := log.Await(waiting, `msg="log message"`, 2); err != nil {
				t.Fatalf("%v: %s", err, log)
			}
		})
	}
}

// A process, or a stream, of a single client has no messages of other clients.
func TestLogsOfAPrivateProcessReachItsCall(t *testing.T) {
	cfg := fake.Command(t, "gossip")
	u := fake.Start(t, cfg)
	heard := make(chan string, 20)
	fake.MustDo(t, u, hearing("hear", "bob:session", heard))
	if n := len(heard); n != 3 {
		t.Errorf("%d events, want two log messages and progress", n)
	}
}

// Of two users' calls on one pipe, each gets the answer with its own id,
// whatever else is answered.
func TestIDsOfTwoUsersAreMixedUp(t *testing.T) {
	for _, how := range sharedPipes {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			u, session, _ := startGossip(t, how)
			for range 5 {
				var both sync.WaitGroup
				for _, user := range []string{"alice", "bob"} {
					both.Go(func() {
						c := hearing("pair", session(user), make(chan string, 20))
						c.Params = mcp.Raw(`{"name":"pair","whose":"` + user + `"}`)
						c.Notify = func(e mcp.Event) { t.Errorf("%s is told %s %s", user, e.Method, e.Params) }
						reply, err := fake.Do(t, u, c)
						if err != nil {
							t.Error(err)
						} else if !strings.Contains(string(reply.Result), `"of `+user+`"`) {
							t.Errorf("%s gets %s", user, reply.Result)
						}
					})
				}
				both.Wait()
			}
		})
	}
}

// Over streamable HTTP an answer belongs to the request whose response it is,
// whatever its id says.
func TestAnswerWithTheIDOfAnotherUsersCall(t *testing.T) {
	for _, stateful := range []bool{true, false} {
		t.Run(fmt.Sprint("stateful ", stateful), func(t *testing.T) {
			waits, release := make(chan fake.Message, 1), make(chan struct{})
			f := fake.New(t, stateful, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
				name, _ := mcp.Raw(m.Params).Member("name")
				switch name.Text() {
				case "wait":
					waits <- m
					select {
					case <-release:
					case <-r.Context().Done():
					}
					return false
				case "forge":
					other := <-waits
					fake.Events(w, fake.Event(other, "", `{"content":"forged"}`)+
						`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+string(other.ID)+
						`,"progress":1}}`+"\n\n")
					return true
				}
				return false
			})
			u := f.Upstream(t, upstream.Config{})
			answered := make(chan error, 1)
			go func() {
				c := hearing("wait", "alice:session", make(chan string, 20))
				c.Notify = func(e mcp.Event) { t.Errorf("alice is told %s %s", e.Method, e.Params) }
				reply, err := u.Handle(t.Context(), c)
				if err == nil && string(reply.Result) != fake.OK {
					err = fmt.Errorf("alice's result is %s", reply.Result)
				}
				answered <- err
			}()
			_, err := fake.Do(t, u, hearing("forge", "bob:session", make(chan string, 20)))
			fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
			close(release)
			select {
			case err := <-answered:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(fake.Patience):
				t.Fatal("alice has no answer")
			}
		})
	}
}
