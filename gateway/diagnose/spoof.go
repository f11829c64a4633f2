package diagnose

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

const (
	// spoofPause is the time from a change of lists to the search: more changes may come.
	spoofPause = time.Second
	// mostSpoofs bounds the spoofs that are remembered as recorded. Those beyond it have no record.
	mostSpoofs = 10_000
)

// Kinds of spoofs, as events of records.
const (
	hiddenText   = "hidden_text"
	mixedLetters = "mixed_letters"
	lookAlike    = "look_alike"
)

// Spoof is something that may deceive people or models: a text of a tool that people cannot see,
// or a name that looks like another one.
type Spoof struct {
	Upstream, Name string // of the tool
	At             string // the path of its key in the configuration
	Text           string

	event string
}

// Error is the spoof as gatehouse check reports it.
func (d Spoof) Error() string { return d.At + ": " + d.Text }

// Surface shows what clients of a configuration see.
type Surface struct {
	Config config.Config
	Tools  func(upstream string) []mcp.Item
	Shown  func(view string) []catalog.Shown
}

// Spoofs returns texts and names that may deceive people or models.
func (s Surface) Spoofs() (all []Spoof) {
	var names []pin.Named
	places := make(map[string]string) // of upstreams
	for i, u := range s.Config.Upstreams {
		if !config.Enabled(u) {
			continue
		}
		path := config.UpstreamKey(i, u)
		places[u.Name] = path
		for _, tool := range s.Tools(u.Name) {
			names = append(names, pin.Named{Upstream: u.Name, Name: tool.Name})
			for _, hidden := range pin.Hidden(tool.Raw) {
				text := fmt.Sprintf("tool %q: %s: models read what people do not see", pin.Visible(tool.Name), hidden)
				all = append(all, Spoof{event: hiddenText, Upstream: u.Name, Name: tool.Name, At: path, Text: text})
			}
			if pin.Mixed(tool.Name) {
				text := fmt.Sprintf("tool %+q: the name mixes letters that look alike", tool.Name)
				all = append(all, Spoof{event: mixedLetters, Upstream: u.Name, Name: tool.Name, At: path, Text: text})
			}
		}
	}
	for _, pair := range pin.LookAlikes(names) {
		text := fmt.Sprintf("tool %+q looks like %+q of %s", pair.B.Name, pair.A.Name, pair.A.Upstream)
		at := places[pair.B.Upstream]
		all = append(all, Spoof{event: lookAlike, Upstream: pair.B.Upstream, Name: pair.B.Name, At: at, Text: text})
	}
	for i, v := range s.Config.Views {
		if v.DropPrefixes {
			for _, pair := range pin.LookAlikes(s.ownNames(v.Name)) {
				if pair.A.Name == pair.B.Name {
					continue // such names keep their prefixes: check warns of them
				}
				text := fmt.Sprintf("drop_prefixes: tool %+q of %s and tool %+q of %s look alike",
					pair.A.Name, pair.A.Upstream, pair.B.Name, pair.B.Upstream)
				at := config.ViewKey(i, v)
				all = append(all, Spoof{event: lookAlike, Upstream: pair.B.Upstream, Name: pair.B.Name, At: at, Text: text})
			}
		}
	}
	return all
}

// ownNames returns the servers' own names of the tools of a view.
func (s Surface) ownNames(view string) (names []pin.Named) {
	for _, list := range s.Shown(view) {
		for _, t := range list.Targets {
			if list.List == mcp.KindTools {
				names = append(names, pin.Named{Upstream: t.Upstream, Name: t.Name})
			}
		}
	}
	return names
}

// SpoofLog records spoofs while the gateway serves, each once.
type SpoofLog struct {
	journal *audit.Journal
	shown   chan struct{} // holds a token: lists have changed since the last search

	mu    sync.Mutex // guards the fields below
	known map[Spoof]bool
	now   []Spoof // of the last search
}

// NewSpoofLog returns a SpoofLog that records into a journal, which may be nil.
func NewSpoofLog(journal *audit.Journal) *SpoofLog {
	return &SpoofLog{journal: journal, shown: make(chan struct{}, 1), known: make(map[Spoof]bool)}
}

// Changed requests a search after a change of lists. It does not block.
func (l *SpoofLog) Changed() {
	select {
	case l.shown <- struct{}{}:
	default:
	}
}

// Run searches whenever lists have changed, until ctx ends.
func (l *SpoofLog) Run(ctx context.Context, s Surface) {
	l.Changed() // since the last search, of another configuration
	for {
		select {
		case <-l.shown:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(spoofPause):
		case <-ctx.Done():
			return
		}
		if l.journal.Enabled() {
			l.Record(s.Spoofs())
		}
	}
}

// Found returns the spoofs of the last search.
func (l *SpoofLog) Found() []Spoof {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// Record records the spoofs that are not recorded yet.
func (l *SpoofLog) Record(all []Spoof) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = all
	for _, d := range all {
		if l.known[d] || len(l.known) >= mostSpoofs {
			continue
		}
		l.known[d] = true
		l.journal.Put(&record.Record{Kind: record.KindDeceit, Event: d.event, Upstream: d.Upstream, List: mcp.KindTools,
			Name: d.Name, Reason: d.Text})
	}
}
