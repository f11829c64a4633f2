package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// lookTime bounds a look as a class of clients.
const lookTime = 10 * time.Second

// request makes a call on behalf of the caller that the watch is for.
func (w *watch) request(ctx context.Context, method string, params mcp.Raw) (*mcp.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, guard)
	defer cancel()
	reply, err := w.s.upstream.Handle(ctx, w.call(method, params, w.hear))
	if err == nil && reply == nil {
		err = fmt.Errorf("upstream %s: no reply to %s", w.s.naming.upstream, method)
	}
	return reply, err
}

func (w *watch) call(method string, params mcp.Raw, notify func(mcp.Event)) *mcp.Call {
	call := w.as
	call.Method, call.Params, call.Notify = method, params, notify
	return &call
}

// hear handles an event of a call of the watch.
func (w *watch) hear(e mcp.Event) {
	if kinds := changedBy(e.Method); kinds != 0 {
		w.told(kinds)
	}
}

// findPlainSkills records whether an upstream that does not announce skills has some among
// its resources, and reports whether its skills are to be fetched.
func (w *watch) findPlainSkills() bool {
	offers := &w.state.offers
	from := w.state.lists[resources]
	switch {
	case offers.skills:
		return !offers.announces.has(skills) // nothing else announces their changes
	case from == nil:
		return w.state.plainSkills
	}
	w.state.plainSkills = from.revealsSkills()
	if w.state.plainSkills {
		offers.kinds |= setOf(skills)
	} else {
		offers.kinds &^= setOf(skills)
		w.state.without(skills)
	}
	return w.state.plainSkills
}

// revealsSkills reports whether a list of resources, which may be nil, has skills.
func (s *publicList) revealsSkills() bool {
	return slices.ContainsFunc(s.all(), func(e entry) bool {
		_, ok := mcp.SkillRoot(e.native)
		return e.native == mcp.SkillIndex || ok && strings.HasPrefix(e.native, mcp.SkillScheme)
	})
}

// listen listens to the upstream until that ends, which is always an error.
func (w *watch) listen(ctx context.Context, to kindSet, acked func()) error {
	call := w.call(mcp.MethodListen, mcp.Filter{Lists: to.lists()}.In(nil), func(e mcp.Event) {
		if e.Method == mcp.NoteAcknowledged {
			acked()
			return
		}
		w.hear(e)
	})
	if _, err := w.s.upstream.Handle(ctx, call); err != nil {
		return err
	}
	return errors.New("the upstream ended it")
}

// fetchList fetches a list page by page. If the upstream refuses a cursor, the list has
// changed meanwhile: the whole list is fetched again, once (2026-07-28
// server/utilities/caching).
func fetchList(ctx context.Context, w *watch, k kind) (fetched, error) {
	list, midway, err := fetchPages(ctx, w, k)
	if midway && mcp.HasCode(err, mcp.CodeInvalidParams) {
		list, _, err = fetchPages(ctx, w, k)
	}
	return list, err
}

// fetchPages follows the cursors; midway says that an error occurred after the first page.
func fetchPages(ctx context.Context, w *watch, k kind) (list fetched, midway bool, err error) {
	var params mcp.Raw
	seen, empty := make(map[string]bool), 0
	for page := 1; ; page++ {
		reply, err := w.request(ctx, k.method(), params)
		if err != nil {
			return fetched{}, page > 1, err
		}
		if reply.List == nil {
			return fetched{}, false, mcp.Errorf(failure.UpstreamBadAnswer, "upstream %s answered %s without a list",
				w.s.naming.upstream, k.method())
		}
		list.add(reply.List, page == 1, w.s.items)
		next := reply.List.Next
		if len(reply.List.Items) == 0 {
			empty++
		}
		switch {
		case next == nil:
			return list, false, nil
		case seen[*next]:
			list.cut = "a cursor of the list came twice: what is behind it is left out"
			return list, false, nil
		case empty > maxEmpty:
			list.cut = fmt.Sprintf("the list has more than %d empty pages: what is behind them is left out", maxEmpty)
			return list, false, nil
		case list.behind >= w.s.items: // they are only counted
			list.cut += ", and possibly more"
			return list, false, nil
		}
		seen[*next] = true // "" is a valid cursor
		params = mcp.Object("cursor", mcp.String(*next))
	}
}

// add appends a page, up to this many items in all. The list is fresh only as long as all of its
// pages, and private as soon as one of them is.
func (f *fetched) add(page *mcp.List, first bool, most int) {
	for _, item := range page.Items {
		if f.size += len(item.Raw); f.behind > 0 || len(f.items) == most || f.size > maxList {
			f.behind++
			continue
		}
		f.items = append(f.items, item)
	}
	switch {
	case f.behind == 0:
	case len(f.items) == most:
		f.cut = fmt.Sprintf("the list has more than %d items (limits.items of the upstream): %d are left out", most, f.behind)
	default:
		f.cut = fmt.Sprintf("the list has more than %d MiB: %d items are left out", maxList>>20, f.behind)
	}
	f.private = f.private || page.Private
	if first || page.Expires.Before(f.expires) { // zero, unknown, is before all
		f.expires = page.Expires
	}
}

// lookAgain looks at the upstream as clients that declare less, after a fetch of these lists. It
// looks as one that declares nothing and, if that sees something else, as each class.
func (w *watch) lookAgain(ctx context.Context, which kindSet) {
	if !w.s.byClass || which == 0 {
		return
	}
	bare, same, err := w.lookAs(ctx, declaresNothing, which)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && w.state.classes != nil:
		bare = w.state.classes[declaresNothing]
	case err != nil, same: // after an error, until the next look
		w.showToAll()
		return
	}
	w.lookAsEach(ctx, map[string]*sourceState{declaresNothing: bare}, w.s.classes.toLookAt(true), which)
}

// lookAsNew looks at the upstream as those classes for which a caller waits.
func (w *watch) lookAsNew(ctx context.Context) {
	if w.state.classes == nil {
		w.showToAll()
		return
	}
	w.lookAsEach(ctx, maps.Clone(w.state.classes), w.s.classes.toLookAt(false), w.state.offers.kinds)
}

// lookAsEach looks at the upstream as some classes, adds the results to the known ones, and shows them.
func (w *watch) lookAsEach(ctx context.Context, known map[string]*sourceState, each []string, which kindSet) {
	failed := make(map[string]error)
	for _, class := range each {
		_, _, err := w.lookAs(ctx, class, which)
		own := w.state.classes[class]
		if err == nil {
			own = w.aside[class].shareAmong(known, class)
		} else {
			failed[class] = err
		}
		if own != nil {
			known[class] = own
		}
	}
	if ctx.Err() != nil {
		return
	}
	maps.DeleteFunc(w.aside, func(class string, _ *watch) bool { return known[class] == nil })
	w.showClasses(known)
	w.s.classes.over(declaresNothing, nil)
	for _, class := range each {
		w.s.classes.over(class, failed[class])
	}
}

// lookAs fetches lists as a client of a class, and those that it never got. same says that
// the class sees what the gateway sees.
func (w *watch) lookAs(ctx context.Context, class string, which kindSet) (seen *sourceState, same bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	v := w.aside[class]
	if v == nil {
		v = &watch{
			c: w.c, s: w.s, as: w.as, counted: true, quiet: true,
			show: func(sourceState) {},
			// Some servers add tools in each new session and announce it. Only announcements in the
			// gateway's own session count.
			told: func(kindSet) {},
		}
		v.as.Caps = mcp.Raw(class)
		if w.aside == nil {
			w.aside = make(map[string]*watch)
		}
		w.aside[class] = v
	}
	if err = v.discover(ctx); err == nil {
		for k := range kinds {
			if v.state.lists[k] == nil {
				which |= setOf(k)
			}
		}
		err = v.fetch(ctx, which)
	}
	if err == nil && v.state.failure != "" {
		err = errors.New(v.state.failure)
	}
	if err != nil {
		w.c.log.LogAttrs(ctx, slog.LevelInfo, "upstream cannot be looked at as a client that declares less",
			slog.String("upstream", w.s.naming.upstream), slog.String("declared", class), slog.Any("error", err))
		return nil, false, err
	}
	same = v.state.share(&w.state)
	own := v.state
	return &own, same, nil
}

// shareAmong returns the result of a look, or the equal one of another class.
func (w *watch) shareAmong(known map[string]*sourceState, class string) *sourceState {
	for other, state := range known {
		if other != class && state != nil && w.state.share(state) {
			return state
		}
	}
	own := w.state
	return &own
}

// showToAll shows the gateway's own lists to all clients.
func (w *watch) showToAll() {
	if w.state.classed() {
		w.showClasses(nil)
	}
	w.s.classes.clear()
}

// showClasses publishes the lists of classes to their clients, and tells listeners of changes.
func (w *watch) showClasses(classes map[string]*sourceState) {
	was := w.state
	w.state.classes, w.state.halfSeen = classes, false
	w.publish()
	var changed kindSet
	for class := range was.classes {
		changed |= differ(was.seenBy(class).lists, w.state.seenBy(class).lists)
	}
	for class := range classes {
		changed |= differ(was.seenBy(class).lists, w.state.seenBy(class).lists)
	}
	w.c.hub.announce(w.s.index, changed, everyone)
}
