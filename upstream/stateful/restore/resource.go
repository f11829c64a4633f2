package restore

import "context"

// resource is one that somebody listens to, or that is being unsubscribed. The state's lock
// guards it.
type resource struct {
	listeners int
	request   *request      // the last one that subscribes to it; nil for none
	leaving   chan struct{} // closed when it is unsubscribed; nil while it is not
}

// request is a resources/subscribe.
type request struct {
	done chan struct{} // closed when it is over
	ok   bool          // read after that
}

func (r *request) failed() bool {
	select {
	case <-r.done:
		return !r.ok
	default:
		return false
	}
}

// Subscribe subscribes a listener to a resource by making the request, or waits for one that
// is under way. Where there was one already it returns at once. Errors are those of the
// request and of the context; the listener has not subscribed then.
func (s *State) Subscribe(ctx context.Context, uri string, subscribe func() error) error {
	r := s.count(uri)
	for {
		req, ours := s.request(r)
		if ours {
			err := s.left(ctx, r)
			if err == nil {
				err = subscribe()
			}
			req.ok = err == nil
			close(req.done)
			if err != nil {
				s.uncount(uri, r)
			}
			return err
		}
		select {
		case <-req.done:
			if req.ok {
				return nil
			}
		case <-ctx.Done():
			s.uncount(uri, r)
			return context.Cause(ctx)
		}
	}
}

// Unsubscribe ends what a listener has subscribed to. Where nobody listens to it any more,
// the server is to be told, and then done is called; else that is nil.
func (s *State) Unsubscribe(uri string) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resources[uri]
	if r.listeners--; r.listeners > 0 || s.ended {
		return nil
	}
	leaving := make(chan struct{})
	r.request, r.leaving = nil, leaving
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(leaving)
		r.leaving = nil
		s.tidy(uri, r)
	}
}

// Wanted returns those of the resources that somebody listens to.
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

func (s *State) count(uri string) *resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resources[uri]
	if r == nil {
		r = &resource{}
		s.resources[uri] = r
	}
	r.listeners++
	return r
}

func (s *State) uncount(uri string, r *resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.listeners--; r.listeners == 0 {
		r.request = nil
	}
	s.tidy(uri, r)
}

// tidy is called with mu held.
func (s *State) tidy(uri string, r *resource) {
	if r.listeners == 0 && r.leaving == nil {
		delete(s.resources, uri)
	}
}

// request returns the request that subscribes to a resource; ours says that it is to be made
// now.
func (s *State) request(r *resource) (req *request, ours bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.request != nil && !r.request.failed() {
		return r.request, false
	}
	r.request = &request{done: make(chan struct{})}
	return r.request, true
}

// left waits until nobody unsubscribes a resource any more, which must not overtake who
// subscribes to it anew.
func (s *State) left(ctx context.Context, r *resource) error {
	for {
		s.mu.Lock()
		leaving := r.leaving
		s.mu.Unlock()
		if leaving == nil {
			return nil
		}
		select {
		case <-leaving:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// subscribed reports whether anybody subscribed to a resource or to what it is a part of.
// Where nobody did as far as its URI tells, the server means a part of something, and every
// subscriber may have, if all are the same client. mu is held.
func (s *State) subscribed(uri string) bool {
	for own, r := range s.resources {
		if r.listeners > 0 && partOf(uri, own) {
			return true
		}
	}
	return false
}
