package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// guards returns how upstreams are wrapped for the catalog, and what is approved of them. collect,
// if not nil, takes all definitions, and nothing is guarded; else found takes what is not approved.
func guards(cfg Config, collect func(string, pin.Definition), found func(pinning.Finding)) (func(catalog.Upstream, upstream.Config) catalog.Upstream, pin.Lock, error) {
	if collect != nil {
		return func(u catalog.Upstream, _ upstream.Config) catalog.Upstream {
			return pinning.Collector{Server: u, Collect: collect}
		}, nil, nil
	}
	lock, err := config.NeededLock(cfg)
	if err != nil {
		return nil, nil, err
	}
	return func(u catalog.Upstream, c upstream.Config) catalog.Upstream {
		mode := config.PinMode(cfg, c)
		if mode == pinning.Off {
			return u
		}
		return pinning.New(u, mode, lock.Of(c.Name), found)
	}, lock, nil
}

const (
	// deceitsPause is from a change of lists to the search for deceits: more changes may come.
	deceitsPause = time.Second
	// deceitsKnown bounds how many deceits are remembered as recorded. Those beyond it have no
	// record.
	deceitsKnown = 10_000
)

// What deceives, as events of records.
const (
	hiddenText   = "hidden_text"
	mixedLetters = "mixed_letters"
	lookAlike    = "look_alike"
)

// deceit is something that may deceive people or models: a text of a tool that people cannot see,
// or a name that looks like another one.
type deceit struct {
	event          string
	upstream, name string // of the tool
	at             string // the path of its key in the configuration
	text           string
}

// Error is the deceit as gatehouse check reports it.
func (d deceit) Error() string { return d.at + ": " + d.text }

// sight is what clients of a configuration see.
type sight struct {
	cfg   Config
	tools func(upstream string) []mcp.Item
	lists func(view string) []catalog.Shown
}

// deceits returns what may deceive people or models.
func (s sight) deceits() (all []deceit) {
	var names []pin.Named
	places := make(map[string]string) // of upstreams
	for i, u := range s.cfg.Upstreams {
		if !config.Enabled(u) {
			continue
		}
		path := config.UpstreamKey(i, u)
		places[u.Name] = path
		for _, tool := range s.tools(u.Name) {
			names = append(names, pin.Named{Upstream: u.Name, Name: tool.Name})
			for _, hidden := range pin.Hidden(tool.Raw) {
				all = append(all, deceit{hiddenText, u.Name, tool.Name, path, fmt.Sprintf("tool %q: %s: models read what people do not see", pin.Visible(tool.Name), hidden)})
			}
			if pin.Mixed(tool.Name) {
				all = append(all, deceit{mixedLetters, u.Name, tool.Name, path, fmt.Sprintf("tool %+q: the name mixes letters that look alike", tool.Name)})
			}
		}
	}
	for _, pair := range pin.LookAlikes(names) {
		all = append(all, deceit{lookAlike, pair.B.Upstream, pair.B.Name, places[pair.B.Upstream], fmt.Sprintf("tool %+q looks like %+q of %s", pair.B.Name, pair.A.Name, pair.A.Upstream)})
	}
	for i, v := range s.cfg.Views {
		if v.DropPrefixes {
			for _, pair := range pin.LookAlikes(s.ownNames(v.Name)) {
				if pair.A.Name == pair.B.Name {
					continue // such names keep their prefixes, of which check warns
				}
				all = append(all, deceit{lookAlike, pair.B.Upstream, pair.B.Name, config.ViewKey(i, v), fmt.Sprintf("drop_prefixes: tool %+q of %s and tool %+q of %s look alike", pair.A.Name, pair.A.Upstream, pair.B.Name, pair.B.Upstream)})
			}
		}
	}
	return all
}

// ownNames returns the servers' own names of the tools of a view.
func (s sight) ownNames(view string) (names []pin.Named) {
	for _, list := range s.lists(view) {
		for _, t := range list.Targets {
			if list.List == mcp.KindTools {
				names = append(names, pin.Named{Upstream: t.Upstream, Name: t.Name})
			}
		}
	}
	return names
}

// lookout records deceits while the gateway serves, each once.
type lookout struct {
	journal *audit.Journal
	shown   chan struct{} // holds a token: lists have changed since the last search

	mu    sync.Mutex // guards the fields below
	known map[deceit]bool
	now   []deceit // of the last search
}

func newLookout(journal *audit.Journal) *lookout {
	return &lookout{journal: journal, shown: make(chan struct{}, 1), known: make(map[deceit]bool)}
}

// changed says that lists have changed. It does not block.
func (l *lookout) changed() {
	select {
	case l.shown <- struct{}{}:
	default:
	}
}

// run searches whenever lists have changed, until ctx ends.
func (l *lookout) run(ctx context.Context, s sight) {
	l.changed() // since the last search, of another configuration
	for {
		select {
		case <-l.shown:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(deceitsPause):
		case <-ctx.Done():
			return
		}
		if l.journal.Enabled() {
			l.record(s.deceits())
		}
	}
}

// found returns what the last search has found.
func (l *lookout) found() []deceit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// record records what is not known yet.
func (l *lookout) record(all []deceit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = all
	for _, d := range all {
		if l.known[d] || len(l.known) >= deceitsKnown {
			continue
		}
		l.known[d] = true
		l.journal.Put(&record.Record{Kind: record.KindDeceit, Event: d.event, Upstream: d.upstream, List: mcp.KindTools, Name: d.name, Reason: d.text})
	}
}
