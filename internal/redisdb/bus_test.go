package redisdb_test

import (
	"context"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/faultproxy"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// patience bounds what has to happen: ten times the second or two that the documentation
// promises.
const patience = 20 * time.Second

// proxied starts a fault proxy in front of a server.
func proxied(t *testing.T, server *redistest.Server) *faultproxy.Proxy {
	t.Helper()
	p, err := faultproxy.Start(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// ear is a Bus that tells a test what it hears.
type ear struct {
	joined, lost chan struct{}
	messages     chan string
}

func listen(t *testing.T, db *redisdb.DB) *ear {
	t.Helper()
	e := &ear{joined: make(chan struct{}, 100), lost: make(chan struct{}, 100), messages: make(chan string, 100)}
	bus := db.Listen(redisdb.Hearing{
		Message: func(channel, payload string) { e.messages <- channel + " " + payload },
		Joined:  func() { e.joined <- struct{}{} },
		Lost:    func() { e.lost <- struct{}{} },
	}, "c")
	t.Cleanup(bus.Close)
	return e
}

func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case v := <-from:
		return v
	case <-ctx.Done():
		t.Fatalf("%s does not happen", what)
		panic("unreachable")
	}
}

// A connection can last while its server is not, any more, the one that others speak to.
func TestBusMoves(t *testing.T) {
	old, fresh := redistest.Start(t), redistest.Start(t)
	p := proxied(t, old)
	db := open(t, redisdb.Config{URL: mcp.Secret("redis://" + p.Addr())})
	db.SetQuiet(200 * time.Millisecond)
	e := listen(t, db)
	receive(t, "listening", e.joined)
	if heard, err := db.Publish(t.Context(), "c", []byte("before")); err != nil || !heard {
		t.Fatal(err)
	}
	if got := receive(t, "a message", e.messages); got != "c before" {
		t.Errorf("heard %q", got)
	}
	if err := p.Redirect(fresh.Addr); err != nil {
		t.Fatal(err)
	}
	client := old.Client()
	defer client.Close()
	if err := client.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	receive(t, "H/182 noticing that nobody speaks there", e.lost)
	receive(t, "H/182 listening where they do", e.joined)
	if heard, err := db.Publish(t.Context(), "c", []byte("after")); err != nil || !heard {
		t.Fatal(err)
	}
	if got := receive(t, "a message", e.messages); got != "c after" {
		t.Errorf("heard %q", got)
	}
}

// H/182: a server that has become a replica is not told anything that only its own
// listeners would hear.
func TestPublishReadOnly(t *testing.T) {
	server, master := redistest.Start(t), redistest.Start(t)
	db := open(t, redisdb.Config{URL: mcp.Secret(server.URL())})
	server.Follow(t, master)
	if _, err := db.Publish(t.Context(), "c", []byte("x")); err == nil {
		t.Error("H/182 a replica took a message")
	}
}

// H/179: a network that swallows everything is noticed, and that it is well again.
func TestBusBlackHole(t *testing.T) {
	p := proxied(t, redistest.Start(t))
	db := open(t, redisdb.Config{URL: mcp.Secret("redis://" + p.Addr())})
	db.SetQuiet(200 * time.Millisecond)
	e := listen(t, db)
	receive(t, "listening", e.joined)
	p.BlackHole()
	receive(t, "H/179 noticing that nothing comes any more", e.lost)
	p.Pass()
	receive(t, "H/179 listening again", e.joined)
}
