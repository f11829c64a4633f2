package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Roles of the child processes, as their first argument.
const (
	roleUpstream = "as-upstream"
	roleBare     = "as-bare"
)

type httpHandler = http.Handler

// role is what a child process does.
type role struct {
	to      string // where bare forwards to
	lists   int    // how many lists upstream has
	classes bool   // whether they differ between classes of clients
	cert    string // PEM files for TLS; "" for none
	key     string
}

// serve is the main function of a child process: it listens at -listen until the context
// ends.
func serve(ctx context.Context, args []string, handler func(role) (httpHandler, error)) error {
	var o role
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	listen := flags.String("listen", "", "address")
	flags.StringVar(&o.to, "to", "", "where to forward")
	flags.IntVar(&o.lists, "lists", lists, "how many lists")
	flags.BoolVar(&o.classes, "classes", false, "whether they differ")
	flags.StringVar(&o.cert, "cert", "", "certificate for TLS")
	flags.StringVar(&o.key, "key", "", "its key")
	if err := flags.Parse(args); err != nil {
		return err
	}
	h, err := handler(o)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	closed := make(chan error, 1)
	go func() {
		<-ctx.Done()
		closed <- server.Close()
	}()
	run := func() error { return server.Serve(l) }
	if o.cert != "" {
		run = func() error { return server.ServeTLS(l, o.cert, o.key) }
	}
	if err := run(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-closed
}

// newBare returns the reference: httputil.ReverseProxy in an ordinary set-up, with enough
// idle connections. It reads the request's body first, because a body that is still being
// sent when the answer arrives can lose that answer (golang/go#40747).
func newBare(to string) (httpHandler, error) {
	target, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true,
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := wire.ReadAll(r.Body, r.ContentLength, wire.DefaultMaxRequest)
		if err != nil {
			http.Error(w, "body", http.StatusBadRequest)
			return
		}
		out := r.WithContext(r.Context())
		out.Body = io.NopCloser(bytes.NewReader(body))
		out.ContentLength = int64(len(body))
		proxy.ServeHTTP(w, out)
	}), nil
}
