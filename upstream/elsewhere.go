package upstream

import (
	"context"
	"slices"
)

// A resource is unsubscribed by the last replica that has a listener of it: whoever has none
// any more leaves that to the others that are known to have one. Of replicas whose last
// listeners leave at the same moment each has left it to the others, and finds out.

// maxElsewhere bounds at how many other replicas a resource is known to be listened to.
const maxElsewhere = 100

// wantedBy notes that somebody listens to a resource at another replica.
func (k *keep) wantedBy(uri, replica string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.handed, uri)
	at := k.elsewhere[uri]
	if at == nil && len(k.elsewhere) < maxPending {
		at = make(map[string]bool)
		k.elsewhere[uri] = at
	}
	if at != nil && len(at) < maxElsewhere {
		at[replica] = true
	}
}

// leftBy notes that nobody does there any more, and reports whether nobody is known to do
// anywhere while it was left to the others to unsubscribe; to is the first of those, by
// their names, that have left it to others, too.
func (k *keep) leftBy(uri, replica string) (to string, all bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.elsewhere[uri], replica)
	if first, ok := k.handed[uri]; ok && (first == "" || replica < first) {
		k.handed[uri] = replica
	}
	if len(k.elsewhere[uri]) > 0 {
		return "", false
	}
	delete(k.elsewhere, uri)
	to, all = k.handed[uri]
	return to, all
}

// gone notes that a resource was unsubscribed, and reports whether somebody listens to it
// here.
func (k *keep) gone(uri string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.elsewhere, uri)
	delete(k.handed, uri)
	return k.uris[uri] > 0
}

// hands leaves it to other replicas to unsubscribe a resource, if there are any.
func (k *keep) hands(uri string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.elsewhere[uri]) == 0 || k.uris[uri] > 0 {
		return false
	}
	if len(k.handed) < maxPending {
		k.handed[uri] = ""
	}
	return true
}

// takes takes that back.
func (k *keep) takes(uri string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, was := k.handed[uri]
	delete(k.handed, uri)
	return was
}

// others are the replicas at which somebody listens to a resource.
func (k *keep) others(uri string) (replicas []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for replica := range k.elsewhere[uri] {
		replicas = append(replicas, replica)
	}
	slices.Sort(replicas)
	return replicas
}

// leaves reports whether a resource that nobody listens to here is other replicas' to
// unsubscribe. Those that have gone do not count.
func (s *session) leaves(ctx context.Context, uri string) bool {
	if s.bound == nil || s.u.pool.only(s) {
		return false
	}
	k := s.slot.keep
	for _, replica := range k.others(uri) {
		if !s.u.shared.Present(ctx, replica) {
			k.leftBy(uri, replica)
		}
	}
	return k.hands(uri)
}

// letGo unsubscribes a resource that this replica and others have left to each other. One of
// them does it at once, and the rest if it does not.
func (s *session) letGo(uri string, later bool) {
	if later && wait(s.base, claimWait) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.base, goodbye)
	defer cancel()
	k := s.slot.keep
	if k.left(ctx, uri) != nil || !k.takes(uri) {
		return
	}
	if done, ok := k.leave(uri); ok {
		defer done()
		s.askNoMore(ctx, uri)
	}
}

// tellOf tells the other replicas what becomes of a resource at this one.
func (s *session) tellOf(ctx context.Context, about byte, uri string) {
	if s.bound != nil {
		s.tellOthers(ctx, about, []byte(s.u.shared.Self()+" "+uri))
	}
}
