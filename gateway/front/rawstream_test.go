package front

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// raw is an event stream, line by line.
type raw struct {
	resp  *http.Response
	lines chan string
	close context.CancelFunc
}

// rawStream makes a request whose answer is a stream. It is a GET if body is empty.
func rawStream(t *testing.T, b *bench, c *mcptest.Client, body string) *raw {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, b.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.Session != "" {
		req.Header.Set(wire.HeaderSession, c.Session)
	} else {
		req.Header.Set(wire.HeaderVersion, c.Revision.Name)
	}
	for name, values := range c.Header {
		req.Header[name] = values
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{resp: resp, lines: make(chan string, 100), close: cancel}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(r.lines)
		scanner := bufio.NewScanner(resp.Body)
		for scanner.Scan() {
			select {
			case r.lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		resp.Body.Close()
		<-read
	})
	return r
}

// line returns the rest of the next line that begins with prefix.
func (r *raw) line(t *testing.T, prefix string) string {
	t.Helper()
	timeout := time.After(tooLong)
	for {
		select {
		case line, ok := <-r.lines:
			if !ok {
				t.Fatalf("the stream ended without a line %q", prefix)
			}
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				return rest
			}
		case <-timeout:
			t.Fatalf("no line %q came", prefix)
		}
	}
}

// id returns the id of the next event.
func (r *raw) id(t *testing.T) string {
	t.Helper()
	return r.line(t, "id: ")
}

// end waits for the stream's end and returns what came until then.
func (r *raw) end(t *testing.T) []string {
	t.Helper()
	var all []string
	timeout := time.After(tooLong)
	for {
		select {
		case line, ok := <-r.lines:
			if !ok {
				return all
			}
			all = append(all, line)
		case <-timeout:
			t.Fatalf("the stream does not end; it had %q", all)
		}
	}
}
