package e2e

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestWhatATokenDoesNotOutlive: when a token expires while a call and a stream are
// open, the stream ends cleanly and the call completes.
func TestWhatATokenDoesNotOutlive(t *testing.T) {
	t.Parallel()
	for _, revision := range eras {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			// A busy machine may need more than a short lifetime just to begin.
			for life := 2 * time.Second; !outlived(t, revision, life); life *= 2 {
				if life > patience {
					t.Fatal("it never got as far as that")
				}
			}
		})
	}
}

// outlived reports whether the test finished its preparations before the token expired.
func outlived(t *testing.T, revision string, life time.Duration) bool {
	t.Helper()
	s := scripted(t, statefulServer)
	started, release := make(chan struct{}, 1), make(chan struct{})
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) {
		started <- struct{}{}
		select {
		case <-release:
			c.Text("done")
		case <-c.Done():
		}
	})
	g := guard(t, gateway.Config{
		Auth:      auth.Config{Leeway: new(time.Duration(0))},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
	})
	expires := time.Now().Add(life).Truncate(time.Second)
	c := unopened(t, g.url, revision)
	present(c, g.issuer.Token(claims{"exp": expires.Unix()}))
	late := func(err error) bool {
		t.Helper()
		if time.Now().Before(expires) {
			t.Fatal(err)
		}
		return false
	}
	if err := c.Open(deadline(t)); err != nil {
		return late(err)
	}
	called := make(chan *mcptest.Exchange, 1)
	go func() {
		x, err := c.Send(deadline(t), "tools/call", `{"name":"up__do"}`)
		if err != nil {
			t.Error(err)
		}
		called <- x
	}()
	select {
	case <-started:
	case x := <-called:
		if x == nil {
			t.FailNow()
		}
		defer x.Close()
		return late(errors.New(x.Text()))
	}
	var stream *mcptest.Exchange
	var err error
	if revision == stateless {
		stream, err = c.Send(deadline(t), "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
	} else {
		stream, err = c.Get(deadline(t), "")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if stream.Status != 200 {
		close(release)
		receive(t, "the answer of the call", called).Close()
		return late(errors.New(stream.Text()))
	}
	last := mcptest.Message{}
	for {
		m, err := stream.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("the stream broke: %v", err)
			}
			break
		}
		last = m
	}
	if now := time.Now(); now.Before(expires) {
		t.Errorf("the stream ended %s early", expires.Sub(now))
	}
	if revision == stateless && !last.IsResponse() {
		t.Errorf("the stream ended with %s", last.Text)
	}
	if got := wholeAnswer(t, c, "POST", "{}", nil); got[:3] != "401" {
		t.Errorf("with the same token: %s", got)
	}
	close(release)
	x := receive(t, "the answer of the call", called)
	defer x.Close()
	if m, err := x.Response(); err != nil || said(m) != "done" {
		t.Errorf("the call that ran: %s, %v", m.Text, err)
	}
	return true
}
