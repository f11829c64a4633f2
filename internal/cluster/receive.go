package cluster

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// Receiver takes the requests that other replicas forward here (Forwarded).
type Receiver interface {
	http.Handler
	// ReleaseHome gives up a home (Home.Key) after another replica has forwarded a request for it.
	// This one is about to stop, and runs nothing more for the home.
	ReleaseHome(home string)
}

// arrived holds what a forward carries beside the request.
type arrived struct {
	caller []byte
	home   string
}

// arrivedKey is the context key of *arrived.
type arrivedKey struct{}

// Forwarded returns what another replica forwarded with a request: what the caller proved
// there, and the home of the request. ok is false for a client's request.
func Forwarded(r *http.Request) (caller []byte, home string, ok bool) {
	a, ok := r.Context().Value(arrivedKey{}).(arrived)
	return a.caller, a.home, ok
}

// Moved answers a forwarded request for a home that is not here: nothing was done. The sender then
// looks up the owner again; a forwarded request is never forwarded again.
func Moved(w http.ResponseWriter) {
	w.Header().Set(outcomeHeader, linkMoved)
	w.WriteHeader(http.StatusMisdirectedRequest)
}

// ServeHTTP serves forwards, says whether this replica reaches Redis, and answers what operators
// ask of all replicas.
func (l *link) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if path := r.URL.Path; (path == contactPath || path == lookPath) && r.Header[carriedHeader] == nil {
		if path == lookPath {
			l.members.look(r.Context(), l.members.now())
		}
		_, _ = io.WriteString(w, l.members.reaches()) // a peer that has left does not read it
		return
	}
	if strings.HasPrefix(r.URL.Path, askedPath+"/") && r.Header[carriedHeader] == nil {
		l.answer(w, r)
		return
	}
	from := r.TLS.PeerCertificates[0].Subject.CommonName // its certificate is pinned
	home, caller, err := l.carried.read(from, r)
	if err != nil {
		l.count.refused.Inc()
		l.log.Warn("a forward was refused", failure.ForwardRefused.Attr(), "replica", from, "error", err)
		w.Header().Set(outcomeHeader, linkRefused)
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if !l.enter() { // this replica is ending: the next replica that is asked gets the home
		l.handler.ReleaseHome(home)
		w.Header().Set("Connection", "close") // see close
		Moved(w)
		return
	}
	defer l.running.Done()
	r = r.WithContext(context.WithValue(r.Context(), arrivedKey{}, arrived{caller, home}))
	r.Header.Del(carriedHeader)
	l.handler.ServeHTTP(w, r)
}
