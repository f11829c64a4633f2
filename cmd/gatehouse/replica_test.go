package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// The revisions that represent the two eras, for clients and for servers.
const (
	statelessRev = "2026-07-28"
	clientRev    = "2025-11-25"
	serverRev    = "2025-06-18"
)

// patience bounds every wait; it is reached only if something is broken.
const patience = time.Minute

func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// Limits on how long replicas take: soon for what they do within a second or two, and
// afterLease for what they do once a lease of ten seconds is over, plus two seconds. A busy
// machine may take longer.
const (
	soon       = 30 * time.Second
	afterLease = 50 * time.Second
)

// eventually waits until something has happened.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	within(t, patience, what, happened)
}

// within waits at most the given time until something has happened.
func within(t *testing.T, limit time.Duration, what string, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(limit); !happened(); {
		select {
		case <-end:
			t.Fatalf("%s: it does not happen", what)
		case <-tick.C:
		}
	}
}

// wantWithin checks how long something took.
func wantWithin(t *testing.T, what string, limit time.Duration, since time.Time) {
	t.Helper()
	if took := time.Since(since); took > limit {
		t.Errorf("%s took %s", what, took)
	}
}

// replica is a gateway in its own process, one of several with the same configuration.
type replica struct {
	program   string // the file of another version; "" for this one
	config    string
	records   string   // its standard output: records, if the configuration has them there
	upstreams []string // it must know these before it gets requests

	mu     sync.Mutex // guards the fields below
	cmd    *exec.Cmd
	url    string
	admin  string
	exited chan struct{}
	log    *processLog
}

// processLog is the output of a process on its standard error.
type processLog struct {
	mu    sync.Mutex // guards the fields below
	lines []string
	over  bool
	more  chan struct{} // closed and replaced when a line arrives
}

func (l *processLog) read(r io.Reader) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		l.add(lines.Text(), false)
	}
	l.add("", true)
}

func (l *processLog) add(line string, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines, l.over = append(l.lines, line), over
	close(l.more)
	l.more = make(chan struct{})
}

// await returns the first line that contains a text.
func (l *processLog) await(t *testing.T, text string) string {
	t.Helper()
	ctx := deadline(t)
	for {
		l.mu.Lock()
		for _, line := range l.lines {
			if strings.Contains(line, text) {
				l.mu.Unlock()
				return line
			}
		}
		over, more := l.over, l.more
		l.mu.Unlock()
		if over {
			t.Fatalf("the log ended without %q:\n%s", text, l)
		}
		select {
		case <-more:
		case <-ctx.Done():
			t.Fatalf("the log has no %q:\n%s", text, l)
		}
	}
}

func (l *processLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// start runs the program until it serves and is ready.
func (r *replica) start(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	r.cmd = exec.Command(cmp.Or(r.program, os.Args[0]))
	r.cmd.Args = []string{"gatehouse", "serve", "--config", r.config} // TestMain runs it as the program
	r.log, r.exited = &processLog{more: make(chan struct{})}, make(chan struct{})
	cmd, log, exited := r.cmd, r.log, r.exited
	stderr, err := cmd.StderrPipe()
	if err == nil {
		var records *os.File
		if records, err = os.OpenFile(cmp.Or(r.records, os.DevNull), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
			cmd.Stdout = records
			err = cmd.Start()
			records.Close()
		}
	}
	r.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the process; the end of the test waits for that
		log.read(stderr)
		_ = cmd.Wait()
		close(exited)
	}()
	admin := log.await(t, `msg="serving operators"`)
	serving := log.await(t, "msg=serving ")
	r.mu.Lock()
	r.admin = "http://" + regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(admin)[1]
	r.url = regexp.MustCompile(`url=(\S+)`).FindStringSubmatch(serving)[1]
	r.mu.Unlock()
	eventually(t, "the replica is ready", func() bool { _, ready := r.ready(deadline(t)); return ready })
	for _, name := range r.upstreams { // after a while it is ready without them
		log.await(t, `msg="upstream is up" upstream=`+name)
	}
}

// ready asks the replica whether it accepts new sessions, as balancers do.
func (r *replica) ready(ctx context.Context) (url string, ready bool) {
	r.mu.Lock()
	url, admin := r.url, r.admin
	r.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/readyz", nil)
	if err != nil {
		return url, false
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return url, false
	}
	resp.Body.Close()
	return url, resp.StatusCode == http.StatusOK
}

func (r *replica) endpoint() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.url
}

func (r *replica) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// wait returns the exit code once the process has ended.
func (r *replica) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-r.exited:
	case <-deadline(t).Done():
		t.Fatalf("the process does not end:\n%s", r.log)
	}
	return r.cmd.ProcessState.ExitCode()
}

// end kills the process if it still runs.
func (r *replica) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd != nil && r.cmd.Process != nil {
		_ = r.cmd.Process.Signal(syscall.SIGKILL) // also ends a stopped process
		<-r.exited
	}
}

// several is a set of replicas with one Redis, behind a balancer that gives each request to
// the next ready one.
type several struct {
	url      string
	redis    *redistest.Server
	replicas []*replica
}

// replicate starts three replicas with these upstreams. config is their common
// configuration besides sessions.
func replicate(t *testing.T, config string, upstreams ...string) *several {
	t.Helper()
	return replicateAs(t, "", config, upstreams...)
}

// replicateAs is replicate with the program of another version, "" for this one.
func replicateAs(t *testing.T, program, config string, upstreams ...string) *several {
	t.Helper()
	s := &several{redis: redistest.Start(t)}
	text := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\n"+
		"sessions: {store: redis, key: 0123456789abcdef0123456789abcdef, redis: {url: %q}}\nreplicas: {listen: \"127.0.0.1:0\"}\n%s", s.redis.URL(), config)
	file := filepath.Join(t.TempDir(), "gatehouse.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		records := fmt.Sprintf("%s.%d.jsonl", file, i)
		s.replicas = append(s.replicas, &replica{program: program, config: file, records: records,
			upstreams: upstreams})
	}
	t.Cleanup(func() {
		for i, r := range s.replicas {
			if r.end(); t.Failed() && r.log != nil {
				t.Logf("replica %d:\n%s", i, r.log)
			}
		}
	})
	var all sync.WaitGroup
	for _, r := range s.replicas {
		all.Go(func() { r.start(t) })
	}
	if all.Wait(); t.Failed() {
		t.FailNow()
	}
	s.balance(t)
	return s
}

// balance starts the balancer. It keeps no connections open: if a replica closed one just
// as a request is on its way, that would not be the replica's fault.
func (s *several) balance(t *testing.T) {
	type to struct{}
	transport := &http.Transport{DisableKeepAlives: true}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(r.In.Context().Value(to{}).(*url.URL))
			r.Out.URL.Path = r.In.URL.Path
		},
		FlushInterval: -1,
		Transport:     transport,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				t.Logf("balancer: %v", err)
			}
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	var next atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first := int(next.Add(1))
		for i := range s.replicas {
			if target, ready := s.replicas[(first+i)%len(s.replicas)].ready(r.Context()); ready {
				parsed, err := url.Parse(target)
				if err != nil {
					break
				}
				proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), to{}, parsed)))
				return
			}
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	s.url = server.URL + "/mcp"
}

// client makes a client at the balancer, with its session open.
func (s *several) client(t *testing.T, revision, caps string) *mcptest.Client {
	t.Helper()
	return open(t, s.url, revision, caps)
}

// clientOf makes a client at a replica, which owns its session.
func (s *several) clientOf(t *testing.T, replica int, revision, caps string) *mcptest.Client {
	t.Helper()
	return open(t, s.replicas[replica].endpoint(), revision, caps)
}

func open(t *testing.T, url, revision, caps string) *mcptest.Client {
	t.Helper()
	c := mcptest.NewClient(url, wire.Lookup(revision))
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c.HTTP, c.Caps = &http.Client{Transport: transport}, caps
	if err := c.Open(deadline(t)); err != nil {
		t.Fatal(err)
	}
	return c
}

// at returns the client at one of the replicas, bypassing the balancer.
func (s *several) at(c *mcptest.Client, replica int) *mcptest.Client {
	there := mcptest.NewClient(s.replicas[replica].endpoint(), c.Revision)
	there.Caps, there.Session, there.HTTP = c.Caps, c.Session, c.HTTP
	return there
}

// must makes a call that must have a result.
func must(t *testing.T, what string, c *mcptest.Client, method, params string) mcptest.Message {
	t.Helper()
	m, _, err := c.Call(deadline(t), method, params)
	if err != nil || m.Error != nil {
		t.Fatalf("%s: %s %v", what, m.Text, err)
	}
	return m
}

// textOf returns the text of a tool's result.
func textOf(m mcptest.Message) string {
	var content []struct{ Text string }
	if m.Value("content", &content); len(content) == 0 {
		return m.Text
	}
	return content[0].Text
}

// worker is a scripted server with the kinds of calls that can be under way at a replica:
// echo; ask, which asks the user; wait, which reports progress and waits for release; and
// log.
type worker struct {
	*mcptest.Server
	began chan string // receives the key of each call of wait

	mu       sync.Mutex // guards the fields below
	released map[string]chan struct{}
	runs     map[string]int    // by key
	sessions map[string]string // the session of the last call, by key
}

func newWorker(t *testing.T, revision string) *worker {
	t.Helper()
	w := &worker{Server: mcptest.NewServer(wire.Lookup(revision)), began: make(chan string, 100),
		released: map[string]chan struct{}{}, runs: map[string]int{}, sessions: map[string]string{}}
	t.Cleanup(w.Close)
	w.Tools("echo", "ask", "wait", "log")
	w.On("resources/list", func(c *mcptest.Call) { c.Result(`{"resources":[{"name":"r","uri":"test://r"}]}`) })
	w.On("tools/call", func(c *mcptest.Call) {
		var name, key string
		c.Param("name", &name)
		c.Param("arguments|key", &key)
		w.mu.Lock()
		w.runs[key]++
		w.sessions[key] = c.Session
		w.mu.Unlock()
		switch name {
		case "echo":
			c.Text("echo " + key)
		case "ask":
			w.ask(c, key)
		case "wait":
			c.Progress(1)
			w.began <- key
			select {
			case <-w.waits(key):
				c.Text("done " + key)
			case <-c.Done():
			}
		case "log":
			for _, level := range []string{"info", "error"} {
				c.Notify("notifications/message", fmt.Sprintf(`{"level":%q,"data":%q}`, level, key))
			}
			c.Text("logged")
		}
	})
	return w
}

const question = `{"message":"Really?","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`

func (w *worker) ask(c *mcptest.Call, key string) {
	m, err := c.Ask("elicitation/create", question)
	if err != nil {
		return
	}
	var answer string
	m.Value("content|a", &answer)
	c.Text("answered " + key + " " + answer)
}

func (w *worker) waits(key string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.released[key] == nil {
		w.released[key] = make(chan struct{})
	}
	return w.released[key]
}

// release lets a call of wait continue.
func (w *worker) release(key string) { close(w.waits(key)) }

// ran returns how often a call came.
func (w *worker) ran(key string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[key]
}

// session returns the session in which a call came.
func (w *worker) session(key string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sessions[key]
}

// await waits until a call of wait has begun.
func (w *worker) await(t *testing.T, key string) {
	t.Helper()
	for ctx := deadline(t); ; {
		select {
		case began := <-w.began:
			if began == key {
				return
			}
		case <-ctx.Done():
			t.Fatalf("the call %s never came", key)
		}
	}
}

// call returns the params of a call of a worker's tool.
func call(tool, key string) string {
	return fmt.Sprintf(`{"name":%q,"arguments":{"key":%q},"_meta":{"progressToken":%q}}`, tool, key, key)
}
