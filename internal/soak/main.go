package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// warmUp is how long clients work before the first fault.
const warmUp = 3 * time.Second

// options are the values of the flags.
type options struct {
	duration time.Duration
	seed     uint64
	clients  int
	only     string
	level    string
	explain  bool
}

func main() {
	if isStdio() {
		return
	}
	var o options
	flag.DurationVar(&o.duration, "for", 10*time.Minute, "how long faults are injected, at most 12h")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()),
		"what is done and in which order; by default another each time")
	flag.IntVar(&o.clients, "clients", 24, "how many clients work at a time, at most 1000")
	flag.StringVar(&o.only, "fault", "", "inject this one alone")
	flag.StringVar(&o.level, "log", "",
		"the level of the replicas' logs; by default warn, and info if one fault is injected alone")
	flag.BoolVar(&o.explain, "explain", false, "also print each failure that a fault explains")
	flag.Parse()
	if o.duration <= 0 || o.duration > limit/2 || o.clients < 1 || o.clients > 1000 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if o.level == "" {
		o.level = "warn"
		if o.only != "" {
			o.level = "info" // who looks for one violation needs what led to it
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := soak(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// isStdio carries lines and reports true if the program was started for that.
func isStdio() bool {
	if len(os.Args) != 3 || os.Args[1] != roleStdio {
		return false
	}
	_ = mcptest.Carry(os.Args[2], os.Stdin, os.Stdout) // one end always closes in the end
	return true
}

// soak runs everything and prints the report. It returns an error when the books do not
// balance.
func soak(ctx context.Context, o options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	fmt.Printf("soak: -for %s -seed %d -clients %d\n", o.duration, o.seed, o.clients)
	l := newLedger()
	l.told = os.Stdout
	if o.explain {
		l.explained = os.Stdout
	}
	s, err := build(ctx, l, o.level)
	if err != nil {
		return err
	}
	first, last, err := s.run(ctx, o)
	if err := errors.Join(err, s.close()); err != nil {
		l.violation("%v", err)
	}
	l.balance()
	s.readLogs()
	text, wrong := l.report()
	fmt.Print(text)
	for i := range last.replicas {
		fmt.Printf("replica %d held %s, and in the end %s\n", i+1, first.replicas[i], last.replicas[i])
	}
	if wrong > 0 {
		return fmt.Errorf("%d violations; run it again with -seed %d; the replicas' logs are in %s", wrong, o.seed, s.dir)
	}
	fmt.Println("the books balance: no violations")
	return os.RemoveAll(s.dir)
}

// worker is a client of any kind.
type worker interface {
	work(ctx context.Context, stop <-chan struct{})
}

// run lets clients work without faults, then with faults, and measures the replicas after
// each.
func (s *site) run(ctx context.Context, o options) (first, last holdings, err error) {
	c := s.crowd(o.clients, o.seed)
	var pulse sync.WaitGroup
	defer pulse.Wait()
	beating, stop := context.WithCancel(ctx)
	defer stop()
	pulse.Go(func() { s.pulse(beating) })
	if err := s.heal(ctx); err != nil {
		return first, last, err
	}
	err = c.work(ctx, func() error { return wait(ctx, warmUp) })
	if err != nil {
		return first, last, err
	}
	if first, err = s.rest(ctx, func(holdings) bool { return true }); err != nil {
		return first, last, err
	}
	in := s.injector(o)
	until := time.Now().Add(o.duration)
	if err := c.work(ctx, func() error { return in.run(ctx, until, o.only) }); err != nil {
		return first, last, err
	}
	last, err = s.rest(ctx, func(now holdings) bool { return len(s.excess(first, now)) == 0 })
	if err == nil {
		for _, problem := range s.excess(first, last) {
			s.l.violation("%s", problem)
		}
	}
	return first, last, err
}

// crowd is the set of all clients.
type crowd struct {
	transport *http.Transport
	clients   []worker
}

func (s *site) crowd(size int, seed uint64) *crowd {
	c := &crowd{transport: &http.Transport{MaxIdleConnsPerHost: size}}
	for i := range size {
		user := []string{"alice", "bob", "carol"}[i%3]
		one := newClient(i, seed, s.l, s.servers, s.balancer.url, s.token(user), c.transport)
		if i%8 == 7 {
			c.clients = append(c.clients, &piped{client: one})
		} else {
			c.clients = append(c.clients, one)
		}
	}
	return c
}

// work lets all clients work while do runs.
func (c *crowd) work(ctx context.Context, do func() error) error {
	stop := make(chan struct{})
	var working sync.WaitGroup
	for _, one := range c.clients {
		working.Go(func() { one.work(ctx, stop) })
	}
	err := do()
	close(stop)
	working.Wait()
	c.transport.CloseIdleConnections()
	return err
}
