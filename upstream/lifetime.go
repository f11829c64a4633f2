package upstream

import (
	"context"
	"slices"
	"sync"
)

// lifetime is the context of an exchange: it has the values of its caller's context and
// ends when it is told to. There is one for each request, and it costs a fraction of
// what context.WithCancelCause does.
type lifetime struct {
	context.Context // the caller's, without its end

	mu    sync.Mutex // guards the fields below
	cause error      // why it has ended; nil as long as it has not
	done  chan struct{}
	after []*func() // to be called at its end
	first [1]*func()
}

func newLifetime(caller context.Context) *lifetime {
	l := &lifetime{Context: context.WithoutCancel(caller)}
	l.after = l.first[:0]
	return l
}

// end ends it. Only the first cause counts; nil stands for context.Canceled.
func (l *lifetime) end(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return
	}
	l.cause = cause
	if l.done != nil {
		close(l.done)
	}
	for _, f := range l.after {
		go (*f)() // as context.AfterFunc does
	}
	l.after = nil
}

// Done is closed at its end.
func (l *lifetime) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.cause != nil {
			close(l.done)
		}
	}
	return l.done
}

// Err is context.Canceled after its end.
func (l *lifetime) Err() error {
	if l.why() != nil {
		return context.Canceled
	}
	return nil
}

// why is why it has ended, nil as long as it has not.
func (l *lifetime) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// AfterFunc is what context.AfterFunc and contexts that are made from this one call.
func (l *lifetime) AfterFunc(f func()) (stop func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		go f()
		return func() bool { return false }
	}
	l.after = append(l.after, &f)
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		i := slices.Index(l.after, &f)
		if i < 0 {
			return false
		}
		l.after = slices.Delete(l.after, i, i+1)
		return true
	}
}
