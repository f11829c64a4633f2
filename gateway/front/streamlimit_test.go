package front

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// crowd opens streams of one user, each for as long as the test lasts.
type crowd struct {
	*bench
	t      *testing.T
	header http.Header
}

func newCrowd(t *testing.T, b *bench, user string) *crowd {
	return &crowd{b, t, http.Header{"Test-Issuer": {"https://login.example.com"}, "Test-User": {user}}}
}

func (c *crowd) newClient(revision string) *mcptest.Client {
	c.t.Helper()
	client := mcptest.NewClient(c.url, wire.Lookup(revision))
	client.Header = c.header
	if err := client.Open(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	return client
}

// get, listen and oldSSE each open a stream of a new client.
func (c *crowd) get() *mcptest.Exchange { return c.getAgain(c.newClient(v2511)) }

func (c *crowd) getAgain(client *mcptest.Client) *mcptest.Exchange {
	c.t.Helper()
	x, err := client.Get(c.t.Context(), "")
	return c.opened(x, err)
}

func (c *crowd) listen() *mcptest.Exchange {
	c.t.Helper()
	x, err := c.newClient(v2607).SendID(c.t.Context(), `"mine"`, mcp.MethodListen,
		`{"notifications":{"toolsListChanged":true}}`)
	return c.opened(x, err)
}

func (c *crowd) oldSSE() *mcptest.Exchange {
	c.t.Helper()
	client := mcptest.NewClient(c.url+ssePath, wire.Lookup(v2024))
	client.Header = c.header
	x, err := client.Get(c.t.Context(), "")
	return c.opened(x, err)
}

func (c *crowd) opened(x *mcptest.Exchange, err error) *mcptest.Exchange {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(x.Close)
	return x
}

// TestStreamsOfAUser: one user tries to open all streams.
func TestStreamsOfAUser(t *testing.T) {
	const most = 3
	for _, tt := range []struct {
		name string
		open func(*crowd) *mcptest.Exchange
		id   string
	}{
		{"GET", (*crowd).get, ""},
		{"subscriptions/listen", (*crowd).listen, `"id":"mine",`},
		{"HTTP+SSE", (*crowd).oldSSE, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{StreamsPerUser: most})
			eve := newCrowd(t, b, "eve")
			first := eve.get()
			eve.oldSSE()
			eve.listen() // one of each reaches the bound
			for range 2 {
				x := tt.open(eve)
				if x.Status == http.StatusOK {
					t.Fatal("one too many is open")
				}
				text := x.Text()
				if x.Status != http.StatusTooManyRequests || x.Header.Get("Retry-After") == "" || x.Stream ||
					!strings.HasPrefix(text, `{"jsonrpc":"2.0",`+tt.id+`"error":{"code":42901,"message":"too many event streams`) ||
					!strings.Contains(text, `"retryable":true,"executed":"no"`) {
					t.Errorf("one too many: %d %v %s", x.Status, x.Header, text)
				}
			}
			wantCount(t, "streams too many", b.front.endpoint.Metrics.Bounds[refuse.BoundStreams], 2)
			// Calls continue, and other users are not affected.
			if m, _, err := eve.newClient(v2607).Call(t.Context(), "tools/call", `{"name":"echo"}`); err != nil ||
				m.Error != nil {
				t.Errorf("a call: %s %v", m.Text, err)
			}
			if x := tt.open(newCrowd(t, b, "ann")); x.Status != http.StatusOK {
				t.Errorf("another user: %d %s", x.Status, x.Text())
			}
			first.Close()
			b.awaitStreams(t, eve, most-1)
			if x := tt.open(eve); x.Status != http.StatusOK {
				t.Errorf("after one was closed: %d %s", x.Status, x.Text())
			}
		})
	}
}

// awaitStreams waits until a user has this many streams open.
func (b *bench) awaitStreams(t *testing.T, of *crowd, want int) {
	t.Helper()
	user := mcp.Caller{Issuer: of.header.Get("Test-Issuer"), Subject: of.header.Get("Test-User")}.User()
	timeout := time.After(tooLong)
	for {
		n := b.front.endpoint.Running.PerUser.Has(user)
		if n == want {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-timeout:
			t.Fatalf("%d streams are open, want %d", n, want)
		}
	}
}

// TestAReconnectTakesThePlaceOfTheOldStream: the old connection may not have been seen to fail
// yet, and the user may be at the bound.
func TestAReconnectTakesThePlaceOfTheOldStream(t *testing.T) {
	b := newBench(t, Config{StreamsPerUser: 2})
	ann := newCrowd(t, b, "ann")
	client := ann.newClient(v2511)
	oldest, other := ann.getAgain(client), ann.get()
	for range 5 {
		newest := ann.getAgain(client)
		if newest.Status != http.StatusOK {
			t.Fatalf("status %d: %s", newest.Status, newest.Text())
		}
		oldest.Text() // it ends
		oldest = newest
		b.awaitStreams(t, ann, 2)
	}
	if x := ann.get(); x.Status != http.StatusTooManyRequests {
		t.Errorf("another session: %d", x.Status)
	}
	b.script.waitListening(t, 2)
	b.script.emit(mcp.NoteToolsListChanged, `{}`)
	for _, x := range []*mcptest.Exchange{oldest, other} {
		if m, err := x.Next(); err != nil || m.Method != mcp.NoteToolsListChanged {
			t.Errorf("a stream that was left alone: %s %v", m.Text, err)
		}
	}
}

// TestWithoutAuthenticationStreamsAreNotCounted: there is one user, who is everybody.
func TestWithoutAuthenticationStreamsAreNotCounted(t *testing.T) {
	b := newBench(t, Config{StreamsPerUser: 1})
	nobody := &crowd{b, t, nil}
	for range 3 {
		if x := nobody.get(); x.Status != http.StatusOK {
			t.Fatalf("status %d: %s", x.Status, x.Text())
		}
	}
}
