package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"
)

const (
	// checkEvery is how often the balancer asks replicas whether they are ready.
	checkEvery = 50 * time.Millisecond
	// maxRequest bounds request bodies in bytes.
	maxRequest = 1 << 20
)

// balancer gives each request to the next replica that is ready, like those in deploy. It
// skips a replica that refuses the connection, and it sends nothing twice.
type balancer struct {
	url      string
	replicas []*replica
	next     atomic.Int64
	server   *http.Server
	served   chan struct{}
	stop     context.CancelFunc
	checked  chan struct{}
}

// newBalancer binds the address; start serves.
func newBalancer() (*balancer, net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	return &balancer{url: "http://" + l.Addr().String() + "/mcp"}, l, nil
}

func (b *balancer) start(l net.Listener, replicas []*replica) {
	b.replicas, b.served, b.checked = replicas, make(chan struct{}), make(chan struct{})
	for _, r := range replicas {
		r.proxy = r.newProxy()
	}
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: time.Minute}
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	go func() {
		defer close(b.served)
		_ = b.server.Serve(l) // http.ErrServerClosed, after close
	}()
	go func() {
		defer close(b.checked)
		b.check(ctx)
	}()
}

func (b *balancer) close() {
	b.stop()
	_ = b.server.Close() // cutting the streams is the point
	<-b.served
	<-b.checked
}

// check keeps the list of ready replicas up to date.
func (b *balancer) check(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		for _, r := range b.replicas {
			r.ready.Store(r.isReady(ctx))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// errUnsent marks a request that reached no replica.
var errUnsent = errors.New("soak: not connected")

type bodyKey struct{}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		return // the client is gone
	}
	first := int(b.next.Add(1))
	for i := range b.replicas {
		to := b.replicas[(first+i)%len(b.replicas)]
		if !to.ready.Load() {
			continue
		}
		unsent := false
		again := r.WithContext(context.WithValue(r.Context(), bodyKey{}, &unsent))
		again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if to.proxy.ServeHTTP(w, again); !unsent {
			return
		}
	}
	http.Error(w, "no replica is ready", http.StatusServiceUnavailable)
}

// newProxy returns the proxy to a replica.
func (r *replica) newProxy() *httputil.ReverseProxy {
	dial := (&net.Dialer{Timeout: time.Second}).DialContext
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: r.address})
			p.Out.Host = p.In.Host
		},
		FlushInterval: -1,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 64,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dial(ctx, network, address)
				if err != nil {
					return nil, errors.Join(errUnsent, err)
				}
				return conn, nil
			},
		},
		ErrorLog: quiet(),
		ErrorHandler: func(w http.ResponseWriter, req *http.Request, err error) {
			if unsent, ok := req.Context().Value(bodyKey{}).(*bool); ok && errors.Is(err, errUnsent) {
				*unsent = true
				return
			}
			w.WriteHeader(http.StatusBadGateway)
		},
	}
}
