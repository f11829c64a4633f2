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

// startTime bounds how long a replica takes to become ready.
const startTime = time.Minute

// replica is one gatehouse process.
type replica struct {
	number  int
	binary  string
	file    string            // configuration file
	shared  string            // the part of it that all replicas share
	log     string            // log file of its processes
	address string            // of the endpoint, for the balancer
	admin   string            // of the admin listener
	listens string            // of the link, behind peers
	link    *faultproxy.Proxy // proxy to Redis
	peers   *faultproxy.Proxy // proxy from the other replicas
	proxy   *httputil.ReverseProxy
	ready   atomic.Bool
	process *rig.Process // of the current fault; nil while it is down
}

// newReplica finds addresses for a replica, and starts its proxies to Redis and from the
// other replicas.
func newReplica(number int, binary, dir, store string) (_ *replica, err error) {
	r := &replica{number: number, binary: binary}
	r.file = filepath.Join(dir, fmt.Sprintf("replica-%d.yaml", number))
	r.log = filepath.Join(dir, fmt.Sprintf("replica-%d.log", number))
	for _, address := range []*string{&r.address, &r.admin, &r.listens} {
		if *address, err = mcptest.FreeAddress(fmt.Sprintf("127.0.0.%d", number+1)); err != nil {
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

// configure writes the configuration: the shared part and the replica's own addresses.
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

// start starts the process and waits until it is ready.
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

// close ends the replica for good.
func (r *replica) close() error {
	err := r.stop()
	r.link.Close()
	r.peers.Close()
	return err
}

// stop shuts the process down gracefully.
func (r *replica) stop() error {
	if r.process == nil {
		return nil
	}
	err := r.process.Stop()
	r.process = nil
	return err
}

// kill ends the process as a crash would. Other replicas get a refused connection. The next
// process has another address.
func (r *replica) kill() (err error) {
	if err := r.signal(mcptest.SignalStop); err != nil { // it must do nothing after the others know
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

// isReady asks /readyz, as a balancer does.
func (r *replica) isReady(ctx context.Context) bool {
	status, _, err := r.ask(ctx, "/readyz?exclude=store")
	return err == nil && status == http.StatusOK
}

// state is what a replica shows on its admin listener.
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

// ask makes a request of the admin listener.
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

// quiet drops the standard library's log lines about broken connections.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
