package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/faultproxy"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// processLease is long enough that leases do not end by themselves on a busy machine.
const processLease = 5 * time.Second

// process is a replica in a separate process.
type process struct {
	report
	redis, link *faultproxy.Proxy // between it and Redis, and between the other replicas and it
	cmd         *exec.Cmd
	hanging     chan struct{} // receives for each request that hangs there
	end         func()
}

// startProcess runs a replica until the test ends.
func startProcess(t *testing.T, redis *redistest.Server, lease time.Duration) *process {
	t.Helper()
	p := &process{redis: proxyTo(t, redis.Addr), link: proxyTo(t, "127.0.0.1:1"), hanging: make(chan struct{}, 10)}
	told, err := json.Marshal(orders{Redis: p.redis.Addr(), Advertise: p.link.Addr(), Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(program)
	p.cmd.Env = append(os.Environ(), replicaVariable+"="+string(told))
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			if lines.Text() == "hanging" {
				p.hanging <- struct{}{}
			} else {
				t.Log(p.Name, lines.Text())
			}
		}
	})
	p.end = sync.OnceFunc(func() {
		in.Close()
		reading.Wait()
		_ = p.cmd.Wait() // killed, or ended because its input did
	})
	t.Cleanup(func() {
		resume(p)
		p.redis.Pass()
		p.end()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(line, &p.report); err != nil {
		t.Fatal(err)
	}
	if err := p.link.Redirect(p.Link); err != nil {
		t.Fatal(err)
	}
	return p
}

func proxyTo(t *testing.T, target string) *faultproxy.Proxy {
	t.Helper()
	p, err := faultproxy.Start(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// kill ends the process as kill -9 does; nobody listens at its address any more.
func (p *process) kill() {
	p.link.Close()
	_ = p.cmd.Process.Kill()
	p.end()
}

// get asks a replica for a home. A status other than 200 is an error.
func (p *process) get(ctx context.Context, path string) (counter, int, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+p.Public+path, nil)
	if err != nil {
		return counter{}, 0, err
	}
	transport := http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return counter{}, 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return counter{}, 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return counter{}, resp.StatusCode, fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	var c counter
	err = json.Unmarshal(text, &c)
	return c, resp.StatusCode, err
}

// want asks a replica, and expects an answer of the process by, with this count.
func (p *process) want(t *testing.T, path string, by *process, count int) {
	t.Helper()
	got, _, err := p.get(t.Context(), path)
	if err != nil || got != (counter{Replica: by.Name, Count: count}) {
		t.Fatalf("%s at %s: %+v, %v; want %d of %s", path, p.Name, got, err, count, by.Name)
	}
}

// until asks a replica until the process by answers. In between there may be errors, and
// answers that break off, but no answers of a third replica.
func (p *process) until(t *testing.T, path string, by *process, count int) {
	t.Helper()
	eventually(t, "another replica answers", func() bool {
		got, status, err := p.get(t.Context(), path)
		if err != nil {
			if status == 0 && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			return false
		}
		if got != (counter{Replica: by.Name, Count: count}) {
			t.Fatalf("%s at %s: %+v; want %d of %s", path, p.Name, got, count, by.Name)
		}
		return true
	})
}

// settle waits until the replicas would notice that another one has gone.
func settle(t *testing.T, replicas ...*process) {
	t.Helper()
	for _, p := range replicas {
		eventually(t, "the lease is settled", func() bool {
			_, status, err := p.get(t.Context(), settledPath)
			if status == 0 {
				t.Fatal(err)
			}
			return status == http.StatusOK
		})
	}
}
