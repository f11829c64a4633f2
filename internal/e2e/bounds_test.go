package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestASlowServerAlone: a server that does not answer delays neither its users'
// calls to other servers, nor other users' calls to it.
func TestASlowServerAlone(t *testing.T) {
	t.Parallel()
	slow, fast := scripted(t, stateless), doing(t)
	arrived, release := make(chan string, 100), make(chan struct{})
	slow.Tools("do")
	slow.On("tools/call", func(c *mcptest.Call) {
		arrived <- "a call"
		select {
		case <-release:
			c.Text("done")
		case <-c.Done(): // the test has failed
		}
	})
	g := guard(t, gateway.Config{Upstreams: []upstream.Config{
		{Name: "slow", URL: slow.URL, Limits: upstream.Limits{Concurrent: 4}}, {Name: "fast", URL: fast.URL},
	}})
	ann, bob := g.raw(t, stateless, g.issuer.Token(claims{"sub": "ann"})),
		g.raw(t, statefulClient, g.issuer.Token(claims{"sub": "bob"}))
	outcomes := make(chan mcptest.Message, 60)
	for range cap(outcomes) {
		go func() {
			m, _, err := ann.Call(deadline(t), "tools/call", `{"name":"slow__do"}`)
			if err != nil {
				t.Error(err)
			}
			outcomes <- m
		}()
	}
	for range 2 { // half of those that may run; the others are queued
		receive(t, "ann's call at the server", arrived)
	}
	for _, c := range []*mcptest.Client{ann, bob} {
		if got := said(mustCall(t, c, "tools/call", `{"name":"fast__do"}`)); got != "done" {
			t.Errorf("the other server: %s", got)
		}
	}
	bobs := make(chan mcptest.Message, 1)
	go func() {
		m, _, err := bob.Call(deadline(t), "tools/call", `{"name":"slow__do"}`)
		if err != nil {
			t.Error(err)
		}
		bobs <- m
	}()
	receive(t, "bob's call at the server, past all of ann's that wait", arrived)
	close(release)
	if got := said(receive(t, "bob's answer", bobs)); got != "done" {
		t.Errorf("another user: %s", got)
	}
	for range cap(outcomes) {
		if got := said(receive(t, "an answer", outcomes)); got != "done" {
			t.Errorf("what waited: %s", got)
		}
	}
}

// TestHomesOfOneUser: one user's invented session ids and client names take up no more than that
// user's share of a replica and of Redis, and another user's calls go on.
func TestHomesOfOneUser(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	up := scripted(t, statefulClient)
	up.Tools("do")
	up.On("tools/call", func(c *mcptest.Call) { c.Text("done") })
	cfg := gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: up.URL}}}
	cfg.Sessions.Store, cfg.Sessions.Key, cfg.Sessions.Redis.URL = "redis", "0123456789abcdef0123456789abcdef",
		mcp.Secret(redis.URL())
	cfg.Sessions.MaxPerUser, cfg.Replicas.Listen = 5, "127.0.0.1:0"
	g := guard(t, cfg)
	bobs := []*mcptest.Client{g.raw(t, stateless, g.issuer.Token(claims{"sub": "bob"})),
		g.raw(t, statefulClient, g.issuer.Token(claims{"sub": "bob"}))}
	bobCalls := func() {
		for _, bob := range bobs {
			if got := said(mustCall(t, bob, "tools/call", `{"name":"up__do"}`)); got != "done" {
				t.Errorf("another user: %s", got)
			}
		}
	}
	bobCalls()
	eve := g.raw(t, stateless, g.issuer.Token(claims{"sub": "eve"}))
	refused := 0
	for i := range 20 {
		eve.Name = fmt.Sprint("client-", i)
		m, _, err := eve.Call(deadline(t), "tools/call", `{"name":"up__do"}`)
		if err != nil {
			t.Fatal(err)
		}
		if m.Error != nil {
			refused++
			if m.Error.Code != 42901 {
				t.Errorf("one client too many: %s", m.Text)
			}
		}
	}
	old := g.raw(t, statefulClient, g.issuer.Token(claims{"sub": "eve"}))
	for i := range 20 {
		for _, form := range []string{"x-%d", "~%016d", "ABCDEFGHIJKLMNOPQRSTUVWX%02d"} {
			old.Session = fmt.Sprintf(form, i)
			x, err := old.Send(deadline(t), "tools/list", "{}")
			if err != nil {
				t.Fatal(err)
			}
			if x.Status != http.StatusNotFound {
				t.Errorf("the session %s: status %d", old.Session, x.Status)
			}
			x.Close()
		}
	}
	bobCalls()
	client := redis.Client()
	defer client.Close()
	homes, err := client.Keys(deadline(t), "*h:{*").Result()
	if err != nil || len(homes) != 2+5+1 || refused != 15 {
		t.Errorf("%d homes, %d calls refused, %v: want those of bob's clients, five of eve's and that of her session",
			len(homes), refused, err)
	}
}

// fewFilesCommand makes the test binary a gateway that may open few files, in front of the
// server at a URL: fewFilesCommand URL. It prints its own address and that of its metrics,
// and ends when its standard input ends.
const fewFilesCommand = "few-files-gateway"

func serveWithFewFiles(server string) error {
	if err := limitFiles(256); err != nil {
		return err
	}
	g, err := gateway.New(gateway.Options{Config: gateway.Config{
		Listen: "127.0.0.1:0", Admin: config.Admin{Listen: "127.0.0.1:0"},
		Upstreams: []upstream.Config{{Name: "up", URL: server}},
	}})
	if err != nil {
		return err
	}
	g.Start()
	if err := g.WaitReady(context.Background()); err != nil {
		return err
	}
	fmt.Println(g.URL() + " http://" + g.AdminAddr().String() + "/metrics")
	_, _ = io.Copy(io.Discard, os.Stdin)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return g.Stop(ctx)
}

// TestNoMoreFiles: when no more files can be opened, open connections continue,
// nothing spins, and new clients are served as soon as others leave.
func TestNoMoreFiles(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	s := doing(t)
	cmd := exec.Command(os.Args[0], fewFilesCommand, s.URL)
	var log mcptest.Log
	cmd.Stderr = &log
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		input.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the gateway: %v\n%s", err, log.String())
		}
	}()
	said := make([]byte, 200)
	n, err := output.Read(said)
	if err != nil {
		t.Fatal(err)
	}
	url, metrics, _ := strings.Cut(strings.TrimSpace(string(said[:n])), " ")
	operator := &http.Client{Transport: &http.Transport{}} // its connection stays open, as that of Prometheus
	defer operator.CloseIdleConnections()
	if text := scraped(t, operator, metrics); !strings.Contains(text, "\ngatehouse_accept_failures_total 0\n") {
		t.Errorf("before: %s", text)
	}
	known := []*mcptest.Client{opened(t, url, eras[0]), opened(t, url, eras[1])}
	call := func() {
		for _, c := range known {
			mustCall(t, c, "tools/call", `{"name":"up__do"}`)
		}
	}
	address := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
	var crowd []net.Conn
	defer func() {
		for _, conn := range crowd {
			conn.Close()
		}
	}()
	for len(crowd) < 400 { // each stays open until it has been idle for a minute
		if len(crowd)%10 == 0 {
			call() // a connection that nobody uses for longer than any other makes room
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		crowd = append(crowd, conn)
		if _, err := fmt.Fprint(conn, "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Await(deadline(t), "too many open files", 1); err != nil {
		t.Fatalf("%v:\n%s", err, log.String())
	}
	for range 20 {
		call()
	}
	// The pauses between tries begin at 5ms with each connection that is taken, and reach a
	// second with the ninth try. Without pauses there would be thousands a second.
	if n, most := log.Count("Accept error"), 10*len(crowd); n > most {
		t.Errorf("%d tries to take connections, want at most %d", n, most)
	}
	if text := scraped(t, operator, metrics); strings.Contains(text, "\ngatehouse_accept_failures_total 0\n") {
		t.Error("connections that could not be taken are not counted")
	}
	for _, conn := range crowd {
		conn.Close()
	}
	mustCall(t, opened(t, url, eras[0]), "tools/call", `{"name":"up__do"}`)
}

// scraped returns the values of the metrics.
func scraped(t *testing.T, by *http.Client, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(deadline(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := by.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// opened returns a client with its own connections.
func opened(t *testing.T, url, revision string) *mcptest.Client {
	t.Helper()
	c := unopened(t, url, revision)
	if err := c.Open(deadline(t)); err != nil {
		t.Fatal(err)
	}
	return c
}
