package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

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
		return !offers.announces.has(skills) // nothing else tells that they have changed
	case from == nil:
		return w.state.plainSkills
	}
	w.state.plainSkills = slices.ContainsFunc(from.entries, func(e entry) bool {
		_, ok := mcp.SkillRoot(e.native)
		return e.native == mcp.SkillIndex || ok && strings.HasPrefix(e.native, mcp.SkillScheme)
	})
	if w.state.plainSkills {
		offers.kinds |= setOf(skills)
	} else {
		offers.kinds &^= setOf(skills)
		w.state.lists[skills] = &publicList{}
	}
	return w.state.plainSkills
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
	if midway && errors.Is(err, &mcp.Error{Code: mcp.CodeInvalidParams}) {
		list, _, err = fetchPages(ctx, w, k)
	}
	return list, err
}

// fetchPages follows the cursors; midway says that an error occurred after the first page.
func fetchPages(ctx context.Context, w *watch, k kind) (list fetched, midway bool, err error) {
	var params mcp.Raw
	seen := make(map[string]bool)
	for page := 1; ; page++ {
		reply, err := w.request(ctx, k.method(), params)
		if err != nil {
			return fetched{}, page > 1, err
		}
		if reply.List == nil {
			return fetched{}, false, mcp.Errorf(mcp.CodeUpstreamBadAnswer, "upstream %s answered %s without a list", w.s.naming.upstream, k.method())
		}
		list.add(reply.List, page == 1)
		next := reply.List.Next
		switch {
		case len(list.items) > maxItems, next != nil && len(list.items) == maxItems:
			list.items = list.items[:maxItems]
			list.cut = fmt.Sprintf("the list has more than %d items: the others are left out", maxItems)
			return list, false, nil
		case next == nil:
			return list, false, nil
		case seen[*next]:
			list.cut = "a cursor of the list came twice: what is behind it is left out"
			return list, false, nil
		case page == maxPages:
			list.cut = fmt.Sprintf("the list has more than %d pages: the others are left out", maxPages)
			return list, false, nil
		}
		seen[*next] = true // "" is a valid cursor
		params = mcp.Object("cursor", mcp.String(*next))
	}
}

// add appends a page. The list is fresh only as long as all of its pages, and private as
// soon as one of them is.
func (f *fetched) add(page *mcp.List, first bool) {
	f.items = append(f.items, page.Items...)
	f.private = f.private || page.Private
	if first || page.Expires.Before(f.expires) { // zero, unknown, is before all
		f.expires = page.Expires
	}
}
