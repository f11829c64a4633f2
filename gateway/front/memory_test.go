package front

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// TestLargeRequests: the memory of large requests is bounded, in total and for each
// user, and small ones pass.
func TestLargeRequests(t *testing.T) {
	const most = 4 << 20
	large := func(tool, id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `",` + meta +
			`,"arguments":{"x":"` + strings.Repeat("x", most-4096) + `"}}}`
	}
	user := func(name string) http.Header {
		return with(modern("tools/call", "slow"), "Test-Issuer", "https://login.example.com", "Test-User", name)
	}
	for _, chunked := range []bool{false, true} {
		name := map[bool]string{false: "of a known length", true: "chunked"}[chunked]
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Config{MaxRequestBytes: most, MaxInFlightBytes: 2 * most})
			send := func(body string, header http.Header) (*http.Response, string) {
				if !chunked {
					return b.send("POST", body, header)
				}
				return b.sendFrom("POST", io.MultiReader(strings.NewReader(body)), header) // its length is unknown
			}
			done := make(chan string, 2)
			for _, name := range []string{"ann", "bob"} { // half of it each
				go func() {
					_, text := send(large("slow", "1"), user(name))
					done <- text
				}()
				receive(t, "the call of "+name, b.script.started)
			}
			for _, name := range []string{"ann", "eve"} {
				resp, text := send(large("slow", `"mine"`), user(name))
				if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" ||
					!strings.HasPrefix(text, `{"jsonrpc":"2.0","id":"mine","error":{"code":50302,`) ||
					!strings.Contains(text, `"retryable":true,"executed":"no"`) {
					t.Errorf("one too many, of %s: %d %v %s", name, resp.StatusCode, resp.Header, text)
				}
			}
			wantCount(t, "large requests too many", b.front.endpoint.Metrics.Bounds[refuse.BoundMemory], 2)
			if resp, text := b.send("POST", call("3", "echo"),
				set(user("eve"), wire.HeaderName, "echo")); resp.StatusCode != http.StatusOK {
				t.Errorf("a small one: %d %s", resp.StatusCode, text)
			}
			for range 2 {
				b.script.release <- struct{}{}
				if text := receive(t, "an answer", done); !strings.Contains(text, `"result"`) {
					t.Errorf("the ones that were taken: %s", text)
				}
			}
			if held := b.front.endpoint.Memory.Held(); held != 0 {
				t.Errorf("%d bytes are held after all was answered", held)
			}
			if resp, text := send(large("echo", "4"), set(user("eve"), wire.HeaderName,
				"echo")); resp.StatusCode != http.StatusOK {
				t.Errorf("when there is room again: %d %.200s", resp.StatusCode, text)
			}
		})
	}
	t.Run("one user has half of it", func(t *testing.T) {
		b := newBench(t, Config{MaxRequestBytes: most, MaxInFlightBytes: 2 * most})
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.send("POST", large("slow", "1"), user("ann"))
		}()
		receive(t, "the call", b.script.started)
		if resp, _ := b.send("POST", large("echo", "2"),
			set(user("ann"), wire.HeaderName, "echo")); resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("more than half for one user: %d", resp.StatusCode)
		}
		if resp, _ := b.send("POST", large("echo", "3"),
			set(user("bob"), wire.HeaderName, "echo")); resp.StatusCode != http.StatusOK {
			t.Errorf("another user: %d", resp.StatusCode)
		}
		b.script.release <- struct{}{}
		<-done
	})
	t.Run("HTTP+SSE, whose POST is over before the call", func(t *testing.T) {
		b := newBench(t, Config{MaxRequestBytes: most, MaxInFlightBytes: 2 * most})
		c := b.oldSession(t, v2024, "{}")
		if err := c.Send(t.Context(), "77", "tools/call",
			`{"name":"slow","arguments":{"x":"`+strings.Repeat("x", most-4096)+`"}}`); err != nil {
			t.Fatal(err)
		}
		receive(t, "the call", b.script.started)
		if held := b.front.endpoint.Memory.Held(); held < most-4096 {
			t.Errorf("%d bytes are held while the call runs", held)
		}
		b.script.release <- struct{}{}
		receive(t, "its end", b.script.ended)
	})
}

// TestResultsAreHeldUntilTheyAreWritten: a result counts until it is written.
func TestResultsAreHeldUntilTheyAreWritten(t *testing.T) {
	b := newBench(t, Config{})
	for _, c := range []string{v2511, v2607} {
		m, _, err := b.client(c).Call(t.Context(), "tools/call", `{"name":"echo"}`)
		if err != nil || m.Error != nil {
			t.Fatalf("%s %v", m.Text, err)
		}
		if b.script.last("tools/call").Room.Take(1 << 20); b.front.endpoint.Memory.Held() != 0 { // it was freed, or it would count
			t.Errorf("%s: what the call held was not given back", c)
		}
	}
}
