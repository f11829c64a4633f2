package accounts

import (
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
)

// nativeCallback is the path to which the browser of the one user comes back.
const nativeCallback = "/callback"

// SignIn signs the user of this machine, whose account was in a state before, in at a server: it calls open with the
// page for the browser, and waits for the browser at a port of 127.0.0.1 (RFC 8252 §7.3), 0 for one of its choice. The
// Flow needs no PublicURL. Errors are a *Problem, or that of ctx.
func (f Flow) SignIn(ctx context.Context, s Server, before vault.State, port int,
	open func(url string)) (grant vault.Grant, err error) {
	var who vault.Owner // the one user of this machine
	ctx, cancel := context.WithTimeoutCause(ctx, longest, problem(nil, "The browser did not come back within %s", longest))
	defer cancel()
	listener, err := listen(s, port)
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
	server := &http.Server{ReadHeaderTimeout: requestTime, MaxHeaderBytes: 2 * maxToken}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if r.Method != http.MethodGet || r.URL.Path != nativeCallback {
			http.NotFound(w, r)
			return
		}
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

// listen listens where the browser comes back. A port of its choice is the same for a server each time, if it is free:
// registrations name it.
func listen(s Server, port int) (net.Listener, error) {
	const host, first, ports = "127.0.0.1:", 20000, 10000
	if port != 0 {
		return net.Listen("tcp", host+strconv.Itoa(port))
	}
	hash := fnv.New32()
	_, _ = hash.Write([]byte(s.URL))
	listener, err := net.Listen("tcp", host+strconv.Itoa(first+int(hash.Sum32()%ports)))
	if err != nil {
		listener, err = net.Listen("tcp", host+"0")
	}
	return listener, err
}
