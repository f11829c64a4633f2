package catalog

import (
	"bytes"
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// State is the state of an upstream, judged by its lists.
type State string

// States of an upstream.
const (
	// StateConnecting: it has neither answered nor failed yet.
	StateConnecting State = "connecting"
	// StateUp: the lists are what it last said.
	StateUp State = "up"
	// StateFailing: it fails, and its last good lists are served.
	StateFailing State = "failing"
	// StateDown: it fails, and there is nothing to serve.
	StateDown State = "down"
	// StatePerUser: each user sees what the upstream tells only them, so there is no state
	// for all users.
	StatePerUser State = "per user"
)

// sourceState is the last known state of one upstream. A published sourceState is immutable.
type sourceState struct {
	state        State
	heard        bool // discover was answered at least once
	offers       offers
	instructions string
	lists        [kinds]*publicList // nil: never received, or dropped
	former       [kinds]*publicList // dropped lists, until others come in their place
	plainSkills  bool               // it does not announce skills, but has some among its resources
	failure      string             // the last error, "" when all is well
	failed       failure.Name       // the name of that failure
	since        time.Time          // of state
	// halfSeen says that the upstream may show something else to clients that declare less, and has
	// not been looked at as one that declares nothing.
	halfSeen bool
	// classes has the lists for clients that declare less than the gateway, by class; nil for an
	// upstream that shows the same to all. See looks.
	classes map[string]*sourceState
}

// announces returns the lists that the upstream may announce changes of.
func (k sourceState) announces() kindSet {
	if !k.heard {
		return setOf(tools, prompts, resources, templates)
	}
	return k.offers.announces
}

// perUserState is the state of a per-user upstream in the shared snapshot: it offers
// nothing to everyone.
func perUserState() sourceState {
	k := sourceState{state: StatePerUser, heard: true, since: time.Now()}
	for i := range k.lists {
		k.lists[i] = &publicList{}
	}
	return k
}

// Change is a difference in one list of an upstream, by the upstream's own names.
type Change struct {
	Upstream, List          string
	Added, Removed, Changed []string
}

// compare returns the differences in a later state of an upstream. A list that failed for a while
// is compared with what it was before.
func (k sourceState) compare(now sourceState, upstream string, tell func(Change)) {
	for i := range kinds {
		was, is := cmp.Or(k.lists[i], k.former[i]), now.lists[i]
		if was == is || was == nil || is == nil {
			continue
		}
		d := Change{Upstream: upstream, List: i.String()}
		before := make(map[string]mcp.Raw, len(was.entries))
		for _, e := range was.entries {
			before[e.native] = e.item.Raw
		}
		for _, e := range is.entries {
			old, there := before[e.native]
			delete(before, e.native)
			switch {
			case !there:
				d.Added = append(d.Added, e.native)
			case !bytes.Equal(old, e.item.Raw):
				d.Changed = append(d.Changed, e.native)
			}
		}
		d.Removed = slices.Sorted(maps.Keys(before))
		if d.Added != nil || d.Removed != nil || d.Changed != nil {
			tell(d)
		}
	}
}

// offers holds the capabilities of an upstream that affect the gateway.
type offers struct {
	kinds       kindSet // the lists that it has
	announces   kindSet // the lists that it announces changes of
	subscribe   bool
	completions bool
	logging     bool
	ui          mcp.Raw // its settings for MCP Apps, nil for none
	coreTasks   bool    // tools run as tasks of 2025-11-25
	coreCancel  bool    // those tasks can be cancelled
	extTasks    bool    // it has the extension for tasks
	skills      bool    // it says that it has skills
	skillURIs   bool    // it has the extension for skills, and so answers for unlisted skills
	directories bool    // it answers resources/directory/read; in a merge: the gateway can answer
}

func readOffers(capabilities mcp.Raw) (o offers) {
	for name, of := range map[string]kindSet{"tools": setOf(tools), "prompts": setOf(prompts),
		"resources": setOf(resources, templates)} {
		feature, ok := capabilities.Member(name)
		if !ok || feature.IsNull() {
			continue
		}
		o.kinds |= of
		if changed, _ := feature.Member("listChanged"); changed.IsTrue() {
			o.announces |= of
		}
		if name == "resources" {
			subscribe, _ := feature.Member("subscribe")
			o.subscribe = subscribe.IsTrue()
		}
	}
	if core, ok := capabilities.Member("skills"); ok && !core.IsNull() {
		o.kinds, o.skills = o.kinds|setOf(skills), true
		if changed, _ := core.Member("listChanged"); changed.IsTrue() {
			o.announces |= setOf(skills)
		}
	}
	has := func(name string) bool {
		value, ok := capabilities.Member(name)
		return ok && !value.IsNull()
	}
	o.completions, o.logging = has("completions"), has("logging")
	if extensions, ok := capabilities.Member("extensions"); ok {
		if ui, ok := extensions.Member(mcp.UIExtension); ok && ui.IsObject() {
			o.ui = ui
		}
		if settings, ok := extensions.Member(mcp.SkillsExtension); ok && settings.IsObject() {
			o.kinds, o.skills, o.skillURIs = o.kinds|setOf(skills), true, true
			directories, _ := settings.Member("directoryRead")
			o.directories = directories.IsTrue()
		}
	}
	o.extTasks = mcp.DeclaresTasks(capabilities)
	o.coreTasks, o.coreCancel = mcp.OffersTasks(capabilities)
	return o
}

// tasks reports whether there are tasks for clients of the extension: tasks of 2025-11-25
// are shown to them in the extension's form.
func (o offers) tasks() bool { return o.extTasks || o.coreTasks }

// seenBy returns the state that clients of a class see; until that is known, the one of clients
// that declare nothing.
func (k *sourceState) seenBy(class string) *sourceState {
	if k.classes == nil {
		return k
	}
	if own, ok := k.classes[class]; ok {
		return own
	}
	return k.classes[declaresNothing]
}

// classed reports whether the upstream may show something else to some class than to the gateway.
func (k *sourceState) classed() bool { return k.classes != nil || k.heard && k.halfSeen }

// without records that the upstream lacks a list.
func (k *sourceState) without(which kind) {
	if k.lists[which] == nil || k.lists[which].offered {
		k.lists[which] = &publicList{}
	}
}

// take records a list that the upstream sent. An equal one stays, so that nothing is made again.
func (k *sourceState) take(which kind, list *publicList) {
	old := k.lists[which]
	if old.equal(list) && which != skills && old.expires.Equal(list.expires) && slices.Equal(old.withheld, list.withheld) {
		return
	}
	k.lists[which] = list
}

// same reports whether nothing has changed.
func (k *sourceState) same(as *sourceState) bool {
	return k.state == as.state && k.heard == as.heard && k.instructions == as.instructions &&
		k.plainSkills == as.plainSkills && k.halfSeen == as.halfSeen &&
		k.failure == as.failure && k.failed == as.failed && k.since.Equal(as.since) && k.lists == as.lists &&
		k.former == as.former &&
		reflect.DeepEqual(k.offers, as.offers) && (k.classes == nil) == (as.classes == nil) &&
		maps.EqualFunc(k.classes, as.classes, (*sourceState).same)
}

// share makes the state of a class use the lists of another state where they are equal, and reports
// whether all of it is equal. A list that the upstream's state lacks is unknown.
func (k *sourceState) share(with *sourceState) bool {
	same := k.instructions == with.instructions && reflect.DeepEqual(k.offers, with.offers)
	for which := range kinds {
		if k.lists[which].equal(with.lists[which]) || with.lists[which] == nil {
			k.lists[which] = with.lists[which]
		} else {
			same = false
		}
	}
	return same
}

// shows reports whether clients of every class see the same lists as in another state.
func (k *sourceState) shows(as *sourceState) bool {
	return slices.EqualFunc(k.lists[:], as.lists[:], (*publicList).equal) &&
		maps.EqualFunc(k.classes, as.classes, (*sourceState).shows)
}

// equal reports whether both lists show clients the same.
func (s *publicList) equal(other *publicList) bool {
	if s == nil || other == nil || s == other {
		return s == other
	}
	return s.offered == other.offered && s.private == other.private &&
		slices.EqualFunc(s.entries, other.entries, entry.equal)
}

func (e entry) equal(other entry) bool {
	return e.native == other.native && e.item.Name == other.item.Name && e.task == other.task &&
		bytes.Equal(e.item.Raw, other.item.Raw)
}

// UpstreamView is the state of one upstream as the catalog sees it, for the command check
// and the console.
type UpstreamView struct {
	Name   string
	Prefix string // of its tools and prompts; "" when names and URIs stay as they are
	State  State
	Since  time.Time // of State
	// LastError is the last error, "" when all is well.
	LastError string
	// Failed is the name of that failure.
	Failed failure.Name
	// Tools to ResourceTemplates are the numbers of items that clients see.
	Tools, Prompts, Resources, ResourceTemplates, Skills int
	// Withheld are the items that clients do not see.
	Withheld []Withheld
}
