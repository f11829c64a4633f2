package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// several are replicas of one gateway with one Redis, behind a round-robin balancer.
type several struct {
	url     string
	redis   *redistest.Server
	servers []*inquirer
	urls    []string // of the replicas themselves
	cfg     gateway.Config
}

// replicated starts three replicas in front of an inquirer of each revision.
func replicated(t *testing.T, change func(*gateway.Config)) *several {
	t.Helper()
	server := redistest.Start(t)
	return replicatedBy(t, server, func(int) string { return server.URL() }, change)
}

// replicatedBy is replicated where each replica has its own link to Redis.
func replicatedBy(t *testing.T, server *redistest.Server, way func(replica int) string,
	change func(*gateway.Config)) *several {
	t.Helper()
	s := &several{redis: server}
	var cfg gateway.Config
	for _, r := range wire.Revisions() {
		server := newInquirer(t, r.Name)
		s.servers = append(s.servers, server)
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: server.name, URL: server.URL})
	}
	cfg.Sessions.Store, cfg.Replicas.Listen = "redis", "127.0.0.1:0"
	cfg.Sessions.Key = "0123456789abcdef0123456789abcdef"
	cfg.HTTP.StreamAfter = 10 * time.Millisecond
	if change != nil {
		change(&cfg)
	}
	s.cfg = cfg
	var proxies []http.Handler
	for here := range 3 {
		cfg.Sessions.Redis.URL = mcp.Secret(way(here))
		replica := start(t, cfg)
		s.urls = append(s.urls, replica)
		target, err := url.Parse(strings.TrimSuffix(replica, "/mcp"))
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		proxies = append(proxies, &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
			FlushInterval: -1,
			Transport:     transport,
			ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		})
	}
	var next atomic.Int64
	balancer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxies[int(next.Add(1))%len(proxies)].ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		balancer.CloseClientConnections()
		balancer.Close()
	})
	s.url = balancer.URL + "/mcp"
	return s
}

// another runs one more replica, which the balancer does not know, until stop is called or the
// test ends.
func (s *several) another(t *testing.T) (url string, stop func()) {
	t.Helper()
	cfg := s.cfg
	cfg.Sessions.Redis.URL = mcp.Secret(s.redis.URL())
	g, stop, err := run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(stop)
	t.Cleanup(stop)
	return g.URL(), stop
}

// at returns the client at one of the replicas, without the balancer.
func (s *several) at(c *mcptest.Client, replica int) *mcptest.Client {
	there := mcptest.NewClient(s.urls[replica], c.Revision)
	there.Name, there.Caps, there.Session, there.HTTP = c.Name, c.Caps, c.Session, c.HTTP
	return there
}

// TestReplicasQuestions: servers of all revisions ask clients of all revisions during
// a call, and the answers arrive at other replicas.
func TestReplicasQuestions(t *testing.T) {
	t.Parallel()
	r := replicated(t, nil)
	for _, revision := range wire.Revisions() {
		c := rawWith(t, r.url, revision.Name, askable)
		for _, s := range r.servers {
			t.Run("client "+revision.Name+" server "+s.revision.Name, func(t *testing.T) {
				s.asks([]inquiry{aSample, theirs}, []inquiry{aSample}, []inquiry{theirs})
				before := len(s.Received("tools/call"))
				m, asked := converse(t, c, "tools/call", s.params("tools/call"), usual)
				if want := strings.Join([]string{sampled, rooted, sampled, rooted}, " "); outcome(m) != want || len(asked) != 4 {
					t.Errorf("after %d questions: %s\nwant %s", len(asked), outcome(m), want)
				}
				if calls := len(s.Received("tools/call")) - before; s.revision.Stateful && calls != 1 {
					t.Errorf("%d calls were made", calls)
				}
			})
		}
	}
}

// TestReplicasClients: go-sdk clients of both eras that know nothing of replicas.
func TestReplicasClients(t *testing.T) {
	t.Parallel()
	peer, stop := serve(newPeer(statefulServer, func(string) {}), false)
	defer stop()
	r := replicated(t, func(cfg *gateway.Config) {
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: "peer", URL: peer})
	})
	for _, revision := range []string{statefulServer, statefulClient, stateless} {
		t.Run(revision, func(t *testing.T) {
			c := connect(t, r.url, revision)
			var all sync.WaitGroup
			for i := range 10 {
				all.Go(func() {
					text := fmt.Sprint("hello ", i)
					result, err := c.CallTool(deadline(t), &sdk.CallToolParams{Name: "peer__echo",
						Arguments: map[string]any{"text": text}})
					if err != nil || textOf(t, result) != text {
						t.Errorf("%v %v", result, err)
					}
				})
			}
			all.Wait()
			if got := c.text(t, "peer__confirm", nil); !strings.Contains(got, "it is time") {
				t.Errorf("the question's answer: %s", got)
			}
			if tools, err := c.ListTools(deadline(t), nil); err != nil || len(tools.Tools) < 10 {
				t.Errorf("tools: %+v %v", tools, err)
			}
		})
	}
}

// TestReplicasCancel cancels at one replica what runs at another, and ends a session that
// has parts at several replicas.
func TestReplicasCancel(t *testing.T) {
	t.Parallel()
	slow := scripted(t, statefulServer)
	slow.Tools("wait")
	began, ended := make(chan string, 10), make(chan string, 10)
	slow.On("tools/call", func(c *mcptest.Call) {
		began <- ""
		c.Hang()
		ended <- ""
	})
	r := replicated(t, func(cfg *gateway.Config) {
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: "slow", URL: slow.URL})
	})
	c := raw(t, r.url, statefulClient)
	for here := range 3 {
		x, err := r.at(c, here).SendID(deadline(t), `"it"`, "tools/call", `{"name":"slow__wait"}`)
		if err != nil {
			t.Fatal(err)
		}
		receive(t, "the call's start", began)
		if status, err := r.at(c, (here+1)%3).Notify(deadline(t), "notifications/cancelled",
			`{"requestId":"it"}`); status != http.StatusAccepted || err != nil {
			t.Fatalf("cancelling: %d %v", status, err)
		}
		if m, err := x.Response(); err == nil {
			t.Errorf("a cancelled call is answered: %s", m.Text)
		}
		x.Close()
	}

	x, err := r.at(c, 0).Send(deadline(t), "tools/call", `{"name":"slow__wait"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	receive(t, "the call's start", began)
	stream, err := r.at(c, 1).Get(deadline(t), "")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if status, err := r.at(c, 2).Delete(deadline(t)); status != http.StatusNoContent || err != nil {
		t.Fatalf("DELETE: %d %v", status, err)
	}
	for what, x := range map[string]*mcptest.Exchange{"the call": x, "the stream": stream} {
		if m, err := x.Response(); err == nil && m.Error == nil {
			t.Errorf("%s goes on after the session's end: %s", what, m.Text)
		}
	}
	for here := range 3 {
		y, err := r.at(c, here).Send(deadline(t), "tools/list", "{}")
		if err != nil || y.Status != http.StatusNotFound {
			t.Errorf("replica %d after DELETE: %+v %v", here, y, err)
		}
		y.Close()
	}
}

// TestReplicasResume breaks a call's stream and resumes it at another replica, while the
// call runs and after its end.
func TestReplicasResume(t *testing.T) {
	t.Parallel()
	steady := scripted(t, statefulServer)
	steady.Tools("work")
	proceed := make(chan struct{}, 10)
	steady.On("tools/call", func(c *mcptest.Call) {
		for i := range 3 {
			c.Progress(i + 1)
			<-proceed
		}
		c.Text("done")
	})
	r := replicated(t, func(cfg *gateway.Config) {
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: "steady", URL: steady.URL})
	})
	c := raw(t, r.url, statefulClient)
	x, err := r.at(c, 0).Send(deadline(t), "tools/call", `{"name":"steady__work","_meta":{"progressToken":"p"}}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Until("notifications/progress"); err != nil {
		t.Fatal(err)
	}
	ids := x.EventIDs()
	x.Close()
	follow := func(replica int, last string) *mcptest.Exchange {
		y, err := r.at(c, replica).Get(deadline(t), last)
		if err != nil {
			t.Fatal(err)
		}
		return y
	}
	y := follow(1, ids[len(ids)-1])
	proceed <- struct{}{}
	if _, err := y.Until("notifications/progress"); err != nil {
		t.Fatalf("progress of a call that runs elsewhere: %v", err)
	}
	ids = append(ids, y.EventIDs()...)
	y.Close()
	z := follow(2, ids[len(ids)-1])
	defer z.Close()
	proceed <- struct{}{}
	proceed <- struct{}{}
	if m, err := z.Response(); err != nil || outcome(m) != "done" {
		t.Fatalf("the answer of a call that ran elsewhere: %s %v", m.Text, err)
	}
	again := follow(1, ids[0])
	defer again.Close()
	if m, err := again.Response(); err != nil || outcome(m) != "done" || len(again.Before) != 3 {
		t.Errorf("all of it again: %d messages before %s %v", len(again.Before), m.Text, err)
	}
}

// TestReplicasLimits: three replicas count as one.
func TestReplicasLimits(t *testing.T) {
	t.Parallel()
	r := replicated(t, func(cfg *gateway.Config) {
		cfg.Limits = policy.Limits{{Name: "few", What: []string{"tools:*"}, Rate: policy.Rate{Count: 5, Per: 24 * time.Hour}}}
		cfg.Policy = policy.Config{Default: policy.DefaultAllow,
			Rules: []policy.Rule{{Name: "with a yes", Ask: []string{"tools:*/confirm"}}}}
	})
	c := rawWith(t, r.url, statefulClient, askable)
	s := r.servers[0]
	s.asks()
	through := 0
	for range 10 {
		m, _, err := c.Call(deadline(t), "tools/call", s.params("tools/call"))
		if err != nil {
			t.Fatal(err)
		}
		if m.Error == nil {
			through++
		}
	}
	if through != 5 {
		t.Errorf("%d calls were let through, want 5", through)
	}
}

// TestReplicasApproval: users approve calls at another replica than the one that asked
// them.
func TestReplicasApproval(t *testing.T) {
	t.Parallel()
	r := replicated(t, func(cfg *gateway.Config) {
		cfg.Policy = policy.Config{Default: policy.DefaultAllow,
			Rules: []policy.Rule{{Name: "with a yes", Ask: []string{"tools:*"}}}}
	})
	for _, revision := range []string{statefulClient, stateless} {
		c := rawWith(t, r.url, revision, askable)
		for _, s := range r.servers {
			s.asks([]inquiry{theirs})
			m, asked := converse(t, c, "tools/call", s.params("tools/call"), func(q inquiry) string {
				if q.Method == "elicitation/create" {
					return `{"action":"accept","content":{"approve":true}}`
				}
				return usual(q)
			})
			if outcome(m) != rooted || len(asked) != 2 {
				t.Errorf("client %s server %s: asked %v: %s", revision, s.revision.Name, asked, m.Text)
			}
		}
	}
}

// TestReplicasStand: events of a session reach its only GET stream, at whichever replica it
// is.
func TestReplicasStand(t *testing.T) {
	e := newEvents()
	defer e.server.Close()
	peer, stop := serve(newPeer(statefulServer, e.happened), false)
	defer stop()
	r := replicated(t, func(cfg *gateway.Config) {
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: "peer", URL: peer})
	})
	c := raw(t, r.url, statefulClient)
	const uri = "peer+test://static"
	if _, _, err := r.at(c, 0).Call(deadline(t), "resources/subscribe", `{"uri":"`+uri+`"}`); err != nil {
		t.Fatal(err)
	}
	touch := func(replica int) {
		t.Helper()
		m, _, err := r.at(c, replica).Call(deadline(t), "tools/call",
			`{"name":"peer__touch","arguments":{"uri":"test://static"}}`)
		if err != nil || outcome(m) != "touched" {
			t.Fatalf("touching: %s %v", m.Text, err)
		}
	}
	hears := func(what string, x *mcptest.Exchange) {
		t.Helper()
		if _, err := x.Until("notifications/resources/updated"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Before there is a stream, the event waits where it arrived.
	touch(1)
	first, err := r.at(c, 2).Get(deadline(t), "")
	if err != nil {
		t.Fatal(err)
	}
	hears("what waited at another replica", first)
	touch(0)
	hears("what happens while the stream is open", first)
	ids := first.EventIDs()
	first.Close()
	// Resumed at another replica after its last event.
	second, err := r.at(c, 1).Get(deadline(t), ids[len(ids)-1])
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	touch(2)
	hears("after going on elsewhere", second)
}

// TestReplicasWithoutRedis: known sessions continue, new ones are told to come back, and
// all is well once Redis is.
func TestReplicasWithoutRedis(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	r := replicated(t, nil)
	s := r.servers[0]
	s.asks()
	known := raw(t, r.url, statefulClient)
	for here := range 3 {
		mustCall(t, r.at(known, here), "tools/list", "{}")
	}
	r.redis.Kill()
	for here := range 3 {
		if m := mustCall(t, r.at(known, here), "tools/call", s.params("tools/call")); m.Error != nil {
			t.Errorf("a known session at replica %d: %s", here, m.Text)
		}
	}
	mustCall(t, raw(t, r.url, stateless), "tools/list", "{}") // calls without a session continue
	fresh := unopened(t, r.url, statefulClient)
	begin := func() *mcptest.Exchange {
		x, err := fresh.Post(deadline(t), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+
			statefulClient+`","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		return x
	}
	if x := begin(); x.Status != http.StatusServiceUnavailable || x.Header.Get("Retry-After") == "" {
		t.Errorf("a new session: status %d, Retry-After %q", x.Status, x.Header.Get("Retry-After"))
	}
	r.redis.Restart(t)
	ctx := deadline(t)
	for begin().Status != http.StatusOK {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("it does not heal")
		}
	}
	// For some seconds a replica serves it from its copy.
	for status := http.StatusOK; status != http.StatusNotFound; {
		x, err := known.Send(ctx, "tools/list", "{}")
		if err != nil {
			t.Fatalf("a session that Redis has lost: %v", err)
		}
		x.Close()
		if status = x.Status; status != http.StatusNotFound && status != http.StatusOK {
			t.Fatalf("a session that Redis has lost: status %d", status)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("a session that Redis has lost is served for ever")
		}
	}
}
