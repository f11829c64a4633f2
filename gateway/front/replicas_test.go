package front

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/faultproxy"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/session"
)

const testKey = "0123456789abcdef0123456789abcdef"

// replica is a bench that is one of several.
type replica struct {
	*bench
	cluster  *cluster.Cluster
	sessions *session.Redis
	way      *faultproxy.Proxy // the others connect through it
	loses    atomic.Bool       // the answer to the next request that they forward is lost
}

// replicas makes replicas that share a Redis.
func replicas(t *testing.T, count int) []*replica {
	t.Helper()
	redis := redistest.Start(t)
	var all []*replica
	for range count {
		all = append(all, newReplica(t, redis))
	}
	return all
}

func newReplica(t *testing.T, redis *redistest.Server) *replica {
	t.Helper()
	r := &replica{bench: &bench{t: t, script: newScript(), log: &mcptest.Log{}}}
	sessions, err := session.NewRedis(session.Config{Store: session.StoreRedis, Key: testKey,
		Redis: redisdb.Config{URL: mcp.Secret(redis.URL())}}, session.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sessions.Close() })
	r.join(t, sessions)
	sessions.Open(session.Deps{Homes: home.Config{Owners: r.cluster}})
	r.sessions = sessions
	key, err := seal.NewKey([]byte(testKey), "test")
	if err != nil {
		t.Fatal(err)
	}
	r.front, err = newFront(Config{StreamAfter: tooLong, SSEPath: ssePath}, Deps{
		Deps: exchange.Deps{Handler: r.script, Store: sessions, Seal: key, Log: slog.New(slog.NewTextHandler(r.log, nil)),
			Server: exchange.ServerInfo{Name: "gate", Version: "1"}},
		Cluster: r.cluster, Upstreams: &keeping{},
		Callers: Callers{
			Write: func(c mcp.Caller) ([]byte, error) { return json.Marshal(c) },
			Read: func(text []byte) (c mcp.Caller, err error) {
				err = json.Unmarshal(text, &c)
				return mcp.NewCaller(c), err
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.cluster.Start(losing{r.front.Receiver(), &r.loses})
	server := httptest.NewServer(r)
	r.url = server.URL
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		_ = r.front.Close(now) // ends what runs
		http.DefaultClient.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
		r.cluster.Close(now)
	})
	return r
}

// losing loses an answer to what other replicas forward.
type losing struct {
	cluster.Receiver
	loses *atomic.Bool
}

func (l losing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.loses.CompareAndSwap(true, false) {
		l.Receiver.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	l.Receiver.ServeHTTP(w, r)
}

// giveUp gives up the home of a client's session.
func (r *replica) giveUp(c *mcptest.Client) { r.front.homes().Release(home.ParseKey(keyOf(c))) }

// join makes the replica's part of the cluster, behind a proxy.
func (r *replica) join(t *testing.T, sessions *session.Redis) {
	t.Helper()
	address := mcptest.LoopbackAddress(t)
	if err := r.joinAt(address, sessions); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.way.Close)
}

func (r *replica) joinAt(address string, sessions *session.Redis) (err error) {
	if r.way, err = faultproxy.Start(address); err != nil {
		return err
	}
	r.cluster, err = cluster.New(cluster.Config{Listen: address, Advertise: r.way.Addr()}, cluster.Deps{
		DB: sessions.DB(), Key: []byte(testKey), Idle: time.Hour, Log: slog.New(slog.NewTextHandler(r.log, nil)),
	})
	return err
}

// at returns another replica's client, connected to this one.
func (r *replica) at(c *mcptest.Client) *mcptest.Client {
	here := mcptest.NewClient(r.url, c.Revision)
	here.Caps, here.Session, here.Header = c.Caps, c.Session, c.Header
	return here
}

// echo makes a call that ends well.
func echo(t *testing.T, c *mcptest.Client) {
	t.Helper()
	if m, _, err := c.Call(soon(t), mcp.MethodToolsCall, `{"name":"echo"}`); err != nil || m.Error != nil {
		t.Errorf("%s %v", m.Text, err)
	}
}

// calls returns how many tool calls reached this replica's handler.
func (r *replica) calls() (n int) {
	for _, c := range r.script.made() {
		if c.Method == mcp.MethodToolsCall {
			n++
		}
	}
	return n
}

// TestForwarded: a request to another replica is served by the owner, as its caller, and its
// results reach the client.
func TestForwarded(t *testing.T) {
	all := replicas(t, 2)
	a, b := all[0], all[1]
	c := mcptest.NewClient(a.url, wire.Lookup(v2511))
	c.Header = http.Header{"Test-User": {"ann"}, "Test-Client": {"cli"}, "Test-Group": {"staff", "admin"}}
	c.Caps = `{"elicitation":{}}`
	if err := c.Open(soon(t)); err != nil {
		t.Fatal(err)
	}
	there := b.at(c)
	echo(t, there)
	if caller := a.script.last(mcp.MethodToolsCall).Caller; caller.Subject != "ann" || caller.ClientID != "cli" ||
		fmt.Sprint(caller.Groups) != "[staff admin]" {
		t.Errorf("the owner takes the caller to be %+v", caller)
	}

	x := follow(t, there, "")
	a.script.waitListening(t, 1)
	for range 3 { // the client was not here before
		a.script.emit(mcp.NoteToolsListChanged, `{}`)
		if m, err := x.Until(mcp.NoteToolsListChanged); err != nil {
			t.Fatalf("the session's stream: %s %v", m.Text, err)
		}
	}

	asking, err := there.Send(soon(t), mcp.MethodToolsCall, `{"name":"ask"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer asking.Close()
	question, err := asking.Until(mcp.MethodElicit)
	if err != nil {
		t.Fatal(err)
	}
	if err := there.Answer(soon(t), question.ID, `{"action":"decline"}`); err != nil {
		t.Fatal(err)
	}
	if m, err := asking.Response(); err != nil || !strings.Contains(m.Text, "decline") {
		t.Errorf("a question: %s %v", m.Text, err)
	}

	answers, _ := start(t, there, "8", `{"name":"slow"}`)
	receive(t, "the call", a.script.started)
	if status, err := there.Notify(soon(t), mcp.NoteCancelled,
		`{"requestId":8,"reason":"enough"}`); status != http.StatusAccepted || err != nil {
		t.Errorf("cancelling: %d %v", status, err)
	}
	if err := receive(t, "the call's end", a.script.ended); !errors.Is(err, mcp.CancelReason("enough")) {
		t.Errorf("it was cancelled for %v", err)
	}
	receive(t, "the answer", answers).Close()
	if len(b.script.made()) > 0 {
		t.Errorf("%d calls were made where they came", len(b.script.made()))
	}

	if status, err := there.Delete(soon(t)); status != http.StatusNoContent || err != nil {
		t.Errorf("DELETE: %d %v", status, err)
	}
	if m, err := x.Next(); err == nil {
		t.Errorf("after the session's end its stream has %s", m.Text)
	}
	if status, err := c.Delete(soon(t)); status != http.StatusNotFound || err != nil {
		t.Errorf("DELETE again, at the owner: %d %v", status, err)
	}
}

// TestForwardedOnce: a forwarded request whose session has moved is not forwarded again. Its
// sender looks up the owner once more.
func TestForwardedOnce(t *testing.T) {
	all := replicas(t, 3)
	a, b, d := all[0], all[1], all[2]
	c := a.client(v2511)
	echo(t, b.at(c)) // it knows the owner now
	a.giveUp(c)
	echo(t, d.at(c))
	echo(t, b.at(c))
	if a.calls() != 1 || b.calls() != 0 || d.calls() != 2 {
		t.Errorf("the calls were made at %d, %d, %d", a.calls(), b.calls(), d.calls())
	}
}

// TestRecordVanishes: when Redis has lost a session, an event for it ends the session here, too:
// its stream, and no request of it hangs.
func TestRecordVanishes(t *testing.T) {
	redis := redistest.Start(t)
	a := newReplica(t, redis)
	c := a.client(v2511)
	x := follow(t, c, "")
	a.script.waitListening(t, 1)
	held := a.home(c)
	if n, err := redis.Client().Del(t.Context(), a.sessions.RecordKey(held.Key())).Result(); n != 1 || err != nil {
		t.Fatalf("%d records were deleted: %v", n, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.script.emit(mcp.NoteToolsListChanged, `{}`)
	}()
	receive(t, "the event", done)
	receive(t, "the end of the session", held.Over())
	if m, err := x.Until(mcp.NoteToolsListChanged); err == nil {
		_, err = x.Next()
		if err == nil {
			t.Errorf("the stream goes on after %s", m.Text)
		}
	}
	if m, _, err := c.Call(soon(t), mcp.MethodToolsCall, `{"name":"echo"}`); err == nil && m.Error == nil {
		t.Errorf("a call of the session: %s", m.Text)
	}
}

// TestOwnerGoesWithACall: if an owner goes during a call, the client is told that it is
// unknown whether the call has run. A notification must be sent again.
func TestOwnerGoesWithACall(t *testing.T) {
	all := replicas(t, 2)
	a, b := all[0], all[1]
	c := a.client(v2511)
	answers, _ := start(t, b.at(c), `"the call"`, `{"name":"slow"}`)
	receive(t, "the call", a.script.started)
	a.way.Cut()
	x := receive(t, "the answer", answers)
	defer x.Close()
	m, err := x.Response()
	wantLost(t, "the answer", m, err, `"the call"`)
	if x.Status != http.StatusOK {
		t.Errorf("status %d", x.Status)
	}
	a.script.release <- struct{}{}
	<-a.script.ended
}

// TestAnswersAreLost: a request that may be repeated is repeated when its answer is lost on
// the way from the owner, and its client notices nothing. A client that ends its session has
// to come again.
func TestAnswersAreLost(t *testing.T) {
	all := replicas(t, 2)
	a, b := all[0], all[1]
	there := b.at(a.client(v2511))
	echo(t, there)
	a.loses.Store(true)
	if status, err := there.Notify(soon(t), mcp.NoteCancelled, `{"requestId":8}`); status != http.StatusAccepted ||
		err != nil {
		t.Errorf("a notification: %d %v", status, err)
	}
	a.loses.Store(true)
	m, _, err := there.Call(soon(t), mcp.MethodToolsCall, `{"name":"echo"}`)
	if err != nil || m.Error == nil || m.Error.Code != mcp.CodeUpstreamSessionLost || a.calls() != 2 {
		t.Errorf("a call, made %d times: %s %v", a.calls()-1, m.Text, err)
	}
	a.loses.Store(true)
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusNotFound} {
		if status, err := there.Delete(soon(t)); status != want || err != nil {
			t.Errorf("DELETE: %d %v, want %d", status, err, want)
		}
	}
}

// TestOwnerCannotBeReached: a request for an owner whose lease holds but that does not answer
// is not served. The client may come again.
func TestOwnerCannotBeReached(t *testing.T) {
	all := replicas(t, 2)
	a, b := all[0], all[1]
	a.way.BlackHole()
	c := a.client(v2511)
	there := b.at(c)
	x, err := there.SendID(soon(t), "5", mcp.MethodToolsCall, `{"name":"echo"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	m, err := x.Response()
	if x.Status != http.StatusServiceUnavailable || x.Header.Get("Retry-After") == "" || err != nil ||
		m.Error == nil || !strings.Contains(string(m.Error.Data), `"executed":"no"`) || string(m.ID) != "5" {
		t.Errorf("a call: %d %s %v", x.Status, m.Text, err)
	}
	if y := follow(t, there, ""); y.Status != http.StatusServiceUnavailable || y.Header.Get("Retry-After") == "" {
		t.Errorf("GET: %d", y.Status)
	}
	a.way.Pass()
	echo(t, there)
	if a.calls() != 1 {
		t.Errorf("%d calls were made", a.calls())
	}
}

// TestSessionsOfOthersElsewhere: at each replica, a session of another user or another
// client looks like one that never existed, byte for byte.
func TestSessionsOfOthersElsewhere(t *testing.T) {
	all := replicas(t, 2)
	c := mcptest.NewClient(all[0].url, wire.Lookup(v2511))
	c.Header = http.Header{"Test-User": {"ann"}, "Test-Client": {"cli"}}
	if err := c.Open(soon(t)); err != nil {
		t.Fatal(err)
	}
	bodies := map[string]string{
		"a request":      `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		"a cancellation": `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`,
		"an answer":      `{"jsonrpc":"2.0","id":"gatehouse-1","result":{}}`,
		"GET":            "",
		"DELETE":         "",
	}
	for who, header := range map[string]http.Header{
		"another user":               {"Test-User": {"eve"}, "Test-Client": {"cli"}},
		"another client of the user": {"Test-User": {"ann"}, "Test-Client": {"other"}},
	} {
		for what, body := range bodies {
			for n, r := range all {
				method := http.MethodPost
				if body == "" {
					method = what
				}
				answer := func(session string) string {
					resp, text := r.send(method, body, with(header, wire.HeaderSession, session, "Accept",
						"text/event-stream, application/json"))
					resp.Header.Del("Date")
					return fmt.Sprint(resp.Status, resp.Header, text)
				}
				got, never := answer(c.Session), answer("NEVERWASANYSESSIONOFTHISID")
				if got != never || !strings.HasPrefix(got, "404 ") {
					t.Errorf("%s, %s at replica %d:\ngot   %s\nnever %s", who, what, n, got, never)
				}
			}
		}
	}
	if m, _, err := all[1].at(c).Call(soon(t), mcp.MethodPing, `{}`); err != nil || m.Error != nil {
		t.Errorf("its own: %s %v", m.Text, err)
	}
}

// TestSessionGivenUp: a replica that stops gives up the sessions for which nothing runs, and
// the others when their calls have ended. The next replica continues them.
func TestSessionGivenUp(t *testing.T) {
	all := replicas(t, 2)
	a, b := all[0], all[1]
	idle, busy := a.client(v2511), a.client(v2511)
	echo(t, idle)
	x := follow(t, idle, "")
	a.script.waitListening(t, 1)
	answers, _ := start(t, busy, `"the call"`, `{"name":"slow"}`)
	receive(t, "the call", a.script.started)
	before := a.calls()
	a.front.Drain(t.Context(), true)
	if m, err := x.Next(); err == nil {
		t.Errorf("the stream of a session that is given up has %s", m.Text)
	}
	// it is here again, and nothing runs
	if status, err := idle.Notify(soon(t), mcp.NoteInitialized, `{}`); status != http.StatusAccepted || err != nil {
		t.Errorf("a notification at the replica that stops: %d %v", status, err)
	}
	echo(t, b.at(idle))
	if b.calls() != 1 || a.calls() != before {
		t.Error("what is given up is served where it was")
	}
	if m, _, err := b.at(busy).Call(soon(t), mcp.MethodPing, `{}`); err != nil || m.Error != nil ||
		len(b.script.made()) != 1 {
		t.Errorf("a session with a call: %s %v", m.Text, err)
	}
	a.script.release <- struct{}{}
	<-a.script.ended
	if m, err := receive(t, "the answer", answers).Response(); err != nil || m.Error != nil {
		t.Errorf("a call at the replica that stops: %s %v", m.Text, err)
	}
	if err := a.front.Close(soon(t)); err != nil { // it waits until everything is given up
		t.Fatal(err)
	}
	echo(t, b.at(busy))
	if b.calls() != 2 || a.calls() != before {
		t.Errorf("after its call: %d calls at the next replica", b.calls())
	}
}

// TestCallWhileASessionIsGivenUp: a call that comes while its session is given up is made by the
// next owner, which may be the same replica.
func TestCallWhileASessionIsGivenUp(t *testing.T) {
	for _, revision := range []string{v2511, v2607} {
		t.Run(revision, func(t *testing.T) {
			all := replicas(t, 2)
			a, b := all[0], all[1]
			leaving, leave := make(chan struct{}), make(chan struct{})
			c := mcptest.NewClient(a.url, wire.Lookup(revision))
			if c.Revision.Stateful {
				c = a.client(revision)
			}
			echo(t, c)
			for _, h := range a.front.homes().All() {
				h.Attach(func(home.Why) {
					close(leaving)
					<-leave
				})
			}
			elsewhere, direct := make(chan *mcptest.Exchange, 1), make(chan *mcptest.Exchange, 1)
			send := func(c *mcptest.Client, to chan *mcptest.Exchange) {
				x, err := c.SendID(soon(t), "7", mcp.MethodToolsCall, `{"name":"echo"}`)
				if err != nil {
					t.Error(err)
				}
				to <- x
			}
			go a.front.Drain(t.Context(), true)
			for !a.front.homes().Leaving() {
				runtime.Gosched()
			}
			go send(b.at(c), elsewhere)
			receive(t, "the session is given up", leaving)
			go send(c, direct)
			close(leave)
			for _, answers := range []chan *mcptest.Exchange{elsewhere, direct} {
				x := receive(t, "the answer", answers)
				if m, err := x.Response(); err != nil || m.Error != nil {
					t.Errorf("%s %v", m.Text, err)
				}
				x.Close()
			}
			if n := a.calls() + b.calls(); n != 3 {
				t.Errorf("%d calls were made", n)
			}
		})
	}
}

// TestQuestionAfterATakeover: if another replica has taken over the home of a stateless client, a
// call that waited for an answer is lost, and a replica that stops does not wait for it.
func TestQuestionAfterATakeover(t *testing.T) {
	a := replicas(t, 2)[0]
	c := mcptest.NewClient(a.url, wire.Lookup(v2607))
	c.Header, c.Caps = http.Header{"Test-User": {"ann"}}, `{"elicitation":{}}`
	m, _, err := c.Call(soon(t), mcp.MethodToolsCall, `{"name":"ask-wait"}`)
	state := ""
	if err != nil || !m.Value("requestState", &state) || a.front.endpoint.Running.Calls() != 1 {
		t.Fatalf("%s %v, %d calls", m.Text, err, a.front.endpoint.Running.Calls())
	}
	for _, h := range a.front.homes().All() {
		h.EndLater(home.Moved)
		if _, err := a.front.homes().Use(soon(t), h.Key()); err != nil { // when all of it has ended
			t.Fatal(err)
		}
	}
	if n := a.front.endpoint.Running.Calls(); n != 0 {
		t.Errorf("%d calls count as running", n)
	}
	m, _, err = c.Call(soon(t), mcp.MethodToolsCall,
		fmt.Sprintf(`{"name":"ask-wait","inputResponses":{"q.1":{"action":"decline"}},"requestState":%q}`, state))
	if wantLost(t, "the answer", m, err, string(m.ID)); a.calls() != 1 {
		t.Errorf("%d calls were made", a.calls())
	}
	if n := a.front.endpoint.Running.Calls(); n != 0 {
		t.Errorf("in the end %d calls count as running", n)
	}
}

// TestQuestionOfAReplicaThatStops: a replica that stops waits for the answer to the question of
// a stateless client, which comes to another replica.
func TestQuestionOfAReplicaThatStops(t *testing.T) {
	all := replicas(t, 2)
	a, b := all[0], all[1]
	client := func(name string) *mcptest.Client {
		c := mcptest.NewClient(a.url, wire.Lookup(v2607))
		c.Header, c.Caps = http.Header{"Test-User": {name}}, `{"elicitation":{}}`
		return c
	}
	ask := func(c *mcptest.Client) (state string) {
		m, _, err := c.Call(soon(t), mcp.MethodToolsCall, `{"name":"ask-wait"}`)
		if err != nil || !m.Value("requestState", &state) {
			t.Fatalf("%s %v", m.Text, err)
		}
		return state
	}
	answer := func(c *mcptest.Client, state string) (mcptest.Message, error) {
		m, _, err := b.at(c).Call(soon(t), mcp.MethodToolsCall,
			fmt.Sprintf(`{"name":"ask-wait","inputResponses":{"q.1":{"action":"decline"}},"requestState":%q}`, state))
		return m, err
	}
	ann, bob := client("ann"), client("bob")
	anns, bobs := ask(ann), ask(bob)
	a.front.Drain(t.Context(), true)
	stopping, giveUp := context.WithCancel(soon(t))
	defer giveUp()
	stopped := make(chan error, 1)
	go func() { stopped <- a.front.Close(stopping) }()
	for a.front.endpoint.Running.Begin() { // until it takes no more
		a.front.endpoint.Running.Done()
		runtime.Gosched()
	}
	if m, err := answer(ann, anns); err != nil || !strings.Contains(m.Text, "decline") || a.calls() != 3 {
		t.Errorf("the answer: %s %v", m.Text, err)
	}
	echo(t, b.at(ann))
	if m, _, err := b.at(bob).Call(soon(t), mcp.MethodToolsCall, `{"name":"echo"}`); err != nil || m.Error == nil ||
		m.Error.Code != mcp.CodeDraining || a.calls() != 3 || b.calls() != 1 {
		t.Errorf("another call while one waits: %s %v", m.Text, err)
	}
	select {
	case err := <-stopped:
		t.Fatalf("it stopped although a call waits: %v", err)
	default:
	}
	giveUp()
	if err := receive(t, "its end", stopped); err == nil || !strings.Contains(err.Error(), "(1)") {
		t.Errorf("it stopped with %v, want one call that was cut off", err)
	}
	m, err := answer(bob, bobs)
	if wantLost(t, "an answer that is too late", m, err, "1"); b.calls() != 1 {
		t.Errorf("%d calls were made at the other replica", b.calls())
	}
}

// TestQuestionOfAClientThatLeft: a replica that stops waits for the answer of a client whose stream
// is closed. The client answers by another replica, and finds the result there.
func TestQuestionOfAClientThatLeft(t *testing.T) {
	all := replicas(t, 2)
	a, b := all[0], all[1]
	c := a.client(v2511, `{"elicitation":{}}`)
	x, err := c.Send(soon(t), mcp.MethodToolsCall, `{"name":"ask-wait"}`)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := x.Until(mcp.MethodElicit)
	if err != nil {
		t.Fatal(err)
	}
	x.Close()
	a.front.Drain(t.Context(), true)
	stopped := make(chan error, 1)
	go func() { stopped <- a.front.Close(soon(t)) }()
	for a.front.endpoint.Running.Begin() { // until it takes no more
		a.front.endpoint.Running.Done()
		runtime.Gosched()
	}
	if err := b.at(c).Answer(soon(t), asked.ID, `{"action":"decline"}`); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, "its end", stopped); err != nil {
		t.Errorf("it stopped with %v", err)
	}
	again, err := b.at(c).Get(soon(t), x.LastEventID())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if m, err := again.Response(); err != nil || !strings.Contains(m.Text, "decline") || a.calls() != 2 || b.calls() != 0 {
		t.Errorf("the result: %s %v", m.Text, err)
	}
}

// TestContestedSession: a request at a replica that stops, and one that another replica forwards
// there, do not take their session away from each other.
func TestContestedSession(t *testing.T) {
	all := replicas(t, 2)
	a, b := all[0], all[1]
	c := a.client(v2511)
	echo(t, c)
	a.front.Drain(t.Context(), true) // the session is given up
	answers, _ := start(t, c, `1`, `{"name":"slow"}`)
	receive(t, "the direct request", a.script.started)
	echo(t, b.at(c))
	if a.calls() != 3 {
		t.Errorf("%d calls were made where one runs", a.calls())
	}
	h := a.home(c)
	a.script.release <- struct{}{}
	receive(t, "the answer", answers).Close()
	receive(t, "the end of the session here", h.Over())
	echo(t, b.at(c))
	if b.calls() != 1 {
		t.Errorf("%d calls were made at the next owner", b.calls())
	}
}
