package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
)

const (
	// nativeCallback is the path to which the browser of the one user comes back.
	nativeCallback = "/callback"
	// portRoom begins the names of the ports to which it came back for servers.
	portRoom = "port "
)

// SignIn signs the user of this machine in at a server: it calls open with the page for the browser, waits for the
// browser at a port of 127.0.0.1 (RFC 8252 §7.3), and keeps in the vault what the server gives. A port of 0 is that of
// the last time, for authorization servers that allow no other, or a free one. The Flow needs no PublicURL. Errors
// are a *Problem, those of the vault, or that of ctx.
func (f Flow) SignIn(ctx context.Context, s Server, v Vault, port int, open func(url string)) error {
	var who vault.Owner // the one user of this machine
	ctx, cancel := context.WithTimeoutCause(ctx, longest, problem(nil, "The browser did not come back within %s", longest))
	defer cancel()
	listener, err := f.listen(ctx, s, port)
	if err != nil {
		return problem(err, "The browser could not come back to this machine")
	}
	defer listener.Close()
	f.PublicURL, f.Callback = "http://"+listener.Addr().String(), nativeCallback
	states, err := v.States(ctx, who, []string{s.Name})
	if err != nil {
		return err
	}
	state := states[0]
	if state.Unknown != "" {
		if err := f.unknown(ctx, s.Name, state.AuthServer, state.Unknown); err != nil {
			return err
		}
	}
	var more []string
	if len(state.Wanted) > 0 { // what the user had must not be lost
		more = append(scopesIn(state.Scope), state.Wanted...)
	}
	way, err := f.begin(ctx, s, who, "", "", more...)
	if err != nil {
		return err
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
	if got.err != nil {
		return got.err
	}
	return v.Keep(ctx, who, s.Name, got.grant)
}

// listen listens where browsers come back.
func (f Flow) listen(ctx context.Context, s Server, port int) (net.Listener, error) {
	const host = "127.0.0.1:"
	if port != 0 {
		return net.Listen("tcp", host+strconv.Itoa(port))
	}
	last, err := f.Store.Get(ctx, portRoom+s.Name)
	if err != nil && !errors.Is(err, expiring.ErrNone) {
		return nil, err
	}
	listener, err := net.Listen("tcp", host+cmp.Or(string(last), "0"))
	if err != nil {
		listener, err = net.Listen("tcp", host+"0")
	}
	if err != nil {
		return nil, err
	}
	u, err := url.Parse("http://" + listener.Addr().String())
	if err == nil {
		err = f.Store.Put(ctx, portRoom+s.Name, []byte(u.Port()), registeredFor)
	}
	if err != nil {
		listener.Close()
	}
	return listener, err
}
