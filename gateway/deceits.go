package gateway

import (
	"fmt"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
)

// deceits returns what may deceive people or models: texts of tools that people cannot see, and
// names that look like others.
func (g *graph) deceits() (doubts []error) {
	var all []pin.Named
	places := make(map[string]string) // of upstreams
	for i, u := range g.cfg.Upstreams {
		if !enabled(u) {
			continue
		}
		path := upstreamPath(i, u)
		places[u.Name] = path
		for _, tool := range g.catalog.Tools(u.Name) {
			all = append(all, pin.Named{Upstream: u.Name, Name: tool.Name})
			for _, hidden := range pin.Hidden(tool.Raw) {
				doubts = append(doubts, fmt.Errorf("%s: tool %q: %s: models read what people do not see", path, pin.Visible(tool.Name), hidden))
			}
			if pin.Mixed(tool.Name) {
				doubts = append(doubts, fmt.Errorf("%s: tool %+q: the name mixes letters that look alike", path, tool.Name))
			}
		}
	}
	for _, pair := range pin.LookAlikes(all) {
		doubts = append(doubts, fmt.Errorf("%s: tool %+q looks like %+q of %s", places[pair.B.Upstream], pair.B.Name, pair.A.Name, pair.A.Upstream))
	}
	for i, v := range g.cfg.Views {
		if v.DropPrefixes {
			for _, pair := range pin.LookAlikes(g.ownNames(v.Name)) {
				if pair.A.Name == pair.B.Name {
					continue // such names keep their prefixes, of which check warns
				}
				doubts = append(doubts, fmt.Errorf("%s: drop_prefixes: tool %+q of %s and tool %+q of %s look alike", viewKey(i, v), pair.A.Name, pair.A.Upstream, pair.B.Name, pair.B.Upstream))
			}
		}
	}
	return doubts
}

// ownNames returns the servers' own names of the tools of a view.
func (g *graph) ownNames(view string) (names []pin.Named) {
	for _, list := range g.catalog.Shown(view) {
		for _, t := range list.Targets {
			if list.List == mcp.KindTools {
				names = append(names, pin.Named{Upstream: t.Upstream, Name: t.Name})
			}
		}
	}
	return names
}
