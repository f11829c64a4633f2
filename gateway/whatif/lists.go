package whatif

import (
	"context"
	"fmt"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/clients"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// kinds are the lists that operators ask for: the method, and the name in left.
var kinds = map[string]struct{ method, list string }{
	mcp.KindTools:     {mcp.MethodToolsList, "tools"},
	mcp.KindPrompts:   {mcp.MethodPromptsList, "prompts"},
	mcp.KindResources: {mcp.MethodResourcesList, "resources"},
	"templates":       {mcp.MethodResourceTemplatesList, "resource templates"},
	mcp.KindSkills:    {mcp.MethodSkillsList, "skills"},
}

// mostPages bounds the pages of a list, which has thousands of entries at most.
const mostPages = 1000

// row is an entry before it is described: only those on a page are.
type row struct {
	item       mcp.Item // as the caller gets it, or would
	full       mcp.Raw
	shown      bool
	by, reason string // why it is not shown, if that is known already
}

// lister answers one question.
type lister struct {
	now     operate.Now
	caller  mcp.Caller
	refused bool // at the view
	tools   bool
	whole   bool                   // with definitions
	inView  map[mcp.Target]mcp.Raw // what the view has for callers who may use all
}

// Lists returns the entries of a list that a caller gets, through the pipeline of clients, and those
// that it does not. The error is that of admin.BadRequest, or that of ctx.
func (s Service) Lists(ctx context.Context, q admin.ListQuestion) (a admin.ListAnswer, err error) {
	bad := func(format string, args ...any) (admin.ListAnswer, error) {
		return a, admin.BadRequest(fmt.Sprintf(format, args...))
	}
	kind, ok := kinds[q.Kind]
	if !ok {
		return bad("kind %q: want tools, prompts, resources, templates or skills", q.Kind)
	}
	caps := q.Capabilities
	if caps == nil {
		caps = mcp.Raw("{}")
	}
	if !caps.IsObject() {
		return bad("the capabilities are no JSON object")
	}
	l := &lister{
		now:    s.Configuration.Now(),
		tools:  q.Kind == mcp.KindTools,
		whole:  q.Name != "",
		inView: make(map[mcp.Target]mcp.Raw),
	}
	if l.caller, err = listCaller(l.now.Config, q); err != nil {
		return bad("%s", err)
	}
	call := &mcp.Call{ID: "catalog", Method: kind.method, Caller: l.caller, Caps: caps, Aside: true,
		Notify: func(mcp.Event) {}}
	var shown []mcp.Item
	if l.refused = l.now.ViewUsers.Refuse(&l.caller); !l.refused {
		if shown, err = mcp.ItemsOf(ctx, l.now.Lists, call, mostPages); err != nil {
			return a, err
		}
	}
	rows, behind := l.rows(call, kind.list, shown)
	a.Shown, a.Hidden = len(shown), len(rows)-len(shown)
	a.Notes = append(l.notes(q), behind...)
	if l.tools {
		a.Doubts, a.Tokens = clients.TooMany(len(shown)), l.total(rows[:len(shown)])
	}
	if q.Name != "" {
		rows = slices.DeleteFunc(rows, func(r row) bool {
			return r.item.Name != q.Name && r.item.Target.Upstream+"/"+r.item.Target.Name != q.Name
		})
	}
	from := min(q.Offset, len(rows))
	to := min(from+q.Limit, len(rows))
	for _, r := range rows[from:to] {
		if ctx.Err() != nil {
			return a, ctx.Err()
		}
		a.Entries = append(a.Entries, l.entry(ctx, r))
	}
	if to < len(rows) {
		a.Next = to
	}
	return a, nil
}

// listCaller returns the caller of a question. Its error describes the mistake in the question.
func listCaller(cfg config.Config, q admin.ListQuestion) (mcp.Caller, error) {
	if _, err := config.ViewNamed(cfg, q.View); err != nil {
		return mcp.Caller{}, err
	}
	if !cfg.Auth.Identifies() {
		return mcp.NewCaller(mcp.Caller{View: q.View}), nil
	}
	return Caller(cfg, admin.Question{
		Issuer: q.Issuer,
		User:   q.User,
		Groups: q.Groups,
		Scopes: q.Scopes,
		Client: q.Client,
		Claims: q.Claims,
		View:   q.View,
	})
}

// notes returns the notes on what is misleading.
func (l *lister) notes(q admin.ListQuestion) (notes []string) {
	if !l.now.Config.Auth.Identifies() && (q.User != "" || q.Client != "" ||
		len(q.Groups)+len(q.Scopes)+len(q.Claims) > 0) {
		notes = append(notes,
			"Everybody is the same caller here, since auth.mode is none: users, groups, clients and claims do not count.")
	}
	if l.refused {
		notes = append(notes, "This view is for others: the caller gets HTTP status 403 there, and no list.")
	}
	return append(notes, unknown(l.now)...)
}

// rows returns all entries of a list: first those that are shown, in their order. behind tells what
// is left out without a name.
func (l *lister) rows(call *mcp.Call, list string, shown []mcp.Item) (rows []row, behind []string) {
	for _, item := range l.now.Catalog.Offered(call) {
		l.inView[item.Target] = item.Raw
	}
	known := make(map[mcp.Target]bool, len(l.inView))
	for _, item := range shown {
		full, ok := l.inView[item.Target]
		if !ok { // the gateway's own
			full = item.Raw
		}
		known[item.Target] = true
		rows = append(rows, row{item: item, full: full, shown: true})
	}
	bare := call.Clone()
	bare.Caller.View = ""
	for _, item := range l.now.Catalog.Offered(bare) {
		if !known[item.Target] {
			known[item.Target] = true
			rows = append(rows, row{item: item, full: item.Raw})
		}
	}
	type name struct{ upstream, own string }
	told := make(map[name]bool)
	for _, left := range leftOut(l.now) {
		switch {
		case left.list != list:
		case left.name == "":
			behind = append(behind, left.upstream+": "+left.reason)
		default:
			told[name{left.upstream, left.name}] = true
			rows = append(rows, row{item: mcp.Item{Target: mcp.Target{Upstream: left.upstream, Name: left.name}}, by: left.by,
				reason: left.reason})
		}
	}
	for _, item := range l.now.Catalog.Everything(call.Method) {
		if t := item.Target; !known[t] && !told[name{t.Upstream, t.Name}] {
			rows = append(rows, row{item: item, full: item.Raw, by: "client",
				reason: "The server does not show it to clients that declare these capabilities."})
		}
	}
	return rows, behind
}

// entry describes an entry, with the reason why it is not shown.
func (l *lister) entry(ctx context.Context, r row) admin.ListEntry {
	target := r.item.Target
	e := admin.ListEntry{
		Name:        r.item.Name,
		Upstream:    target.Upstream,
		Original:    target.Name,
		Title:       r.item.Raw.At("title").Text(),
		Description: r.item.Raw.At("description").Text(),
		Shown:       r.shown,
		By:          r.by,
		Reason:      r.reason,
	}
	if e.Title == "" {
		e.Title = r.item.Raw.At("annotations", "title").Text()
	}
	if e.Description == "" {
		e.Description = r.item.Raw.At("frontmatter", "description").Text()
	}
	if l.tools && r.item.Raw != nil {
		e.Tokens, e.Cuts = l.tokens(r), clients.Doubts([]mcp.Item{r.item}, true)
	}
	if l.whole {
		e.Definition, e.Full = r.item.Raw, r.full
	}
	if target.Upstream == "" || r.by != "" {
		return e
	}
	why := l.now.Rules.Explain(ctx, &l.caller, target, nil)
	if e.Call, e.Rule = why.Effect.String(), why.Rule; e.Rule != "" {
		e.RuleAt = l.now.Places[e.Rule]
	}
	_, inView := l.inView[target]
	switch {
	case r.shown:
	case l.refused || !inView && l.caller.View != "":
		e.By, e.Reason = "view", why.Reason
	case why.Listed:
		e.By, e.Reason = "server", "It is left out for all: its name is one of the gateway's own."
	default:
		e.By, e.Reason = "policy", why.Reason
	}
	return e
}

// tokens estimates the tokens of a tool.
func (l *lister) tokens(r row) *admin.ListTokens {
	return &admin.ListTokens{Listed: operate.Tokens(r.item), Full: operate.Tokens(r.whole()), Short: l.short(r)}
}

// whole returns the entry with its whole description.
func (r row) whole() mcp.Item { return mcp.Item{Name: r.item.Name, Raw: r.full, Target: r.item.Target} }

// short estimates the tokens of a tool with a short description.
func (l *lister) short(r row) int {
	if r.item.Target.Upstream == "" || len(r.full) != len(r.item.Raw) { // it is short already
		return operate.Tokens(r.item)
	}
	return operate.Tokens(l.now.Described.Short(r.whole()))
}

// mostShort bounds the short descriptions that are made for a total, since each takes a while. Of
// more tools, they are estimated from these.
const mostShort = 250

// total estimates the tokens of all tools together.
func (l *lister) total(rows []row) *admin.ListTokens {
	t, made := &admin.ListTokens{}, 0
	step := max(1, (len(rows)+mostShort-1)/mostShort)
	for i, r := range rows {
		t.Listed, t.Full = t.Listed+operate.Tokens(r.item), t.Full+operate.Tokens(r.whole())
		if i%step == 0 {
			t.Short += l.short(r)
			made++
		}
	}
	if made > 0 {
		t.Short = t.Short * len(rows) / made
	}
	return t
}
