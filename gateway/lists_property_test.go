package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/loadskill"
	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestListsAreThoseOfTheServers: for random servers, some of which show each user, or each client in
// its own session, something else, and for random declarations of clients, policies and views, a client
// sees through the gateway what it sees directly, renamed and narrowed, as long as the servers say, and
// for itself alone if one of them says so. What it is told of capabilities, it is told at any time,
// whatever lists have in them. What it sees can be used, and reaches the right server under its original name; anything else is
// answered like a name that nobody has. The expectation is computed by listWorld, which shares no code
// with the gateway.
func TestListsAreThoseOfTheServers(t *testing.T) {
	for name, open := range map[string]bool{"by policy and views": false, "all users alike": true} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				w := drawWorld(rt, open)
				var wrong error
				synctest.Test(t, func(t *testing.T) { wrong = w.compare(t.Context()) })
				if wrong != nil {
					rt.Fatal(wrong)
				}
			})
		})
	}
}

// compare runs a gateway of the world in a synctest bubble, and returns the first difference from
// the expectation.
func (w *listWorld) compare(ctx context.Context) (wrong error) {
	defer func() {
		if p := recover(); p != nil {
			wrong = fmt.Errorf("panic: %v", p)
		}
	}()
	for _, s := range w.servers {
		s.newLists(s.lists)
	}
	h, last, err := w.gateway()
	if err != nil {
		return err
	}
	defer heard(ctx, last)()
	if err := w.compareAll(ctx, h); err != nil {
		return err
	}
	w.change()
	time.Sleep(worldRefresh)
	synctest.Wait()
	if err := w.compareAll(ctx, h); err != nil {
		return fmt.Errorf("after a change, %w", err)
	}
	w.sessions(last, true)
	if err := w.compareAll(ctx, h); err != nil {
		return fmt.Errorf("in sessions, %w", err)
	}
	w.sessions(last, false)
	for _, c := range w.clients {
		if err := w.compareLists(ctx, h, c); err != nil {
			return fmt.Errorf("after sessions, %w", err)
		}
	}
	return nil
}

// sessions makes the servers tell that all lists have changed in the sessions of clients, or ends these.
func (w *listWorld) sessions(at *catalog.Catalog, open bool) {
	for _, s := range w.servers {
		s.open = s.keeps && open
		for _, c := range w.clients {
			news := mcp.SessionLists{Session: c.session(), At: c.id, Over: !open}
			if open {
				news.Lists, news.Told = mcp.AllLists, true
			}
			if s.keeps {
				at.HearSession(s.name, news)
			}
		}
	}
}

// session is the client's session at the gateway.
func (c *worldClient) session() string { return c.user + ":" + c.id }

// heard runs a catalog, and returns when it has heard from its upstreams. stop ends it.
func heard(ctx context.Context, c *catalog.Catalog) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Run(ctx) // it ends with ctx, and that is no error
	}()
	c.WaitFirst(ctx)
	return func() {
		cancel()
		<-ended
	}
}

// worldRefresh is enough for the gateway to fetch lists again, and too short for it to forget
// a class of clients.
const worldRefresh = 6 * time.Minute

func (w *listWorld) compareAll(ctx context.Context, h mcp.Handler) error {
	for _, c := range w.clients { // each may bring a class that changes what all others see
		w.meet(c)
		if err := w.compareLists(ctx, h, c); err != nil {
			return fmt.Errorf("when it comes, %w", err)
		}
	}
	for _, c := range w.clients {
		if err := w.compareLists(ctx, h, c); err != nil {
			return fmt.Errorf("when all have come, %w", err)
		}
		if err := w.compareCalls(ctx, h, c); err != nil {
			return err
		}
	}
	return nil
}

// gateway wires catalog, policy and views as the gateway does.
func (w *listWorld) gateway() (h mcp.Handler, last *catalog.Catalog, err error) {
	cfg := Config{Policy: w.policy, Views: w.views, Naming: catalog.Config{MaxLength: worldNameLength}}
	with, err := inMemory("test", slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	deps := catalog.Deps{Log: with.log, Seal: with.cursors, Tasks: with.tasks, PageSize: w.pageSize,
		Views: make(map[string]*view.View)}
	for _, c := range cfg.Views {
		if err := c.Validate(); err != nil {
			return nil, nil, err
		}
		if deps.Views[c.Name], err = view.New(c, disclosure.ToolName, loadskill.ToolName); err != nil {
			return nil, nil, err
		}
	}
	var sources []catalog.Source
	for _, s := range w.servers {
		sources = append(sources, catalog.Source{Upstream: s, Prefix: s.prefix, ByClass: true, PerUser: s.perUser,
			HasSession: func(context.Context, *mcp.Call) bool { return s.keeps }})
	}
	if last, err = catalog.New(cfg.Naming, sources, deps); err != nil {
		return nil, nil, err
	}
	made, err := pipeline(cfg, last, with)
	return made.pipe.Handler, last, err
}

// call is a call of the client.
func (c *worldClient) call(method, name string, params mcp.Raw) *mcp.Call {
	return &mcp.Call{
		ID: "test", Method: method, Name: name, Params: params, Session: c.session(), Caps: mcp.Raw(c.caps),
		Caller: mcp.Caller{Issuer: "https://idp.example.com", Subject: c.user, ClientID: c.id, View: c.view},
		Notify: func(mcp.Event) {},
	}
}

// compareLists compares each list, all pages of it, entry by entry.
func (w *listWorld) compareLists(ctx context.Context, h mcp.Handler, c *worldClient) error {
	reply, err := h.Handle(ctx, c.call(mcp.MethodDiscover, "", nil))
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	for _, k := range []worldKind{worldTools, worldPrompts, worldSkills} { // the gateway has resources of its own
		if _, got := reply.Result.At("capabilities").Member(k.name); got != w.declares(k, c) {
			return fmt.Errorf("%s: the capabilities are %s, want %s: %t", c, reply.Result, k.name, !got)
		}
	}
	for _, k := range worldKinds {
		if !w.offered(k) {
			if _, err := h.Handle(ctx, c.call(k.list, "", nil)); !mcp.HasCode(err, mcp.CodeMethodNotFound) {
				return fmt.Errorf("%s: %s, which no server has: %w", c, k.list, err)
			}
			continue
		}
		var got []string
		var params mcp.Raw
		expires, private := w.validity(k, c)
		for {
			reply, err := h.Handle(ctx, c.call(k.list, "", params))
			if err != nil {
				return fmt.Errorf("%s: %s: %w", c, k.list, err)
			}
			if !reply.List.Expires.Equal(expires) {
				return fmt.Errorf("%s: %s is valid until %s, want %s", c, k.list, reply.List.Expires, expires)
			}
			if reply.List.Private != private && (private || w.open()) {
				return fmt.Errorf("%s: %s is private: %t, want %t", c, k.list, reply.List.Private, private)
			}
			for _, item := range reply.List.Items {
				name, _ := item.Raw.Member(k.key)
				if name.Text() != item.Name {
					return fmt.Errorf("%s: %s: %s is written as %s", c, k.list, item.Name, name)
				}
				got = append(got, string(item.Raw))
			}
			if reply.List.Next == nil {
				break
			}
			params = mcp.Object("cursor", mcp.String(*reply.List.Next))
		}
		var want []string
		for _, o := range w.shown(k, c) {
			want = append(want, o.raw)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("%s: %s:\n got  %s\n want %s", c, k.list, strings.Join(got, "\n      "),
				strings.Join(want, "\n      "))
		}
	}
	return nil
}

// compareCalls uses every name that there is in the world, and some that nobody has.
func (w *listWorld) compareCalls(ctx context.Context, h mcp.Handler, c *worldClient) error {
	for _, k := range worldKinds {
		all := w.shown(k, c)
		for _, name := range w.names(k) {
			to := w.leads(k, c, all, name)
			if to.unsure {
				continue
			}
			asks, denied := false, false
			if to.server != nil && k.use != mcp.MethodComplete {
				asks, denied = w.decides(c, k, to.server, to.native)
			}
			params := mcp.Raw("{}")
			switch {
			case k == worldSkills:
				params = mcp.Object("name", mcp.String(name))
			case k.hasArguments() && c.flag != "":
				params = mcp.Object("arguments", mcp.Object("flag", mcp.String(c.flag)))
			case k.use == mcp.MethodComplete:
				params = mcp.Object("ref", mcp.Object("type", mcp.String("ref/resource"), "uri", mcp.String(name)),
					"argument", mcp.Raw(`{"name":"id","value":""}`))
			}
			reply, err := h.Handle(ctx, c.call(k.use, name, params))
			var want []string
			if to.server != nil && !asks && !denied {
				want = []string{fmt.Sprintf("%s: %s %s for %s with %s", to.server.name, k.use, to.native, c.user, c.caps)}
			}
			var got []string
			for _, s := range w.servers {
				got = append(got, s.wasUsed()...)
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("%s: %s %s: reached %q, want %q (%v)", c, k.use, name, got, want, err)
			}
			if !w.offered(k) && sameError(err, mcp.ErrMethod(k.use)) {
				continue
			}
			switch unknown := mcp.ErrUnknown(k.use, name); {
			case denied && k.hasArguments(): // its name is no secret
				if mcp.FailureOf(err) != failure.ArgumentsDenied {
					return fmt.Errorf("%s: %s %s: %v, %v; its arguments should be denied", c, k.use, name, reply, err)
				}
			case asks:
				// A client that cannot ask gets an error; of a tool, as a result for its model.
				asked := err == nil && (reply.Ask != nil || reply.Result.At("isError").IsTrue())
				if !asked && mcp.FailureOf(err) != failure.ApprovalImpossible {
					return fmt.Errorf("%s: %s %s: %v, %v; its user should be asked", c, k.use, name, reply, err)
				}
			case to.server != nil && !denied && err != nil:
				return fmt.Errorf("%s: %s %s: %w", c, k.use, name, err)
			case (to.server == nil || denied) && !sameError(err, unknown):
				return fmt.Errorf("%s: %s %s: got %#v, want %#v", c, k.use, name, err, unknown)
			}
		}
	}
	return nil
}

func sameError(err error, want *mcp.Error) bool {
	got, ok := err.(*mcp.Error)
	return ok && got.Code == want.Code && got.Message == want.Message && string(got.Data) == string(want.Data)
}
