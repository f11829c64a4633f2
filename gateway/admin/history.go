package admin

import (
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/configtext"
)

// Bounds of the history: the readings of the configuration, and the bytes of all differences.
const (
	mostChanges     = 50
	mostChangeBytes = 1 << 20
)

// ConfigChange is one reading of the configuration: at the start, and at each reload.
type ConfigChange struct {
	At       time.Time `json:"at"`
	Revision string    `json:"revision,omitempty"` // of the text that was read
	// Applied says that it has been in force since then; else Problems are why not.
	Applied  bool      `json:"applied"`
	Problems []Problem `json:"problems,omitempty"`
	// Changed are the sections that differ from those that held before.
	Changed []string `json:"changed,omitempty"`
	// Diff is the difference between this text and the previous one, in the unified form, without
	// secrets. Note is why there is none, "" if the texts are the same.
	Diff string `json:"diff,omitempty"`
	Note string `json:"note,omitempty"`
}

// ConfigHistory has the last readings of the configuration. The zero value is ready to use.
type ConfigHistory struct {
	mu    sync.Mutex // guards the fields below
	all   []ConfigChange
	last  string // the text that was read last, masked
	bytes int    // of all differences

	holds, hidden string // the text that was applied last, masked, or why there is none
}

// Add adds a reading. masked is the text without secrets; hidden is why there is none.
func (h *ConfigHistory) Add(c ConfigChange, masked, hidden string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case hidden != "":
		c.Note = hidden
	case len(h.all) > 0 && h.last == "":
		c.Note = "there is no text before this one to compare it with"
	case len(h.all) > 0:
		c.Diff = configtext.Diff(h.last, masked)
	}
	h.last = masked
	if c.Applied {
		h.holds, h.hidden = masked, hidden
	}
	h.all = append(h.all, c)
	h.bytes += len(c.Diff)
	for len(h.all) > mostChanges || h.bytes > mostChangeBytes {
		h.bytes -= len(h.all[0].Diff)
		h.all = slices.Delete(h.all, 0, 1)
	}
}

// All returns the kept readings, newest first.
func (h *ConfigHistory) All() []ConfigChange {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.Clone(h.all)
	slices.Reverse(all)
	return all
}

// Holds returns the text that was applied last, masked, or why it is not shown.
func (h *ConfigHistory) Holds() (masked, hidden string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.holds, h.hidden
}
