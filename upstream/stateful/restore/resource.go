package restore

import "context"

// resource is a resource that has listeners, or that is being unsubscribed.
type resource struct {
	listeners int // guarded by the state's lock
	// busy is full while the server is asked to subscribe or unsubscribe: by a listener, or
	// on behalf of the last one that left.
	busy       chan struct{}
	subscribed bool // guarded by busy
}

// Subscribe subscribes a listener to a resource by making the request, or waits for a
// request under way. If the resource is already subscribed, it returns at once. Errors are
// those of the request and of the context; the listener is then not subscribed.
func (s *State) Subscribe(ctx context.Context, uri string, subscribe func() error) (err error) {
	s.mu.Lock()
	r := s.resources[uri]
	if r == nil {
		r = &resource{busy: make(chan struct{}, 1)}
		s.resources[uri] = r
	}
	r.listeners++
	s.mu.Unlock()
	select {
	case r.busy <- struct{}{}:
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		r.listeners--
		s.tidy(uri, r)
		return context.Cause(ctx)
	}
	if !r.subscribed {
		err = subscribe()
		r.subscribed = err == nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		r.listeners--
	}
	<-r.busy
	s.tidy(uri, r)
	return err
}

// Unsubscribe ends a listener's subscription to a resource. If it was the last listener, the caller
// must tell the server and then call done; otherwise done is nil. New subscribers wait for done.
func (s *State) Unsubscribe(uri string) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resources[uri]
	if r.listeners--; r.listeners > 0 || s.ended {
		return nil
	}
	r.busy <- struct{}{} // it is free: a holder would be listening
	r.subscribed = false
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		<-r.busy
		s.tidy(uri, r)
	}
}

// tidy is called with mu held.
func (s *State) tidy(uri string, r *resource) {
	if r.listeners == 0 && len(r.busy) == 0 {
		delete(s.resources, uri)
	}
}

// Wanted returns those of the resources that have listeners.
func (s *State) Wanted(uris []string) (some []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, uri := range uris {
		if r := s.resources[uri]; r != nil && r.listeners > 0 {
			some = append(some, uri)
		}
	}
	return some
}

// subscribed reports whether a listener subscribed to a resource or to one that it is a part of. If
// the URIs show no such subscription, the server means a part of some subscribed resource; then
// every subscriber may be meant, if all are the same client. mu is held.
func (s *State) subscribed(uri string) bool {
	for own, r := range s.resources {
		if r.listeners > 0 && partOf(uri, own) {
			return true
		}
	}
	return false
}
