package front

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// exchangeRaw writes bytes to a connection of its own and reads everything that comes.
func exchangeRaw(t *testing.T, b *bench, write func(net.Conn)) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(tooLong))
	write(conn)
	text, _ := io.ReadAll(conn)
	return string(text)
}

const (
	rawHead = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	// echoHead is rawHead for a call of the tool "echo", without Mcp-Name.
	echoHead = rawHead + "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n"
	ping     = `{"jsonrpc":"2.0","id":1,"method":"ping"}` // 40 bytes
	length   = "Content-Length: 40\r\n"
	last     = "Connection: close\r\n"
	smuggled = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
)

// rawCall returns a whole request: a head, its length and a body. It is the connection's last.
func rawCall(head, body string) string {
	return head + last + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)) + body
}

func chunked(head, body string) string {
	return head + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
}

// TestRawHTTP sends what no HTTP library would. The connection must be closed in the end,
// after exactly these answers.
func TestRawHTTP(t *testing.T) {
	b := newBench(t, Config{MaxRequestBytes: 4096})
	echo := call("1", "echo")
	for _, c := range []struct {
		name, send string
		want       []string // statuses
		text       []string
	}{
		{"a body longer than it says", rawHead + length + "\r\n" + ping + `,{"more":1}` + "\r\n\r\n", []string{"200", "400"},
			[]string{`"result":{}`}},
		{"a length beside a chunked body", chunked(rawHead+"Content-Length: 4\r\n", ping) + smuggled, []string{"200"},
			[]string{"Connection: close", `"result":{}`}},
		{"a long length beside a chunked body", chunked(rawHead+"Content-Length: 400\r\n", ping) + smuggled, []string{"200"},
			[]string{"Connection: close"}},
		{"a chunked body alone", chunked(rawHead, ping) + smuggled, []string{"200"}, []string{"Connection: close"}},
		{"too large without a length", chunked(rawHead, ping+strings.Repeat(" ", 4096)), []string{"413"}, []string{`"id":1`}},
		{"two lengths", rawHead + length + "Content-Length: 41\r\n\r\n" + ping, []string{"400"}, nil},
		{"a length with a sign", rawHead + "Content-Length: +40\r\n\r\n" + ping, []string{"400"}, nil},
		{"a list of lengths", rawHead + "Content-Length: 40, 40\r\n\r\n" + ping, []string{"400"}, nil},
		{"one length twice", rawHead + last + length + length + "\r\n" + ping, []string{"200"}, nil}, // harmless: they agree
		{"another transfer coding", rawHead + "Transfer-Encoding: xchunked\r\n\r\n" + ping, []string{"501"}, nil},
		{"identity", rawHead + "Transfer-Encoding: identity\r\n\r\n" + ping, []string{"501"}, nil},
		{"two transfer codings", rawHead + "Transfer-Encoding: gzip, chunked\r\n\r\n" + ping, []string{"501"}, nil},
		{"a chunk extension with a bare LF", rawHead + "Transfer-Encoding: chunked\r\n\r\n28;a\nb\r\n" + ping +
			"\r\n0\r\n\r\n" + smuggled, []string{"400"}, nil},
		{"a bare CR in a value", rawCall(rawHead+"X-A: a\rb\r\n", ping), []string{"400"}, nil},
		{"a NUL in a value", rawCall(rawHead+"X-A: a\x00b\r\n", ping), []string{"400"}, nil},
		{"a space before the colon", rawCall(rawHead+"X-A : a\r\n", ping), []string{"400"}, nil},
		{"two Hosts", rawCall(rawHead+"Host: localhost\r\n", ping), []string{"400"}, nil},
		// A folded value is read as one line, and nobody reads it differently after us:
		// upstreams get headers that we write.
		{"a folded value", rawCall(echoHead+"Mcp-Name:\r\n echo\r\n", echo), []string{"200"}, []string{`"got":null`}},
		{"a value folded in the middle", rawCall(echoHead+"Mcp-Name: ec\r\n ho\r\n", echo), []string{"400"},
			[]string{`-32020`}},
		{"lines that end in LF", strings.ReplaceAll(rawCall(rawHead, ping), "\r\n", "\n"), []string{"200"},
			[]string{`"result":{}`}},
		{"an odd Expect", rawCall(rawHead+"Expect: 200-ok\r\n", ping), []string{"417"}, nil},
		{"a large body is not asked for", rawHead + "Expect: 100-continue\r\nContent-Length: 4097\r\n\r\n",
			[]string{"413"}, nil},
		{"nor one of another type", strings.Replace(rawHead, "json", "xml", 1) + "Expect: 100-continue\r\n" + length + "\r\n",
			[]string{"415"}, nil},
		{"any other is", rawCall(rawHead+"Expect: 100-continue\r\n", ping), []string{"100", "200"}, []string{`"result":{}`}},
		{"HTTP/1.0", strings.Replace(rawHead, "HTTP/1.1", "HTTP/1.0", 1) + length + "\r\n" + ping, []string{"200"},
			[]string{`"result":{}`}},
		{"one after the other, not waiting", rawHead + length + "\r\n" +
			ping + rawCall(rawHead, strings.Replace(ping, "1,", "2,", 1)), []string{"200", "200"},
			[]string{`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":2,"result":{}}`}},
		{"a header called hop by hop is read", rawCall(rawHead+"Connection: Mcp-Session-Id\r\nMcp-Session-Id: nobodys\r\n",
			ping), []string{"404"}, []string{`"id":null`}},
		{"another Host behind a forwarded one", rawCall(strings.Replace(rawHead, "localhost", "evil.example", 1)+
			"X-Forwarded-Host: localhost\r\nForwarded: host=localhost\r\n", ping), []string{"403"}, nil},
		{"a forwarded Host is no Host", rawCall(rawHead+
			"X-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: gopher\r\nX-Forwarded-User: admin\r\n", ping),
			[]string{"200"}, nil},
		{"a long request id", rawCall(rawHead+"X-Request-Id: "+strings.Repeat("i", 10<<10)+"\r\n", ping),
			[]string{"200"}, nil},
		{"two panics", strings.Replace(rawCall(echoHead+"Mcp-Name: panic\r\n", call("1", "panic")), last, "",
			1) + rawCall(echoHead+"Mcp-Name: panic\r\n", call("1", "panic")),
			[]string{"500", "500"}, []string{`-32603`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := exchangeRaw(t, b, func(conn net.Conn) { fmt.Fprint(conn, c.send) })
			var got []string
			for _, m := range regexp.MustCompile(`(?m)HTTP/1\.[01] (\d+) `).FindAllStringSubmatch(text, -1) {
				got = append(got, m[1])
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("statuses %q, want %q: %s", got, c.want, text)
			}
			for _, part := range c.text {
				if !strings.Contains(text, part) {
					t.Errorf("no %q in %s", part, text)
				}
			}
			for _, part := range []string{"goroutine", "iiii", "evil.example", "smuggled"} {
				if strings.Contains(text, part) {
					t.Errorf("%q in %s", part, text)
				}
			}
		})
	}
}

func TestBodyThatDoesNotCome(t *testing.T) {
	b, hasty := newBench(t, Config{}), newBench(t, Config{})
	hasty.front.limits.Time = 50 * time.Millisecond
	const head = rawHead + "Content-Length: 100\r\n\r\n"
	for _, c := range []struct {
		name  string
		b     *bench
		write func(net.Conn)
		want  string
	}{
		{"it stops", hasty, func(c net.Conn) { fmt.Fprint(c, head+"{") }, " 408 "},
		{"it never begins", hasty, func(c net.Conn) { fmt.Fprint(c, head) }, " 408 "},
		{"of a request that accepts nothing", hasty,
			func(c net.Conn) { fmt.Fprint(c, rawHead+"Accept: image/png\r\n"+head[len(rawHead):]) }, " 406 "},
		{"of a GET", hasty, func(c net.Conn) { fmt.Fprint(c, strings.Replace(head, "POST", "GET", 1)) }, " 400 "},
		{"of a DELETE", hasty, func(c net.Conn) { fmt.Fprint(c, strings.Replace(head, "POST", "DELETE", 1)) }, " 400 "},
		{"of another type", hasty, func(c net.Conn) { fmt.Fprint(c, strings.Replace(head, "json", "xml", 1)) }, " 415 "},
		{"its client has finished", b, func(c net.Conn) {
			fmt.Fprint(c, head+"{")
			c.(*net.TCPConn).CloseWrite()
		}, " 400 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if text := exchangeRaw(t, c.b, c.write); !strings.Contains(text, c.want) ||
				!strings.Contains(text, "Connection: close") {
				t.Errorf("got %s, want%s", text, c.want)
			}
		})
	}
	if n := len(b.script.calls) + len(hasty.script.calls); n != 0 {
		t.Errorf("%d calls were made of it", n)
	}
}

func TestSlowReader(t *testing.T) {
	connect := func(t *testing.T, b *bench) net.Conn {
		conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(tooLong))
		return conn
	}
	t.Run("answers that nobody reads", func(t *testing.T) {
		b := newBench(t, Config{})
		b.front.endpoint.Writer.Timeout = time.Second // plenty for those who read
		conn := connect(t, b)
		// Answers of 1 MiB each, until the connection is given up.
		request := []byte(strings.Replace(rawCall(echoHead+"Mcp-Name: large\r\n", call("1", "large")), last, "", 1))
		ended := make(chan error, 1)
		go func() {
			for {
				if _, err := conn.Write(request); err != nil {
					ended <- err
					return
				}
			}
		}()
		// Meanwhile another client is served.
		if resp, _ := b.send("POST", call("1", "echo"), modern("tools/call", "echo")); resp.StatusCode != 200 {
			t.Errorf("status %d", resp.StatusCode)
		}
		if err := receive(t, "the end", ended); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the connection is still open")
		}
	})
	t.Run("a stream that nobody reads", func(t *testing.T) {
		b := newBench(t, Config{})
		b.front.endpoint.Writer.Timeout = time.Second // plenty for those who read
		slow, other := b.client(v2511), b.client(v2511)
		conn := connect(t, b)
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: %s\r\n\r\n", slow.Session)
		b.script.waitListening(t, 1)
		event := `{"uri":"doc://` + strings.Repeat("x", 200<<10) + `"}`
		end := time.After(tooLong)
		for open := 1; open > 0; {
			b.script.emit(mcp.NoteResourceUpdated, event)
			select {
			case <-time.After(time.Millisecond):
			case <-end:
				t.Fatal("the stream is still open")
			}
			open = b.front.Sessions.Load().Streams
		}
		if m, _, err := other.Call(t.Context(), "tools/call", `{"name":"empty"}`); err != nil || m.Error != nil {
			t.Errorf("another client: %s %v", m.Text, err)
		}
	})
}
