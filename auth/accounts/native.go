package accounts

import (
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
)

// nativeCallback is the path to which the browser of the one user comes back.
const nativeCallback = "/callback"

// SignIn signs the user of this machine, whose account was in a state before, in at a server: it calls open with the
// page for the browser, and waits for the browser at a port of 127.0.0.1 (RFC 8252 §7.3). The Flow needs no
// PublicURL. Errors are a *Problem, or that of ctx.
func (f Flow) SignIn(ctx context.Context, s Server, before vault.State, open func(url string)) (grant vault.Grant,
	err error) {
	var who vault.Owner // the one user of this machine
	ctx, cancel := context.WithTimeoutCause(ctx, longest, problem(nil, "The browser did not come back within %s", longest))
	defer cancel()
	listener, err := listen(s)
	if err != nil {
		return grant, problem(err, "The browser could not come back to this machine")
	}
	defer listener.Close()
	f.PublicURL, f.Callback = "http://"+listener.Addr().String(), nativeCallback
	way, err := f.begin(ctx, s, who, "", "", before)
	if err != nil {
		return grant, err
	}
	type result struct {
		grant vault.Grant
		err   error
	}
	done := make(chan result, 1)
	mux := http.NewServeMux()
	server := &http.Server{Handler: mux, ReadHeaderTimeout: requestTime, MaxHeaderBytes: 2 * maxToken}
	mux.HandleFunc("GET "+nativeCallback, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		e, err := f.end(ctx, s.Name, r.URL.Query(), who, "", func(string) (Server, bool) { return s, true })
		switch {
		case e.server == "": // of another page, or another sign-in: the right one may still come
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		case err != nil:
			http.Error(w, "You are not signed in: "+err.Error(), http.StatusBadGateway)
		default:
			fmt.Fprintf(w, "You are signed in at %s. You can close this page and go back.\n", hostOf(s.URL))
		}
		select {
		case done <- result{e.grant, err}:
		default: // another answer was first
		}
	})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	open(way.URL)
	var got result
	select {
	case got = <-done:
	case <-ctx.Done():
		got.err = context.Cause(ctx)
	}
	bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	if server.Shutdown(bounded) != nil { // the page may be on its way
		server.Close()
	}
	<-served
	return got.grant, got.err
}

// listen listens where the browser comes back: for a server always at the same port, since registrations name it,
// unless another program has that.
func listen(s Server) (net.Listener, error) {
	const first, ports = 20_000, 10_000
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(s.URL))
	listener, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", first+hash.Sum32()%ports))
	if err != nil {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	return listener, err
}
