package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// serveFaulty is a process that serves a session of the scripted server at an address.
// While a file names a fault, it has that fault.
func serveFaulty(address, file string) error {
	fault := func() string {
		text, err := os.ReadFile(file)
		if err != nil {
			return "" // mended
		}
		return string(text)
	}
	if fault() == "crash loop" {
		fmt.Fprintln(os.Stderr, "secret: cannot open database")
		os.Exit(1)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	var mu sync.Mutex // one line at a time
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format, args...)
	}
	go func() {
		lines := bufio.NewReader(conn)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				os.Exit(0)
			}
			say("%s", line)
		}
	}()
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if now := fault(); now != "" && json.Unmarshal(line, &m) == nil && m.Method == "tools/call" &&
			playFault(now, m.ID, say) {
			continue
		}
		if _, err := conn.Write(line); err != nil {
			return err
		}
	}
}

// playFault plays the fault for a call with this id, and reports whether the call ends with
// it.
func playFault(fault string, id json.RawMessage, say func(format string, args ...any)) (all bool) {
	switch fault {
	case "crash", "crash loop":
		fmt.Fprintln(os.Stderr, "panic: secret")
		os.Exit(3)
	case "hang":
		return true
	case "stderr":
		line := bytes.Repeat([]byte("secret "), 1<<17)
		for range 20 {
			_, _ = os.Stderr.Write(line) // whether or not anybody reads it
		}
	case "rubbish":
		say("%s", strings.Repeat("secret rubbish\n\x00\xff\n{}\n[]\n", 10))
	case "much rubbish":
		say("%s", strings.Repeat("secret rubbish\n", 200))
	case "line":
		for range 40 {
			say("%s", strings.Repeat("x", 1<<20))
		}
		return true
	case "ids":
		say("{\"jsonrpc\":\"2.0\",\"id\":\"x%s\",\"result\":{\"wrong\":1}}\n{\"jsonrpc\":\"2.0\",\"id\":99999,\"result\":{\"wrong\":2}}\n", id)
		for _, text := range []string{"done", "again"} {
			say("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"resultType\":\"complete\",\"content\":[{\"type\":\"text\",\"text\":%q}]}}\n", id, text)
		}
		return true
	}
	return false
}

// TestProcessFaults: faults of a server that is a process, one of each era, with clients of
// each era.
func TestProcessFaults(t *testing.T) {
	mcptest.Long(t)
	lost := verdict{200, 50202, "unknown", "was lost before its answer came; it may have done what was asked"}
	for _, tt := range []struct {
		name  string
		fault string
		want  verdict // zero: an answer like any other
	}{
		{"it crashes in mid-call", "crash", lost},
		{"rubbish between messages", "rubbish", verdict{}},
		{"nothing but rubbish", "much rubbish", lost},
		{"a line without an end", "line", lost},
		{"wrong ids and two answers", "ids", verdict{}},
		{"20 MiB on stderr", "stderr", verdict{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, broken := newProcesses(t)
			broken(tt.fault)
			outcomes := make(chan faultOutcome, 4)
			var waits []func()
			for _, name := range []string{"older", "newer"} {
				waits = append(waits, s.all(t, name, 1, func(o faultOutcome) { outcomes <- o }))
			}
			s.undisturbed(t)
			for range cap(outcomes) {
				o := receive(t, "an outcome", outcomes)
				if tt.want.code != 0 {
					tt.want.check(t, o)
				} else if o.err != nil || o.Error != nil || said(o.Message) != "done" {
					t.Errorf("client %s, upstream %s: %s, %v", o.client, o.upstream, o.Text, o.err)
				}
			}
			for _, wait := range waits {
				wait()
			}
			broken("")
			for _, name := range []string{"older", "newer"} {
				s.healed(t, name)
			}
			s.undisturbed(t)
			s.nothingLeft(t)
		})
	}
}

// TestProcessCrashLoop: the process of a session exits as soon as it starts, again and
// again, until it is mended.
func TestProcessCrashLoop(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	s, broken := newProcesses(t)
	broken("crash loop")
	verdict{200, 50202, "unknown", "it may have done what was asked"}.check(t, s.call(t, s.clients[0], "older"))
	notRun := verdict{200, 50202, "no", "it did not get the call; try again later"}
	notRun.check(t, s.call(t, s.clients[0], "older"))
	s.is(t, "older", upstream.StateDown, "handshake")
	s.undisturbed(t)
	broken("")
	s.healed(t, "older")
	s.undisturbed(t)
	s.nothingLeft(t)
}

// newProcesses returns a scene whose servers are processes. broken gives them a fault, ""
// for none.
func newProcesses(t *testing.T) (s *scene, broken func(fault string)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fault")
	var cfg gateway.Config
	for name, revision := range map[string]string{"older": statefulServer, "newer": stateless} {
		server := scripted(t, revision)
		server.Tools("do")
		server.Tool("do", func(c *mcptest.Call) { c.Text("done") })
		address, err := server.ListenLines()
		if err != nil {
			t.Fatal(err)
		}
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: name,
			Command: []string{os.Args[0], faultyCommand, address, file}})
	}
	s = &scene{}
	s.open(t, cfg)
	for _, u := range cfg.Upstreams {
		s.healed(t, u.Name)
	}
	return s, func(fault string) {
		t.Helper()
		if fault == "" {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			return
		}
		next := file + ".new" // in one step: a reader never sees half of it
		if err := os.WriteFile(next, []byte(fault), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
	}
}
