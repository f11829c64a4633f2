package pinning

import (
	"fmt"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
)

// Wanted is a definition that an operator approves, as it was seen.
type Wanted struct {
	Upstream string
	Kind     pin.Kind
	Name     string
	Digest   string // of the definition, as the lock file has it
	// Keep says that its earlier approvals stay valid, too.
	Keep bool
}

// Diff returns the lines of a finding that are not as approved; see pin.Change.
func (f Finding) Diff(lock pin.Lock) string { return f.change(lock).Diff() }

func (f Finding) change(lock pin.Lock) pin.Change {
	return pin.Change{Kind: f.Kind, Name: f.Name, Was: lock.Approved(f.Upstream, f.Kind, f.Name),
		Is: []mcp.Raw{f.Definition}}
}

// Approve approves definitions that were seen, all or none: it changes the lock, and writes it to a
// file. Several definitions of a thing in the same call are approved together. The errors say what
// to do.
func Approve(lock pin.Lock, file string, seen []Finding, wanted []Wanted) error {
	type thing struct {
		upstream string
		kind     pin.Kind
		name     string
	}
	known := make(map[thing]map[string]Finding)
	for _, f := range seen {
		of := thing{f.Upstream, f.Kind, f.Name}
		if known[of] == nil {
			known[of] = make(map[string]Finding)
		}
		known[of][pin.DigestOf(f.Definition).String()] = f
	}
	approved := make(map[thing]bool)
	for _, w := range wanted {
		of := thing{w.Upstream, w.Kind, w.Name}
		f, ok := known[of][w.Digest]
		if !ok {
			return fmt.Errorf("nothing was approved: %s of %s, with this digest, does not wait for approval: look at it again",
				strings.TrimSpace(string(w.Kind)+" "+w.Name), w.Upstream)
		}
		if w.Keep || approved[of] {
			lock.Add(w.Upstream, pin.Definition{Kind: f.Kind, Name: f.Name, Raw: f.Definition})
		} else {
			lock.Approve(w.Upstream, f.change(lock))
		}
		approved[of] = true
	}
	if err := lock.Write(file); err != nil {
		return fmt.Errorf("nothing was approved, because the lock file cannot be written: %w: run gatehouse lock --running --review where it can be, and give the file to the gateway as you do with its configuration", err)
	}
	return nil
}
