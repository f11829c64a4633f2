package disclosure

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// profile holds the modes for some callers. Immutable.
type profile struct {
	index   int
	minimal map[string]bool // the upstreams with tools listed in short
}

// newProfile resolves the mode of each upstream: the client's mode overrides the
// upstream's, which overrides the global one. It returns nil if nothing is listed in short.
func newProfile(index int, client, all string, upstreams map[string]Upstream) *profile {
	p := &profile{index: index, minimal: make(map[string]bool)}
	for name, u := range upstreams {
		mode := all
		if u.Mode != "" {
			mode = u.Mode
		}
		if client != "" {
			mode = client
		}
		if mode == ModeProgressive {
			p.minimal[name] = true
		}
	}
	if len(p.minimal) == 0 {
		return nil
	}
	return p
}

// profileOf returns the profile of a caller, nil for mode full.
func (d *Disclosure) profileOf(caller *mcp.Caller) *profile {
	if len(d.clients) > 0 {
		if i := d.whose(caller); i >= 0 {
			return d.clients[i]
		}
	}
	return d.others
}
