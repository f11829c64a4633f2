package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

const (
	// limit bounds a whole run.
	limit = 24 * time.Hour
	// healTime bounds the time after a fault until everything works.
	healTime = time.Minute
)

// site is everything that runs.
type site struct {
	l          *ledger
	dir        string
	level      string // log level of the replicas
	issuer     *mcptest.Issuer
	store      *store
	servers    []*server
	replicas   []*replica
	balancer   *balancer
	generation int // number of the configuration
	probes     []*client
	stops      []func() error
}

// build starts everything.
func build(ctx context.Context, l *ledger, level string) (_ *site, err error) {
	s := &site{l: l, level: level}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	checkout, err := rig.FindCheckout()
	if err != nil {
		return nil, err
	}
	binary, err := checkout.Build(ctx, "./cmd/gatehouse")
	if err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "soak-"); err != nil {
		return nil, err
	}
	if s.store, err = startStore(ctx); err != nil {
		return nil, err
	}
	s.onStop(func() error { return s.store.process.Stop() })
	if err := s.startServers(); err != nil {
		return nil, err
	}
	balancer, listener, err := newBalancer()
	if err != nil {
		return nil, err
	}
	s.balancer = balancer
	s.issuer = mcptest.NewIssuer(mcptest.IssuerOptions{Audience: balancer.url})
	s.onStop(func() error { s.issuer.Close(); return nil })
	for n := 1; n <= 3; n++ {
		r, err := newReplica(n, binary, s.dir, s.store.address)
		if err != nil {
			listener.Close()
			return nil, err
		}
		s.replicas = append(s.replicas, r)
		s.onStop(r.close)
	}
	balancer.start(listener, s.replicas)
	s.onStop(func() error { balancer.close(); return nil })
	if err := s.configure(""); err != nil {
		return nil, err
	}
	for _, r := range s.replicas {
		if err := r.start(ctx); err != nil {
			return nil, err
		}
	}
	s.addProbes()
	return s, nil
}

func (s *site) onStop(stop func() error) { s.stops = append(s.stops, stop) }

// close stops everything in reverse order. The replicas' logs stay in s.dir.
func (s *site) close() error {
	var errs []error
	for i := len(s.stops) - 1; i >= 0; i-- {
		errs = append(errs, s.stops[i]())
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	return errors.Join(errs...)
}

// startServers starts servers of every revision, over every transport.
func (s *site) startServers() error {
	for i, r := range wire.Revisions() {
		transports := []string{"streamable"}
		switch {
		case i == 0:
			transports = []string{"sse"}
		case r == wire.AssumedStateful(), !r.Stateful:
			transports = append(transports, "stdio")
		}
		for _, transport := range transports {
			one, err := scripted(s.l, transport+"-"+compact(r), r, transport)
			if err != nil {
				return err
			}
			s.servers = append(s.servers, one)
			s.onStop(func() error { one.close(); return nil })
		}
	}
	for _, revision := range []*wire.Revision{wire.NewestStateful(), wire.Stateless()} {
		one, err := official(s.l, "sdk-"+compact(revision), revision)
		if err != nil {
			return err
		}
		s.servers = append(s.servers, one)
		s.onStop(func() error { one.close(); return nil })
	}
	return nil
}

// compact returns the year and month of a revision, as in the names of servers.
func compact(r *wire.Revision) string { return r.Name[:4] + r.Name[5:7] }

// configure writes the configuration of all replicas, with more appended.
func (s *site) configure(more string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "public_url: %s\nauth: {mode: oauth, issuers: [{url: %q}]}\npolicy: {default: allow}\n",
		s.balancer.url, s.issuer.URL)
	b.WriteString("http: {stream_after: 20ms, ask_timeout: 30s}\nshutdown_delay: 500ms\nshutdown_timeout: 5s\n")
	fmt.Fprintf(&b, "telemetry: {log: {level: %s}}\nupstreams:\n", s.level)
	for i, u := range s.servers {
		fmt.Fprintf(&b, "- %s, timeout: {connect: 5s, call: 8s, ask: 30s, idle: 3s}, limits: {questions_per_minute: 100000}",
			u.config)
		if i == s.generation%len(s.servers) && !u.process { // this one is replaced
			fmt.Fprintf(&b, ", headers: {X-Generation: \"%d\"}", s.generation)
		}
		b.WriteString("}\n")
	}
	b.WriteString(more)
	for _, r := range s.replicas {
		if err := r.configure(b.String()); err != nil {
			return err
		}
	}
	return nil
}

// token returns a token of a user that lasts for the whole run.
func (s *site) token(user string) string {
	return s.issuer.Token(map[string]any{"sub": user, "exp": time.Now().Add(2 * limit).Unix()})
}

// addProbes makes two clients for each replica, one of each era, that call it without the
// balancer to check that everything works.
func (s *site) addProbes() {
	for _, r := range s.replicas {
		for i, revision := range []*wire.Revision{wire.Stateless(), wire.NewestStateful()} {
			c := newClient(probeIndex+2*r.number+i, 0, s.l, s.servers, "http://"+r.address+"/mcp", s.token("probe"),
				&http.Transport{DialContext: (&net.Dialer{Timeout: time.Second}).DialContext, DisableKeepAlives: true})
			c.Revision = revision
			s.probes = append(s.probes, c)
		}
	}
}

// probeIndex is the number of the first probe.
const probeIndex = 100_000

// heal waits until every replica serves calls to every server, in both eras.
func (s *site) heal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healTime)
	defer cancel()
	for _, p := range s.probes {
		for _, to := range s.servers {
			for {
				o := outcome{kind: "no session"}
				if p.enter(ctx) {
					o = p.call(ctx, "probe", to, nothing, script{})
				}
				if !o.failed() {
					break
				}
				if wait(ctx, 100*time.Millisecond) != nil {
					return fmt.Errorf("server %s cannot be used by %s after %s: %s %s", to.name, p.URL, healTime, o.kind, o.detail)
				}
			}
		}
		p.leave(ctx)
	}
	return nil
}
