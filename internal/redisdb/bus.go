package redisdb

import (
	"context"
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// quietTime is after how long without a message one is sent, to hear it: a connection
	// may last whose server is not, any more, the one that the others speak to.
	quietTime  = 3 * time.Second
	firstRetry = 100 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// Hearing is what a Bus tells; each is called by its one goroutine and must not wait.
type Hearing struct {
	// Message takes a message.
	Message func(channel, payload string)
	// Joined is called when the channels are heard, also anew after they were lost: what
	// was said in between is missed.
	Joined func()
	// Lost is called when they are not heard any more.
	Lost func()
}

// Bus listens to channels, again and again if the connection breaks.
type Bus struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	first  chan struct{} // closed when the first attempt came to something
	once   sync.Once
}

// Listen starts to listen. What it hears has names as they were given to it.
func (db *DB) Listen(hearing Hearing, channels ...string) *Bus {
	ctx, cancel := context.WithCancel(context.Background()) // until Close
	b := &Bus{cancel: cancel, first: make(chan struct{})}
	b.done.Go(func() {
		defer b.attempted()
		for wait := firstRetry; ctx.Err() == nil; wait = min(2*wait, lastRetry) {
			if db.hear(ctx, b, hearing, channels) {
				wait = firstRetry
				hearing.Lost()
			}
			b.attempted()
			select {
			case <-time.After(wait/2 + rand.N(wait/2)):
			case <-ctx.Done():
			}
		}
	})
	return b
}

// WaitFirst returns when the first attempt succeeded or failed, or ctx is over.
func (b *Bus) WaitFirst(ctx context.Context) {
	select {
	case <-b.first:
	case <-ctx.Done():
	}
}

func (b *Bus) attempted() { b.once.Do(func() { close(b.first) }) }

// Close stops listening and waits. It may be called twice.
func (b *Bus) Close() {
	b.cancel()
	b.done.Wait()
}

// hear listens on one connection until that is lost, and reports whether it ever heard.
func (db *DB) hear(ctx context.Context, b *Bus, hearing Hearing, channels []string) (joined bool) {
	names := make(map[string]string, len(channels))
	echo := "echo:" + strings.ToLower(crand.Text())
	keys := []string{db.Key(echo)}
	for _, c := range channels {
		names[db.Key(c)] = c
		keys = append(keys, db.Key(c))
	}
	sub := db.client.Subscribe(ctx, keys...)
	defer sub.Close()
	// A read that waits does not end with ctx.
	stop := context.AfterFunc(ctx, func() { sub.Close() })
	defer stop()
	called, confirmed := false, 0
	for ctx.Err() == nil {
		got, err := sub.ReceiveTimeout(ctx, db.quiet)
		if err != nil {
			timeout, ok := errors.AsType[net.Error](err)
			if !ok || !timeout.Timeout() || called || !joined {
				return joined
			}
			if _, err := db.Publish(ctx, echo, nil); err != nil {
				return joined
			}
			called = true
			continue
		}
		called = false
		switch got := got.(type) {
		case *redis.Subscription:
			if confirmed++; confirmed == len(keys) {
				joined = true
				db.until.Store(0)
				hearing.Joined()
				b.attempted()
			}
		case *redis.Message:
			if channel, ours := names[got.Channel]; ours {
				hearing.Message(channel, got.Payload)
			}
		}
	}
	return joined
}
