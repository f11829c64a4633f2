package cluster

import (
	"context"
	"io"
	"net/http"
)

// arrived is what came with a forwarded request.
type arrived struct {
	caller []byte
	home   string
}

// arrivedKey is the key of that in the request's context.
type arrivedKey struct{}

// Forwarded returns what another replica forwarded beside a request: what the caller proved
// there, and for which home it came. ok is false for a request of a client.
func Forwarded(r *http.Request) (caller []byte, home string, ok bool) {
	a, ok := r.Context().Value(arrivedKey{}).(arrived)
	return a.caller, a.home, ok
}

// Moved answers a forwarded request whose home is not here: nothing was done. The replica
// that has sent it asks again whose the home is; a forwarded request is not forwarded again.
func Moved(w http.ResponseWriter) {
	w.Header().Set(outcomeHeader, linkMoved)
	w.WriteHeader(http.StatusMisdirectedRequest)
}

// ServeHTTP takes what other replicas forward, and says how this one stands.
func (l *link) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == standingPath && r.Header[carriedHeader] == nil {
		_, _ = io.WriteString(w, l.members.tell().String()) // a peer that has left does not care
		return
	}
	from := r.TLS.PeerCertificates[0].Subject.CommonName // its certificate is pinned
	home, caller, err := l.carried.read(from, r)
	if err != nil {
		l.count.refused.Inc()
		l.log.Warn("a forward was refused", "replica", from, "error", err)
		w.Header().Set(outcomeHeader, linkRefused)
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if !l.enter() { // this replica ends: whoever asks for the home next has it
		_ = l.leave(r.Context(), home)
		Moved(w)
		return
	}
	defer l.running.Done()
	r = r.WithContext(context.WithValue(r.Context(), arrivedKey{}, arrived{caller, home}))
	r.Header.Del(carriedHeader)
	l.handler.ServeHTTP(w, r)
}
