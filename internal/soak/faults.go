package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"syscall"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/faultproxy"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// leaseTime is longer than it takes the other replicas to take over the sessions of a
// replica.
const leaseTime = 13 * time.Second

// fault is something that goes wrong for a while.
type fault struct {
	name   string
	allows []string // failures that it explains; none: nobody may notice
	do     func(*injector, context.Context) (of string, err error)
	after  time.Duration // how long its consequences may show after all has healed
}

// injector injects one fault after another.
type injector struct {
	*site
	rand   *rand.Rand
	window *window       // window of the present fault
	least  time.Duration // shortest duration of a fault
}

func (s *site) injector(o options) *injector {
	return &injector{site: s, rand: rand.New(rand.NewPCG(o.seed, uint64(o.clients)))}
}

// faults returns all faults.
func faults() []fault {
	return []fault{
		{"replica killed", cutOff, (*injector).killReplica, 0},
		{"replicas restarted in turn", []string{"50301", notHeard, "cut", streamLost}, (*injector).restartReplicas, 0},
		{"replica stopped for a moment", nil, (*injector).pauseReplica, 0},
		{"configuration changed", nil, (*injector).reload, 0},
		{"configuration broken", nil, (*injector).reloadBad, 0},
		// Replicas know sessions for some seconds longer than Redis does. A call whose
		// session has ended gets -32600, and one whose stream is lost -32603 when it is resumed.
		{"Redis killed and empty", append([]string{sessionLost, "-32600", "-32603", "cut"}, storeless...),
			(*injector).killStore, 10 * time.Second},
		{"Redis hangs", storeless, (*injector).hangStore, 0},
		{"Redis is slow", storeless, linked(toRedis, all, func(p *faultproxy.Proxy) { p.Delay(700 * time.Millisecond) }), 0},
		{"Redis drips", storeless, linked(toRedis, all, func(p *faultproxy.Proxy) { p.Drip(5 * time.Millisecond) }), 0},
		{"Redis is cut off from one", storeless, linked(toRedis, one, (*faultproxy.Proxy).Cut), 0},
		{"Redis resets one", storeless, linked(toRedis, one, (*faultproxy.Proxy).Reset), 0},
		{"Redis is a black hole for one", storeless, linked(toRedis, one, (*faultproxy.Proxy).BlackHole), 0},
		{"the link to one is cut", unlinked, linked(toPeers, one, (*faultproxy.Proxy).Cut), 0},
		{"the link to one is a black hole", unlinked, linked(toPeers, one, (*faultproxy.Proxy).BlackHole), 0},
		{"all links are cut", unlinked, linked(toPeers, all, (*faultproxy.Proxy).Cut), 0},
		{"all links are black holes", unlinked, linked(toPeers, all, (*faultproxy.Proxy).BlackHole), 0},
		{"one is cut off from Redis and peers", append(slices.Clone(unlinked), storeless...),
			linked(toBoth, one, (*faultproxy.Proxy).BlackHole), 0},
		{"the same for longer than a lease", append(slices.Clone(unlinked), storeless...),
			long(linked(toBoth, one, (*faultproxy.Proxy).BlackHole)), 0},
		// When it goes on, the limits of what it was about to do have passed: for an answer (50401), and
		// for a connection to a server, with nothing sent (50201).
		{"replica stopped for longer than its lease", append([]string{"50201", "50303", "50401"}, cutOff...),
			long((*injector).pauseReplica), 0},
		{"issuer fails", nil, (*injector).failIssuer, 0},
		{"server killed", unserved, (*injector).killServer, 0},
		{"server hangs", unserved, failing(hanging), 0},
		{"server resets connections", unserved, failing(resetting), 0},
		{"server says garbage", unserved, failing(saying(http.StatusOK, "application/json", `{"jsonrpc":"2.0","id":`)), 0},
		{"server says HTML", unserved, failing(saying(http.StatusOK, "text/html", "<html>Welcome</html>")), 0},
		{"server answers 429", append([]string{"42901"}, unserved...),
			failing(saying(http.StatusTooManyRequests, "text/plain", "slow down")), retryAfter + slowPulse},
		{"server answers 500", unserved, failing(saying(http.StatusInternalServerError, "text/plain", "oops")), 0},
		{"server answers 503", unserved, failing(saying(http.StatusServiceUnavailable, "text/plain", "later")), 0},
		{"process crashes", unserved, (*injector).crashProcess, 0},
	}
}

// run injects faults until the time is over, each after the previous one has healed. The
// random source gives their order; each comes once before any comes again.
func (in *injector) run(ctx context.Context, until time.Time, only string) error {
	var left []fault
	for time.Now().Before(until) {
		if len(left) == 0 {
			left = faults()
			in.rand.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
			if only != "" {
				left = slices.DeleteFunc(left, func(f fault) bool { return f.name != only })
			}
		}
		f := left[0]
		left = left[1:]
		if err := in.inject(ctx, f); err != nil {
			return err
		}
		if err := in.hold(ctx, 500*time.Millisecond, time.Second); err != nil { // no call may fail now
			return err
		}
	}
	return nil
}

// inject injects one fault and waits until all has healed.
func (in *injector) inject(ctx context.Context, f fault) error {
	w := in.l.begin(f.name, f.allows)
	in.window = w
	of, err := f.do(in, ctx)
	in.l.detail(w, of)
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	if err := in.heal(ctx); err != nil {
		in.l.violation("%s (%s) does not heal: %v", f.name, of, err)
	}
	in.l.end(w, f.after)
	return ctx.Err()
}

// hold waits for a random time between two bounds.
func (in *injector) hold(ctx context.Context, least, most time.Duration) error {
	return wait(ctx, in.least+least+time.Duration(in.rand.Int64N(int64(most-least))))
}

func (in *injector) holdFault(ctx context.Context) error {
	return in.hold(ctx, 300*time.Millisecond, 2500*time.Millisecond)
}

func (in *injector) anyReplica() *replica { return in.replicas[in.rand.IntN(len(in.replicas))] }

// anyServer picks a server, and limits the fault's window to it.
func (in *injector) anyServer(fits func(*server) bool) *server {
	fitting := slices.DeleteFunc(slices.Clone(in.servers), func(s *server) bool { return !fits(s) })
	s := fitting[in.rand.IntN(len(fitting))]
	in.l.concerns(in.window, s.name)
	return s
}

func (in *injector) killReplica(ctx context.Context) (string, error) {
	r := in.anyReplica()
	of := fmt.Sprint("replica ", r.number)
	if err := r.kill(); err != nil {
		return of, err
	}
	if err := in.holdFault(ctx); err != nil {
		return of, err
	}
	return of, r.start(ctx)
}

func (in *injector) restartReplicas(ctx context.Context) (string, error) {
	for _, r := range in.replicas {
		if err := r.stop(); err != nil {
			return fmt.Sprint("replica ", r.number), err
		}
		if err := r.start(ctx); err != nil {
			return "", err
		}
	}
	return "all", nil
}

func (in *injector) pauseReplica(ctx context.Context) (string, error) {
	r := in.anyReplica()
	of := fmt.Sprint("replica ", r.number)
	if err := r.signal(mcptest.SignalStop); err != nil {
		return of, err
	}
	err := in.hold(ctx, 300*time.Millisecond, 2*time.Second)
	if err := r.signal(mcptest.SignalContinue); err != nil {
		return of, err
	}
	return of, err
}

// reload changes a header of one server, so the replicas replace it.
func (in *injector) reload(ctx context.Context) (string, error) {
	in.generation++
	of := fmt.Sprint("generation ", in.generation)
	if err := in.configure(""); err != nil {
		return of, err
	}
	return of, in.reloaded(ctx, false)
}

// reloadBad has the replicas read an invalid configuration, and then the old one.
func (in *injector) reloadBad(ctx context.Context) (string, error) {
	if err := in.configure("no_such_key: 1\n"); err != nil {
		return "", err
	}
	if err := in.reloaded(ctx, true); err != nil {
		return "", err
	}
	if err := in.holdFault(ctx); err != nil {
		return "", err
	}
	if err := in.configure(""); err != nil {
		return "", err
	}
	return "all", in.reloaded(ctx, false)
}

// reloaded makes the replicas read their configuration, and waits until each one has.
func (in *injector) reloaded(ctx context.Context, bad bool) error {
	ctx, cancel := context.WithTimeout(ctx, healTime)
	defer cancel()
	asked := time.Now()
	for _, r := range in.replicas {
		if err := r.signal(syscall.SIGHUP); err != nil {
			return err
		}
	}
	for _, r := range in.replicas {
		err := r.process.WaitFor(ctx, func(ctx context.Context) error {
			s, err := r.state(ctx)
			if err == nil && (s.Configuration.Tried.Before(asked) || (len(s.Configuration.Problems) > 0) != bad) {
				err = fmt.Errorf("its configuration is %+v", s.Configuration)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (in *injector) killStore(ctx context.Context) (string, error) {
	if err := in.store.kill(); err != nil {
		return "", err
	}
	if err := in.holdFault(ctx); err != nil {
		return "", err
	}
	return "", in.store.start(ctx)
}

func (in *injector) hangStore(ctx context.Context) (string, error) {
	if err := in.store.signal(mcptest.SignalStop); err != nil {
		return "", err
	}
	err := in.holdFault(ctx)
	if err := in.store.signal(mcptest.SignalContinue); err != nil {
		return "", err
	}
	return "", err
}

// toRedis, toPeers and toBoth return the links of a replica that a fault breaks.
func toRedis(r *replica) []*faultproxy.Proxy { return []*faultproxy.Proxy{r.link} }
func toPeers(r *replica) []*faultproxy.Proxy { return []*faultproxy.Proxy{r.peers} }
func toBoth(r *replica) []*faultproxy.Proxy  { return []*faultproxy.Proxy{r.link, r.peers} }

// long makes a fault last longer than a lease.
func long(do func(*injector, context.Context) (string, error)) func(*injector, context.Context) (string, error) {
	return func(in *injector, ctx context.Context) (string, error) {
		in.least = leaseTime
		defer func() { in.least = 0 }()
		return do(in, ctx)
	}
}

// How many replicas a fault of a link affects.
const (
	all = true
	one = false
)

// linked breaks links, of all replicas or of one.
func linked(ways func(*replica) []*faultproxy.Proxy, forAll bool, how func(*faultproxy.Proxy)) func(*injector,
	context.Context) (string, error) {
	return func(in *injector, ctx context.Context) (string, error) {
		hit := in.replicas
		if !forAll {
			hit = []*replica{in.anyReplica()}
		}
		for _, r := range hit {
			for _, way := range ways(r) {
				how(way)
				defer way.Pass()
			}
		}
		if forAll {
			return "all", in.holdFault(ctx)
		}
		return fmt.Sprint("replica ", hit[0].number), in.holdFault(ctx)
	}
}

func (in *injector) failIssuer(ctx context.Context) (string, error) {
	in.issuer.BreakAll(mcptest.Status(http.StatusServiceUnavailable))
	defer in.issuer.Mend()
	return "", in.holdFault(ctx)
}

func (in *injector) killServer(ctx context.Context) (string, error) {
	s := in.anyServer(func(s *server) bool { return s.gate != nil })
	s.gate.kill()
	if err := in.holdFault(ctx); err != nil {
		return s.name, err
	}
	return s.name, s.gate.Revive()
}

// failing makes a server answer in another way.
func failing(how func(<-chan struct{}) http.HandlerFunc) func(*injector, context.Context) (string, error) {
	return func(in *injector, ctx context.Context) (string, error) {
		s := in.anyServer(func(s *server) bool { return s.gate != nil })
		s.gate.fail(how)
		defer s.gate.mend()
		return s.name, in.holdFault(ctx)
	}
}

// crashProcess makes a process end in the middle of a call, more than once.
func (in *injector) crashProcess(ctx context.Context) (string, error) {
	s := in.anyServer(func(s *server) bool { return s.process })
	for _, p := range in.probes {
		if p.enter(ctx) {
			p.call(ctx, "crash", s, nothing, script{End: endDie})
		}
	}
	return s.name, in.hold(ctx, 100*time.Millisecond, time.Second)
}
