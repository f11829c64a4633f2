package mcptest_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestServerOverLines asks during a call over stdio, and learns that a call has ended.
func TestServerOverLines(t *testing.T) {
	s := mcptest.NewServer(wire.Lookup("2025-06-18"))
	t.Cleanup(s.Close)
	ended := make(chan struct{})
	s.On("tools/call", func(c *mcptest.Call) {
		answer, err := c.Ask("roots/list", "{}")
		if err == nil {
			c.Text("answered " + string(answer.Result))
		}
		<-c.Done()
		close(ended)
	})
	address, err := s.ListenLines()
	if err != nil {
		t.Fatal(err)
	}
	in, say := io.Pipe()
	heard, out := io.Pipe()
	go func() {
		_ = mcptest.Carry(address, in, out) // the server ends it
		out.Close()
	}()
	lines := bufio.NewScanner(heard)
	tell := func(line string) {
		t.Helper()
		if _, err := io.WriteString(say, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	want := func(part string) {
		t.Helper()
		if !lines.Scan() || !strings.Contains(lines.Text(), part) {
			t.Fatalf("heard %q, %v: want %q", lines.Text(), lines.Err(), part)
		}
	}
	tell(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`)
	want(`"protocolVersion":"2025-06-18"`)
	tell(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if err := s.AwaitGETStreams(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	tell(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`)
	want(`"method":"roots/list"`)
	id := strings.Split(strings.SplitAfter(lines.Text(), `"id":`)[1], ",")[0]
	tell(`{"jsonrpc":"2.0","id":` + id + `,"result":{"roots":[]}}`)
	want(`answered {\"roots\":[]}`)
	tell(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	<-ended
	session := s.Received("tools/call")[0].Session
	if hello := s.Hello(session); hello.Method != "initialize" {
		t.Errorf("the session %q began with %q", session, hello.Text)
	}
	s.Lose(session)
	if lines.Scan() {
		t.Errorf("after the end: %s", lines.Text())
	}
	say.Close()
}

// TestServerOverLinesSaysAtOnce: from its first message after the handshake on, a client
// gets what the server sends, however busy the machine is.
func TestServerOverLinesSaysAtOnce(t *testing.T) {
	for range 200 { // a lost notification is rare
		saysAtOnce(t)
	}
}

func saysAtOnce(t *testing.T) {
	t.Helper()
	s := mcptest.NewServer(wire.Lookup("2024-11-05"))
	defer s.Close()
	told := make(chan int, 1)
	s.On("resources/subscribe", func(*mcptest.Call) { told <- s.Push("notifications/tools/list_changed", "{}") })
	address, err := s.ListenLines()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// Both can be read without a wait between them.
	_, err = io.WriteString(conn, `{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:b"}}
`)
	if err != nil {
		t.Fatal(err)
	}
	if n := <-told; n != 1 {
		t.Errorf("%d streams were told", n)
	}
}
