package cluster

import (
	"context"
	"sync"
	"time"
)

// after returns a context that ends some time after ctx, as far as that is known now.
func after(ctx context.Context, pause time.Duration) (context.Context, context.CancelFunc) {
	late := context.WithoutCancel(ctx)
	end, limited := ctx.Deadline()
	switch {
	case ctx.Err() != nil:
		return context.WithTimeout(late, pause)
	case limited:
		return context.WithDeadline(late, end.Add(pause))
	}
	return context.WithCancel(late)
}

// waitFor waits for a group until ctx ends. What then still runs has ended connections, or waits
// for Redis, and ends soon.
func waitFor(ctx context.Context, group *sync.WaitGroup) {
	over := make(chan struct{})
	go func() { // ends with the group
		group.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done():
	}
}
