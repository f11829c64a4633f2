package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/faultproxy"
	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// startTime bounds how long a replica may take until it is ready.
const startTime = time.Minute

// replica is one process of the gateway.
type replica struct {
	number  int
	binary  string
	file    string            // its configuration
	shared  string            // what all have of that
	log     string            // file that its processes write to
	address string            // of the endpoint; the balancer gives it requests
	admin   string            // address for operators
	listens string            // address for other replicas, behind peers
	link    *faultproxy.Proxy // its way to Redis
	peers   *faultproxy.Proxy // the way of the others to it
	proxy   *httputil.ReverseProxy
	ready   atomic.Bool
	process *rig.Process // of whoever injects faults; nil while it is away
}

// newReplica finds addresses for one, and ways to Redis and from other replicas.
func newReplica(number int, binary, dir, store string) (_ *replica, err error) {
	r := &replica{number: number, binary: binary}
	r.file = filepath.Join(dir, fmt.Sprintf("replica-%d.yaml", number))
	r.log = filepath.Join(dir, fmt.Sprintf("replica-%d.log", number))
	for _, address := range []*string{&r.address, &r.admin, &r.listens} {
		if *address, err = freeAddress(fmt.Sprintf("127.0.0.%d", number+1)); err != nil {
			return nil, err
		}
	}
	if r.link, err = faultproxy.Start(store); err != nil {
		return nil, err
	}
	if r.peers, err = faultproxy.Start(r.listens); err != nil {
		r.link.Close()
	}
	return r, err
}

// configure writes the configuration: what all have, and addresses of its own.
func (r *replica) configure(shared string) error {
	r.shared = shared
	text := fmt.Sprintf("listen: %s\nadmin: {listen: %q}\nsessions: {store: redis, redis: {url: \"redis://%s\"}, key: 0123456789abcdef0123456789abcdef, max_per_user: 10000, idle_timeout: 30s}\nreplicas: {listen: %q, advertise: %q}\n%s",
		r.address, r.admin, r.link.Addr(), r.listens, r.peers.Addr(), shared)
	next := r.file + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(next, r.file)
}

// start runs it, and waits until it is ready.
func (r *replica) start(ctx context.Context) error {
	out, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(r.binary, "serve", "--config", r.file)
	cmd.Stdout, cmd.Stderr = out, out
	if r.process, err = rig.Start(cmd); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	err = r.process.WaitFor(ctx, func(ctx context.Context) error {
		if !r.isReady(ctx) {
			return errors.New("not ready")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("replica %d: %w", r.number, err)
	}
	return nil
}

// close ends it for good.
func (r *replica) close() error {
	err := r.stop()
	r.link.Close()
	r.peers.Close()
	return err
}

// stop ends it in good order.
func (r *replica) stop() error {
	if r.process == nil {
		return nil
	}
	err := r.process.Stop()
	r.process = nil
	return err
}

// kill ends it as a crash would: the others are refused connections. The next one is at another
// address.
func (r *replica) kill() (err error) {
	if err := r.signal(mcptest.SignalStop); err != nil { // nothing may run once they know
		return err
	}
	r.peers.Close()
	if err := errors.Join(r.signal(syscall.SIGKILL), r.stop()); err != nil {
		return err
	}
	if r.peers, err = faultproxy.Start(r.listens); err != nil {
		return err
	}
	return r.configure(r.shared)
}

func (r *replica) signal(sig syscall.Signal) error { return r.process.Signal(sig) }

// isReady is what a balancer asks.
func (r *replica) isReady(ctx context.Context) bool {
	status, _, err := r.ask(ctx, "/readyz?exclude=store")
	return err == nil && status == http.StatusOK
}

// state is what a replica tells whoever asks from the same machine.
type state struct {
	Upstreams []struct {
		Name, State string
	}
	Configuration struct {
		Loaded, Tried time.Time
		Problems      []string
	}
}

func (r *replica) state(ctx context.Context) (s state, err error) {
	_, text, err := r.ask(ctx, "/readyz")
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(text, &s)
}

// ask asks what operators may ask.
func (r *replica) ask(ctx context.Context, path string) (status int, text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.admin+path, nil)
	if err != nil {
		return 0, nil, err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	return resp.StatusCode, text, err
}

// quiet drops what the standard library would log of connections that break.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
