package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// client is one subscriptions/listen call of a client.
type client struct {
	cancel context.CancelFunc
	ended  chan struct{}
	reply  *mcp.Reply
	err    error

	mu     sync.Mutex
	events []string
	failed map[string]error // of the acknowledgement
}

// listen starts a listen call with this filter, of a caller who may know of these
// upstreams; without any, of all. The call ends with the test.
func listen(t *testing.T, c *Catalog, filter string, visible ...string) *client {
	in := call(mcp.MethodListen, "", `{"_meta":{"k":1},"notifications":`+filter+`}`)
	in.Session, in.Ephemeral, in.Caps = "ann:1", true, mcp.Raw(`{"roots":{}}`)
	if len(visible) > 0 {
		seeing(in, visible...)
	}
	return listenBy(t, c, in)
}

func listenBy(t *testing.T, c *Catalog, in *mcp.Call) *client {
	ctx, cancel := context.WithCancel(context.Background())
	cl := &client{cancel: cancel, ended: make(chan struct{})}
	in.Notify = func(e mcp.Event) {
		cl.mu.Lock()
		defer cl.mu.Unlock()
		cl.events = append(cl.events, e.Method+" "+string(e.Params))
		if e.Method == mcp.NoteAcknowledged {
			cl.failed = e.Failed
		}
	}
	go func() {
		defer close(cl.ended)
		cl.reply, cl.err = c.Handle(ctx, in)
	}()
	t.Cleanup(func() {
		cancel()
		<-cl.ended
	})
	return cl
}

func (cl *client) told() []string {
	synctest.Wait()
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return slices.Clone(cl.events)
}

// wantFailed checks which resources the acknowledgement reports as not honoured, and the
// error code of each.
func (cl *client) wantFailed(t *testing.T, want map[string]int) {
	t.Helper()
	cl.mu.Lock()
	defer cl.mu.Unlock()
	got := make(map[string]int)
	for uri, err := range cl.failed {
		if e, ok := errors.AsType[*mcp.Error](err); ok {
			got[uri] = e.Code
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("failed %v, want %v", cl.failed, want)
	}
}

func (cl *client) want(t *testing.T, want ...string) {
	t.Helper()
	if got := cl.told(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// listening starts a listen call; the function returns the events so far.
func listening(t *testing.T, c *Catalog, filter string) func() []string {
	cl := listen(t, c, filter)
	synctest.Wait()
	return cl.told
}

func ack(honoured string) string {
	return mcp.NoteAcknowledged + ` {"notifications":` + honoured + `}`
}

const (
	toolsChanged     = mcp.NoteToolsListChanged + " {}"
	promptsChanged   = mcp.NotePromptsListChanged + " {}"
	resourcesChanged = mcp.NoteResourcesListChanged + " {}"
	skillsChanged    = mcp.NoteSkillsListChanged + " {}"
)

func TestListChanges(t *testing.T) {
	bubble(t, "of any upstream, the first at once, to everyone who wants them", func(t *testing.T) {
		crm, doc := newServer("crm").tools("a"), newServer("doc").tools("a")
		c := start(t, sourcesOf([]*server{crm, doc})...)
		all := listen(t, c, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`)
		one := listen(t, c, `{"promptsListChanged":true,"toolsListChanged":false,"unknown":true}`)
		none := listen(t, c, `{}`)
		synctest.Wait()
		const everything = `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`
		crm.tools("b").says(mcp.NoteToolsListChanged, `{}`)
		after(3 * together)
		all.want(t, ack(everything), toolsChanged)
		crm.tools("c").says(mcp.NoteToolsListChanged, `{}`)
		doc.tools("b").says(mcp.NoteToolsListChanged, `{}`)
		doc.has(mcp.MethodPromptsList, `{"name":"p"}`).says(mcp.NotePromptsListChanged, `{}`)
		synctest.Wait()
		all.want(t, ack(everything), toolsChanged)
		after(2 * coalesce)
		all.want(t, ack(everything), toolsChanged, toolsChanged, promptsChanged)
		one.want(t, ack(`{"promptsListChanged":true}`), promptsChanged)
		none.want(t, ack(`{}`))
		doc.has(mcp.MethodResourceTemplatesList, template("a:{b}")).says(mcp.NoteResourcesListChanged, `{}`)
		after(2 * coalesce)
		if got := all.told(); got[len(got)-1] != resourcesChanged {
			t.Errorf("got %q", got)
		}
	})
	bubble(t, "an upstream's word is passed on, a look of our own that finds nothing is not", func(t *testing.T) {
		crm := newServer("crm").tools("a")
		c := start(t, Source{Upstream: crm})
		cl := listen(t, c, `{"toolsListChanged":true}`)
		synctest.Wait()
		after(2 * refreshAfter)
		cl.want(t, ack(`{"toolsListChanged":true}`))
		crm.says(mcp.NoteToolsListChanged, `{}`)
		after(time.Second)
		cl.want(t, ack(`{"toolsListChanged":true}`), toolsChanged)
	})
	bubble(t, "only what is offered is acknowledged", func(t *testing.T) {
		crm := newServer("crm")
		crm.caps = `{"tools":{}}`
		c := start(t, Source{Upstream: crm})
		cl := listen(t, c, `{"toolsListChanged":true,"promptsListChanged":true}`)
		cl.want(t, ack(`{"toolsListChanged":true}`))
	})
	bubble(t, "it ends in good order with the catalog", func(t *testing.T) {
		crm := newServer("crm")
		c := newCatalog(t, Config{}, Source{Upstream: crm})
		stop := running(t, c)
		c.WaitFirst(t.Context())
		cl := listen(t, c, `{"resourceSubscriptions":["crm+a:b"]}`)
		synctest.Wait()
		stop()
		<-cl.ended
		if cl.err != nil || string(cl.reply.Result) != `{}` {
			t.Errorf("got %v, %v", cl.reply, cl.err)
		}
		if n := len(crm.open(true)) + len(crm.open(false)); n != 0 {
			t.Errorf("%d streams stand", n)
		}
	})
	bubble(t, "few are told at a time, unless these hang", func(t *testing.T) {
		c := start(t)
		var told atomic.Int64
		end := make(chan struct{})
		for range 3 * atOnce {
			go func() {
				defer c.turn()()
				told.Add(1)
				<-end
			}()
		}
		synctest.Wait()
		if n := told.Load(); n != atOnce {
			t.Errorf("%d at a time", n)
		}
		<-time.After(turnWait)
		synctest.Wait()
		if n := told.Load(); n != 3*atOnce {
			t.Errorf("%d do not wait for others that hang", n)
		}
		close(end)
	})
	bubble(t, "a listener that is slow takes no more room", func(t *testing.T) {
		var h hub
		l := h.join(nil, &mcp.Call{Caller: someone("ann"), Session: "ann:1"})
		for range 10000 {
			h.announce(0, setOf(tools), everyone)
			h.announce(0, setOf(prompts), someone("ann").User())
			h.announce(0, setOf(resources), someone("bob").User())
			h.announceTo(0, setOf(resources), "ann:2")
		}
		<-l.some()
		if got := l.take(t.Context()); got != setOf(tools, prompts) {
			t.Errorf("got %b", got)
		}
		select {
		case <-l.some():
			t.Error("there is more")
		default:
		}
		h.forget(l)
		if len(h.listeners) != 0 {
			t.Error("it is kept")
		}
	})
}

func TestResourceSubscriptions(t *testing.T) {
	setup := func(t *testing.T) (crm, doc *server, c *Catalog) {
		crm = newServer("crm").has(mcp.MethodResourcesList, resource("file:///a"))
		doc = newServer("doc")
		mute := newServer("mute")
		mute.caps = `{"resources":{}}`
		return crm, doc, start(t, sourcesOf([]*server{crm, doc, mute})...)
	}
	bubble(t, "one listen call an upstream, public URIs out", func(t *testing.T) {
		crm, doc, c := setup(t)
		cl := listen(t, c,
			`{"resourceSubscriptions":["crm+file:///a","ui://doc/p","crm+file:///d","crm+file:///a","mute+x:y","other+x:y"]}`)
		cl.want(t, ack(`{"resourceSubscriptions":["crm+file:///a","ui://doc/p","crm+file:///d"]}`))
		if st := crm.open(true); len(st) != 1 || !slices.Equal(st[0].uris, []string{"file:///a", "file:///d"}) {
			t.Errorf("crm got %v", st)
		}
		got := crm.last(t, mcp.MethodListen)
		if got.Session != "ann:1" || !got.Ephemeral || string(got.Caps) != `{"roots":{}}` ||
			string(got.Params) != `{"_meta":{"k":1},"notifications":{"resourceSubscriptions":["file:///a","file:///d"]}}` {
			t.Errorf("got %+v %s", got, got.Params)
		}
		crm.says(mcp.NoteResourceUpdated, `{"uri":"file:///a","_meta":{}}`)
		crm.says(mcp.NoteResourceUpdated, `{"uri":"file:///d/part"}`)
		crm.says(mcp.NoteMessage, `{"level":"info","data":1}`)
		doc.says(mcp.NoteResourceUpdated, `{"uri":"ui://p"}`)
		cl.want(t, ack(`{"resourceSubscriptions":["crm+file:///a","ui://doc/p","crm+file:///d"]}`),
			mcp.NoteResourceUpdated+` {"uri":"crm+file:///a","_meta":{}}`,
			mcp.NoteResourceUpdated+` {"uri":"crm+file:///d/part"}`,
			mcp.NoteResourceUpdated+` {"uri":"ui://doc/p"}`)
		cl.cancel()
		<-cl.ended
		if len(crm.open(true))+len(doc.open(true)) != 0 || !errors.Is(cl.err, context.Canceled) {
			t.Errorf("streams stand, or %v", cl.err)
		}
	})
	bubble(t, "each of two clients gets its own", func(t *testing.T) {
		crm, _, c := setup(t)
		a, b := listen(t, c, `{"resourceSubscriptions":["crm+file:///a"]}`),
			listen(t, c, `{"resourceSubscriptions":["crm+file:///a"]}`)
		synctest.Wait()
		crm.says(mcp.NoteResourceUpdated, `{"uri":"file:///a"}`)
		for _, cl := range []*client{a, b} {
			if got := cl.told(); len(got) != 2 {
				t.Errorf("got %q", got)
			}
		}
	})
	bubble(t, "a URI without mark comes back as the client wrote it", func(t *testing.T) {
		crm, _, c := setup(t)
		cl := listen(t, c, `{"resourceSubscriptions":["file:///a"]}`)
		synctest.Wait()
		crm.says(mcp.NoteResourceUpdated, `{"uri":"file:///a"}`)
		cl.want(t, ack(`{"resourceSubscriptions":["file:///a"]}`), mcp.NoteResourceUpdated+` {"uri":"file:///a"}`)
	})
	bubble(t, "what an upstream does not honour is not acknowledged", func(t *testing.T) {
		crm, doc, c := setup(t)
		crm.on(mcp.MethodListen, func(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
			call.Notify(mcp.Event{Method: mcp.NoteAcknowledged,
				Params: mcp.Raw(`{"notifications":{"resourceSubscriptions":["file:///a","file:///never-asked"]}}`),
				Failed: map[string]error{"file:///b": mcp.Errorf(failure.UpstreamTimeout, "b"),
					"file:///never-asked": mcp.Errorf(failure.Internal, "")}})
			<-ctx.Done()
			return nil, ctx.Err()
		})
		doc.fails(mcp.MethodListen, mcp.Errorf(failure.InvalidParams, "no"))
		cl := listen(t, c, `{"resourceSubscriptions":["crm+file:///a","crm+file:///b","doc+x:y"]}`)
		cl.want(t, ack(`{"resourceSubscriptions":["crm+file:///a"]}`))
		cl.wantFailed(t, map[string]int{"crm+file:///b": mcp.CodeUpstreamTimeout, "doc+x:y": mcp.CodeInvalidParams})
	})
	bubble(t, "one that does not answer is waited for a little, and then let go", func(t *testing.T) {
		crm, doc, c := setup(t)
		doc.on(mcp.MethodListen, func(ctx context.Context, _ *mcp.Call) (*mcp.Reply, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		before := doc.called(mcp.MethodListen)
		cl := listen(t, c, `{"resourceSubscriptions":["crm+file:///a","doc+x:y"]}`)
		synctest.Wait()
		go crm.says(mcp.NoteResourceUpdated, `{"uri":"file:///b"}`) // waits for the acknowledgement
		cl.want(t)
		after(upstreamWait)
		cl.want(t, ack(`{"resourceSubscriptions":["crm+file:///a"]}`), mcp.NoteResourceUpdated+` {"uri":"crm+file:///b"}`)
		cl.wantFailed(t, map[string]int{"doc+x:y": mcp.CodeUpstreamTimeout})
		after(time.Minute)
		if n := doc.called(mcp.MethodListen) - before; n != 1 {
			t.Errorf("it was asked %d times", n)
		}
	})
	bubble(t, "what has come before the end is passed on", func(t *testing.T) {
		crm, _, c := setup(t)
		const events = 20
		crm.on(mcp.MethodListen, func(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
			call.Notify(mcp.Event{Method: mcp.NoteAcknowledged,
				Params: mcp.Raw(`{"notifications":{"resourceSubscriptions":["file:///a"]}}`)})
			<-ctx.Done()
			for range events {
				call.Notify(mcp.ResourceUpdated("file:///a"))
			}
			return nil, ctx.Err()
		})
		cl := listen(t, c, `{"resourceSubscriptions":["crm+file:///a"]}`)
		synctest.Wait()
		cl.cancel()
		if got := cl.told(); len(got) != 1+events {
			t.Errorf("%d of %d events: %q", len(got)-1, events, got)
		}
	})
	bubble(t, "a part that is lost is listened to again, and nothing is missed", func(t *testing.T) {
		crm, _, c := setup(t)
		cl := listen(t, c, `{"resourceSubscriptions":["crm+file:///a","crm+file:///b"]}`)
		synctest.Wait()
		crm.open(true)[0].end <- errors.New("gone")
		after(5 * time.Second)
		if n := len(crm.open(true)); n != 1 {
			t.Fatalf("%d streams stand", n)
		}
		crm.says(mcp.NoteResourceUpdated, `{"uri":"file:///b"}`)
		cl.want(t, ack(`{"resourceSubscriptions":["crm+file:///a","crm+file:///b"]}`),
			// what happened meanwhile is unknown
			mcp.NoteResourceUpdated+` {"uri":"crm+file:///a"}`, mcp.NoteResourceUpdated+` {"uri":"crm+file:///b"}`,
			mcp.NoteResourceUpdated+` {"uri":"crm+file:///b"}`)
	})
}

func TestListenRefuses(t *testing.T) {
	var many []string
	for i := range mcp.MaxFiltered + 1 {
		many = append(many, fmt.Sprintf("%q", fmt.Sprint("crm+a:", i)))
	}
	tests := []struct{ name, params string }{
		{"no filter", `{}`},
		{"a filter that is none", `{"notifications":[]}`},
		{"subscriptions that are no array", `{"notifications":{"resourceSubscriptions":"a"}}`},
		{"a subscription that is no string", `{"notifications":{"resourceSubscriptions":[1]}}`},
		{"too many", `{"notifications":{"resourceSubscriptions":[` + strings.Join(many, ",") + `]}}`},
	}
	c := newCatalog(t, Config{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			refused(t, c, call(mcp.MethodListen, "", tt.params), mcp.CodeInvalidParams)
		})
	}
}

// TestHubSays: one listener of a session that may know of the upstream gets what it says, and none
// once it has left.
func TestHubSays(t *testing.T) {
	var h hub
	var heard []string // only one listener at a time writes it
	join := func(name, session string, sees visible) *listener {
		return h.join(sees, &mcp.Call{Caller: someone("ann"), Session: session, Notify: func(e mcp.Event) {
			heard = append(heard, name+" "+string(e.Params))
		}})
	}
	join("of another session", "ann:2", nil)
	join("of a stranger", "ann:1", visible{false, true})
	before := join("of it", "ann:1", nil)
	say := func(text string) { h.say(0, "ann:1", mcp.Event{Method: mcp.NoteMessage, Params: mcp.Raw(text)}) }
	say("1")
	var all sync.WaitGroup
	all.Go(func() { say("2") })
	h.forget(before)
	here := len(heard)
	all.Wait()
	if len(heard) != here || heard[0] != "of it 1" {
		t.Errorf("heard %q, after it left %q", heard[:here], heard[here:])
	}
}
