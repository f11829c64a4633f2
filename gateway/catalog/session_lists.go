package catalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// What a server shows in a client's own session may differ from what it shows to all clients
// that declare the same. Such a difference is kept for each session (see sessionlists), and
// laid over the snapshot that its client would see otherwise.

const (
	// sessionWait bounds fetching the lists of one session at one upstream.
	sessionWait = 5 * time.Second
	// maxDiffering bounds the entries, and maxDifference the bytes, by which one list of a
	// session may differ. Beyond that its client sees what all clients see.
	maxDiffering  = 1000
	maxDifference = 1 << 20
	// maxLaid bounds the audiences of sessions that are remembered.
	maxLaid = 32
	// keptLists is the name under which the keeper stores a session's upstreams with differences.
	keptLists = "lists"
)

// Keeper stores values of clients' sessions that outlive this process; see upstream.Keeper.
type Keeper interface {
	Load(ctx context.Context, session, name string) ([]byte, error)
	Save(ctx context.Context, session, name string, value []byte) error
}

// difference is the difference between a list of a session and that of its client's snapshot.
type difference struct {
	plan    *plan
	from    uint64            // the checksum of the list from which it differs
	gone    []string          // public names that the session lacks
	more    []entry           // by public name: what only the session has, and what it has instead
	roots   map[string]string // of a list of skills: see skillIndex.against
	expires time.Time
	size    int
	sum     [sha256.Size]byte
}

// stale reports whether the list from which it differs has changed.
func (d *difference) stale(base *snapshot, source int, k kind, p *plan) bool {
	return d.plan != p || d.from != base.states[source].lists[k].checksum()
}

// differenceOf compares a session's list with that of its client's snapshot, which may be nil.
// It returns nil if they show the same. What both have is not kept.
func differenceOf(p *plan, base, list *publicList) *difference {
	d := &difference{plan: p, from: base.checksum(), expires: list.expires}
	have := list.entries
	for _, e := range base.all() {
		for len(have) > 0 && have[0].item.Name < e.item.Name {
			d.more, have = append(d.more, have[0]), have[1:]
		}
		switch {
		case len(have) == 0 || have[0].item.Name > e.item.Name:
			d.gone = append(d.gone, e.item.Name)
		default:
			if !e.equal(have[0]) {
				d.more = append(d.more, have[0])
			}
			have = have[1:]
		}
	}
	d.more, d.roots = append(d.more, have...), list.skills.against(base.index())
	if len(d.gone)+len(d.more)+len(d.roots) == 0 {
		return nil
	}
	for i, e := range d.more {
		e.native, e.item.Name = strings.Clone(e.native), strings.Clone(e.item.Name)
		e.item.Raw = bytes.Clone(e.item.Raw) // which is a part of the whole answer
		if e.schema != nil {
			e.readSchema()
		}
		d.more[i] = e
	}
	d.more = slices.Clip(d.more)
	d.measure()
	return d
}

// measure computes size and sum.
func (d *difference) measure() {
	d.size = 0
	sum := sha256.New()
	for _, e := range d.more {
		d.size += 256 + len(e.native) + 2*len(e.item.Name) + len(e.item.Raw) + e.skill.size()
		sum.Write([]byte(e.native))
		hashItem(sum, e.item)
		sum.Write([]byte{byte(e.task)})
	}
	sum.Write([]byte{0})
	for _, name := range d.gone {
		d.size += 16 + len(name)
		sum.Write(binary.AppendUvarint(nil, uint64(len(name))))
		sum.Write([]byte(name))
	}
	for _, root := range slices.Sorted(maps.Keys(d.roots)) {
		d.size += 64 + len(root) + len(d.roots[root])
		fmt.Fprintf(sum, "%q%q", root, d.roots[root])
	}
	sum.Sum(d.sum[:0])
}

// tooLarge reports whether the difference is beyond a bound.
func (d *difference) tooLarge() bool {
	return len(d.more)+len(d.gone) > maxDiffering || d.size > maxDifference
}

// onlyRoots returns the rest of a difference in skills that is too large: they are not shown, but
// the owners of their files stay known. It is nil if that is nothing, or too large, too.
func (d *difference) onlyRoots() *difference {
	d.more, d.gone = nil, nil
	if d.measure(); len(d.roots) == 0 || d.tooLarge() {
		return nil
	}
	return d
}

// over lays the difference over a list, which may be nil.
func (d *difference) over(base *publicList) *publicList {
	list := &publicList{offered: true, private: true, expires: d.expires,
		entries: make([]entry, 0, len(base.all())+len(d.more))}
	if list.skills = base.index().with(d.roots); base != nil {
		list.withheld = base.withheld
	}
	more, gone := d.more, d.gone
	for _, e := range base.all() {
		for len(more) > 0 && more[0].item.Name < e.item.Name {
			list.entries, more = append(list.entries, more[0]), more[1:]
		}
		for len(gone) > 0 && gone[0] < e.item.Name {
			gone = gone[1:]
		}
		switch {
		case len(more) > 0 && more[0].item.Name == e.item.Name:
			list.entries, more = append(list.entries, more[0]), more[1:]
		case len(gone) == 0 || gone[0] != e.item.Name:
			list.entries = append(list.entries, e)
		}
	}
	list.entries = append(list.entries, more...)
	return list
}

// sessions are the lists of clients' sessions as a catalog shows them.
type sessions struct {
	c     *Catalog
	table *sessionTable // the same in catalogs that follow each other
	keep  Keeper        // nil for none

	mu   sync.Mutex // guards laid
	laid *simplelru.LRU[laidKey, *audience]
}

// laidKey is the audience of sessions that differ in the same way from what others see.
type laidKey struct {
	others *audience
	sum    [sha256.Size]byte
}

// newSessions returns the sessions of a catalog; before is the one that it replaces, nil for
// none.
func newSessions(c *Catalog, before *Catalog, keep Keeper) *sessions {
	o := &sessions{c: c, keep: keep, laid: newLRU[laidKey, *audience](maxLaid)}
	if before != nil {
		o.table = before.sessions.table
	} else {
		o.table = newSessionTable()
	}
	return o
}

// over returns the snapshot for the session of a call, where others of its audience see base.
func (o *sessions) over(base *snapshot, others *audience, call *mcp.Call) *snapshot {
	shown := o.table.shown(call.Session)
	if shown == nil {
		return base
	}
	key := laidKey{others, shown.sum}
	o.mu.Lock()
	a, ok := o.laid.Get(key)
	if !ok {
		a = &audience{}
		o.laid.Add(key, a)
	}
	o.mu.Unlock()
	return a.over(base, func() map[int]sourceState { return o.shownTo(base, shown) })
}

// shownTo returns the lists of upstreams for a session, by source, as far as this catalog can tell.
func (o *sessions) shownTo(base *snapshot, shown *shownLists) map[int]sourceState {
	own := make(map[int]sourceState)
	for upstream, differ := range shown.at {
		at := o.sourceOf(upstream)
		if at < 0 {
			continue
		}
		state := base.states[at]
		for k, d := range differ {
			if d != nil && d.plan == o.c.plan { // else it is fetched again, with the names of this catalog
				state.lists[k] = d.over(state.lists[k])
				state.offers.kinds |= setOf(kind(k)) & setOf(skills) // which only resources of the session may reveal
			}
		}
		own[at] = state
	}
	return own
}

// sourceOf returns the index of an upstream, -1 for none.
func (o *sessions) sourceOf(upstream string) int {
	return slices.IndexFunc(o.c.sources, func(s *source) bool { return s.naming.upstream == upstream })
}

// hear takes news of the lists of a client's own session at an upstream.
func (o *sessions) hear(upstream string, news mcp.SessionLists) {
	at := o.sourceOf(upstream)
	if at < 0 {
		return
	}
	kinds := withSkills(kindsIn(news.Lists), o.c.snap.Load().states[at].offers)
	o.announceLost(o.table.note(upstream, kinds, news))
	if news.Told {
		o.c.hub.told(at, kinds, news.Session)
	}
}

// arrived records that a client's session has come to this process; another one may have owned it.
func (o *sessions) arrived(session string) {
	if o.keep != nil {
		o.table.arrive(session)
	}
}

// announceLost tells sessions of the lists that they no longer show.
func (o *sessions) announceLost(all []lostLists) {
	for _, lost := range all {
		if at := o.sourceOf(lost.upstream); at >= 0 {
			o.c.hub.announceTo(at, lost.kinds, lost.session)
		}
	}
}

// renew fetches those lists of the call's session that are wanted and outdated. Its listeners hear
// what looks different, unless that is only what the call lists, and the server has not announced
// it. later says that a server has failed, and should be asked again.
func (o *sessions) renew(ctx context.Context, call *mcp.Call, want kindSet, lists bool) (later bool) {
	if call.Session == "" {
		return false
	}
	if want&setOf(resources, templates, skills) != 0 { // skills determine which resources are their files
		want |= setOf(resources, skills)
	}
	o.recall(ctx, call.Session)
	if due, later := o.outdated(call, want); len(due) == 0 {
		return later
	}
	if busy := o.table.busy(call.Session); busy != nil {
		select {
		case busy <- struct{}{}:
			defer func() { <-busy }()
		case <-ctx.Done():
			return true
		}
	}
	due, later := o.outdated(call, want) // the one before may have fetched them
	for _, s := range o.c.sources {
		if kinds := due[s.naming.upstream]; kinds != 0 && !o.fetch(ctx, call, s, kinds, lists) {
			later = true
		}
	}
	return later
}

// outdated returns the wanted lists of the call's session that have to be fetched, by upstream.
// These have news, or differ from a list that has changed.
func (o *sessions) outdated(call *mcp.Call, want kindSet) (due map[string]kindSet, later bool) {
	due, failed := o.table.outdated(call.Session)
	if shown := o.table.shown(call.Session); shown != nil {
		base, _ := o.c.common(call)
		for upstream, differ := range shown.at {
			at := o.sourceOf(upstream)
			for k, d := range differ {
				if at >= 0 && d != nil && d.stale(base, at, kind(k), o.c.plan) && !slices.Contains(failed, upstream) {
					if due == nil {
						due = make(map[string]kindSet)
					}
					due[upstream] |= setOf(kind(k))
				}
			}
		}
	}
	for upstream := range due {
		if due[upstream] &= want; due[upstream] == 0 {
			delete(due, upstream)
		}
	}
	return due, len(failed) > 0
}

// fetch fetches lists in the client's own session at an upstream, unless it has none
// any more. It reports false if that fails.
func (o *sessions) fetch(ctx context.Context, call *mcp.Call, s *source, which kindSet, lists bool) bool {
	ctx, cancel := context.WithTimeout(ctx, sessionWait)
	defer cancel()
	if !s.hasSession(ctx, call) {
		o.announceLost(o.table.forget(call.Session, s.naming.upstream))
		return true
	}
	w := &watch{c: o.c, s: s, told: func(kindSet) {}}
	w.as = mcp.Call{ID: s.callID(), Caller: call.Caller, Session: call.Session, Ephemeral: call.Ephemeral, Caps: call.Caps}
	common, _ := o.c.common(call)
	base := &common.states[s.index]
	which = withSkills(which, base.offers)
	var own [kinds]*publicList
	run := o.table.start(call.Session, s.naming.upstream, which)
	var differ ownDifference
	for k := range kinds {
		if !which.has(k) || !mayDiffer(k, base, own[resources]) {
			continue
		}
		var list fetched
		var err error
		if k != skills || base.offers.skills || own[resources].revealsSkills() {
			list, err = fetchList(ctx, w, k)
		}
		switch {
		case isMethodNotFound(err):
		case err != nil:
			o.c.log.LogAttrs(ctx, slog.LevelInfo, "lists of a client's session cannot be fetched",
				slog.String("upstream", s.naming.upstream), slog.Any("error", err))
			o.table.failed(run)
			return false
		default:
			own[k] = newPublicList(o.c.plan, s.naming, k, list)
			if k == tools {
				own[k].withTasks(base.offers.coreTasks)
			}
			d := differenceOf(o.c.plan, base.lists[k], own[k])
			cut := k == skills && list.cut != "" // it is not known which resources are files of skills
			if d != nil && (cut || d.tooLarge()) {
				o.c.log.LogAttrs(ctx, slog.LevelWarn, "a client's session differs too much: its client sees what all clients see",
					slog.String("upstream", s.naming.upstream), slog.String("list", k.String()),
					slog.Int("entries", len(d.more)+len(d.gone)), slog.Int("bytes", d.size))
				if k != skills {
					continue
				}
				// Their files would pass for other resources.
				run.kinds, run.told = run.kinds|resources.alike(), run.told|resources.alike()
				differ[resources], differ[templates] = nil, nil
				d = d.onlyRoots()
			}
			differ[k] = d
		}
	}
	before := o.table.shown(call.Session).upstreams()
	changed, lost := o.table.done(run, differ)
	o.announceLost(lost)
	if lists {
		changed &= run.told
	}
	o.c.hub.announceTo(s.index, changed, call.Session)
	o.keepUpstreams(ctx, call.Session, before)
	return true
}

// withSkills adds to lists that may have changed those that may have changed with them. Where a
// server does not say that it has skills, its resources reveal them. Resources are never fetched
// without the skills: else the files of a skill that only the session has, which was not announced
// or was dropped because of a bound, would pass for other resources.
func withSkills(which kindSet, of offers) kindSet {
	switch {
	case which&setOf(resources, templates, skills) == 0:
	case !of.skills:
		which |= setOf(resources, skills)
	case which&setOf(resources, templates) != 0:
		which |= setOf(skills)
	}
	return which
}

// mayDiffer reports whether a list of a session has to be compared with the server's list for all.
// Skills that only resources reveal are read only if these are not the same for all.
func mayDiffer(k kind, base *sourceState, own *publicList) bool {
	if k != skills || base.offers.skills {
		return base.offers.kinds.has(k)
	}
	files := func(l *publicList) []entry {
		return slices.DeleteFunc(slices.Clone(l.all()),
			func(e entry) bool { return !strings.HasPrefix(e.native, mcp.SkillScheme) })
	}
	ours := files(own)
	return own != nil && (!slices.EqualFunc(ours, files(base.lists[resources]), entry.equal) ||
		slices.ContainsFunc(ours, func(e entry) bool { return e.native == mcp.SkillIndex })) // which may name others
}

// A process that takes over a session learns from the Keeper where its lists differ, and fetches them there.

// keepUpstreams stores the upstreams where a session differs, if these have changed.
func (o *sessions) keepUpstreams(ctx context.Context, session string, before []string) {
	now := o.table.shown(session).upstreams()
	if o.keep == nil || slices.Equal(now, before) {
		return
	}
	var value []byte
	if len(now) > 0 {
		value, _ = json.Marshal(now) // strings can always be encoded
	}
	if err := o.keep.Save(ctx, session, keptLists, value); err != nil {
		o.c.log.LogAttrs(ctx, slog.LevelDebug, "that lists of a session differ is not kept", slog.Any("error", err))
	}
}

// recall marks lists of a session from another process as outdated where they differed there.
func (o *sessions) recall(ctx context.Context, session string) {
	if o.keep == nil || !o.table.hasArrived(session) {
		return
	}
	value, err := o.keep.Load(ctx, session, keptLists)
	if err != nil {
		o.table.arrive(session) // the next call tries again
		return
	}
	var upstreams []string
	if json.Unmarshal(value, &upstreams) != nil {
		return
	}
	for _, upstream := range upstreams {
		o.hear(upstream, mcp.SessionLists{Session: session, Lists: mcp.AllLists})
	}
}
