package sessionlists

const (
	// mostTools bounds the tools that are remembered between two fetches of a session.
	mostTools = 16
	// patience is how many fetches after calls of a tool may show nothing new, in a row, before
	// some of its calls are no longer followed by one. A tool after which something was new once
	// gets patienceOnce.
	patience     = 3
	patienceOnce = 32
	// mostSkipped bounds how many calls of a tool, over all sessions, are not followed by a
	// fetch.
	mostSkipped = 63
)

// tool is a tool of an upstream, by its own name.
type tool struct{ upstream, name string }

// followUp is what the fetches after calls of a tool have shown.
type followUp struct {
	once    bool // something was new after one of them
	equal   int  // how many in a row have shown nothing new
	skipped int  // calls without a fetch since the last one
}

// follows reports whether a call of a tool makes lists outdated. mu is held.
func (t *Table[D]) follows(which tool) bool {
	f, ok := t.tools.Get(which)
	if !ok {
		return true
	}
	spare := f.equal - patience
	if f.once {
		spare = f.equal - patienceOnce
	}
	if spare < 0 {
		return true
	}
	if f.skipped < min(1<<min(spare+1, 16)-1, mostSkipped) {
		f.skipped++
		return false
	}
	f.skipped = 0
	return true
}

// followed records a fetch after a call of a tool. mu is held.
func (t *Table[D]) followed(which tool, changed bool) {
	f, ok := t.tools.Get(which)
	if !ok {
		f = &followUp{}
		t.tools.Add(which, f)
	}
	if changed {
		*f = followUp{once: true}
		return
	}
	f.equal++
}
