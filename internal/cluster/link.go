package cluster

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/big"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/http1"
)

const (
	// maxConnections bounds the connections from other replicas; further ones wait.
	maxConnections = 4096
	// maxStreams bounds the forwards on one connection, including streams that clients keep
	// open.
	maxStreams = 10_000
	// maxHeaders bounds the headers of a forward, including the caller, in bytes.
	maxHeaders = 1 << 20
	// outcomeHeader marks an answer of the link itself. Its values are below.
	outcomeHeader = "Gatehouse-Link"
	linkMoved     = "moved"
	linkRefused   = "refused"
)

// newIdentity makes the certificate of a replica. Other replicas know it by its digest; they
// ignore its signer and its dates.
func newIdentity(name string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cluster: making a certificate: %w", err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cluster: making a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func digestOf(der []byte) []byte {
	sum := sha256.Sum256(der)
	return sum[:]
}

// The protocols of a link, as TLS names them: protoCalls for small requests that end soon,
// protoStreams for all others.
const (
	protoCalls   = "gatehouse-calls" // HTTP/1.1, which net/http would serve itself under its own name
	protoStreams = "h2"
)

// linkTLS is the TLS configuration that both sides of a link have in common.
func linkTLS(identity tls.Certificate, protocols ...string) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: protocols, SessionTicketsDisabled: true}
	if len(identity.Certificate) > 0 {
		c.Certificates = []tls.Certificate{identity}
	}
	return c
}

func onlyHTTP2() *http.Protocols {
	var p http.Protocols
	p.SetHTTP2(true)
	return &p
}

// link accepts the connections of other replicas.
type link struct {
	ctx      context.Context // ends with Close
	listener net.Listener
	members  *members
	carried  *carried
	asked    http.Handler // Deps.Asked
	times    times
	log      *slog.Logger
	count    *Metrics

	handler Receiver // takes the forwards
	server  *http.Server
	calls   *http1.Server  // for small requests
	serving sync.WaitGroup // accepts connections
	conns   sync.WaitGroup // open connections; none is added after serving

	mu      sync.Mutex // guards closed
	closed  bool
	running sync.WaitGroup // requests; none is added after closed is set
}

func newLink(ctx context.Context, listener net.Listener, m *members, c *carried, deps Deps) *link {
	return &link{
		ctx: ctx, listener: netutil.LimitListener(listener, maxConnections), members: m, carried: c,
		asked: deps.Asked, times: m.times, log: m.log, count: m.count,
	}
}

// start serves the link.
func (l *link) start(forwarded Receiver) {
	l.handler = forwarded
	config := linkTLS(l.members.identity, protoStreams, protoCalls)
	config.ClientAuth = tls.RequireAnyClientCert
	config.VerifyConnection = l.verify
	l.calls = http1.NewServer(l, maxHeaders)
	l.server = &http.Server{
		Handler:           l,
		TLSConfig:         config,
		Protocols:         onlyHTTP2(),
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){protoCalls: l.serveCalls},
		ReadHeaderTimeout: l.times.greet,
		IdleTimeout:       2 * idleConnTime, // the client side closes first, so that no request meets a closed connection
		MaxHeaderBytes:    maxHeaders,
		ErrorLog:          slog.NewLogLogger(l.log.Handler(), slog.LevelDebug),
		ConnState:         l.opened,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, SendPingTimeout: l.times.idle, PingTimeout: l.times.ping,
			WriteByteTimeout:              l.times.idle + l.times.ping,
			MaxReceiveBufferPerConnection: 4<<20 - 1, MaxReceiveBufferPerStream: streamWindow,
		},
	}
	l.serving.Go(func() {
		err := l.server.ServeTLS(l.listener, "", "")
		if !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
			l.log.Error("the link to other replicas has ended", failure.LinkDown.Attr(), "error", err)
		}
	})
}

// serveCalls serves the small requests of one connection.
func (l *link) serveCalls(_ *http.Server, conn *tls.Conn, _ http.Handler) {
	state := conn.ConnectionState()
	l.calls.Serve(conn, &state)
}

// drain refuses further forwards and waits until the running ones have ended or ctx has. The
// listener stays open until close: a refused connection would tell a replica that this one has
// gone, and it would give up on the requests that still run here.
func (l *link) drain(ctx context.Context) {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	waitFor(ctx, math.MaxInt64, &l.running)
}

// close closes all connections. The lease says by then that this replica has left, and the
// others have read that: they close their connections themselves. If this side did, it could
// take away a request that is just being sent, and it would be unknown whether it has run.
func (l *link) close(ctx context.Context) {
	l.listener.Close()
	if l.server == nil {
		return
	}
	l.serving.Wait()
	waitFor(ctx, l.times.look, &l.conns)
	l.calls.Close()
	l.server.Close()
	waitFor(context.WithoutCancel(ctx), l.times.look/4, &l.conns) // and with them what runs for them
}

// opened counts the open connections (http.Server.ConnState).
func (l *link) opened(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		l.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		l.conns.Add(-1)
	}
}

// enter reports whether a request may still run. If so, the caller must call running.Done.
func (l *link) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.running.Add(1)
	}
	return !l.closed
}

// verify accepts a certificate if its digest is in a lease. A replica that has just started may be
// unknown; then verify reads the leases again, with a limit on how often.
func (l *link) verify(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("cluster: no certificate")
	}
	cert := state.PeerCertificates[0]
	name, sum := cert.Subject.CommonName, digestOf(cert.Raw)
	if l.members.pinned(name, sum) {
		return nil
	}
	ctx, cancel := context.WithTimeout(l.ctx, l.times.greet)
	defer cancel()
	l.members.lookAgain(ctx)
	if l.members.pinned(name, sum) {
		return nil
	}
	return fmt.Errorf("cluster: %q is no replica that has a lease", name)
}

// pinned reports whether a certificate digest belongs to the named replica.
func (m *members) pinned(name string, sum []byte) bool {
	p := m.peer(name)
	return p != nil && bytes.Equal(p.digest, sum)
}
