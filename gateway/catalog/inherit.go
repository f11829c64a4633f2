package catalog

// A catalog that takes another one's place, after a reload, begins with what that one
// knew, so that no list is empty until the upstreams have answered anew. What is
// inherited is shown like the lists of an upstream that fails for the moment: the first
// answer replaces it.

// inherited returns what the catalog before knew of a source; false for nothing that is
// good here. A source whose names are made otherwise now has nothing to inherit.
func (c *Catalog) inherited(s *source, before *Catalog) (known, bool) {
	if before == nil || s.people != nil {
		return known{}, false
	}
	states := before.snap.Load().states
	for _, was := range before.sources {
		if was.naming != s.naming || was.people != nil {
			continue
		}
		if s.naming.plain() && !sameKeys(c.plan.tagged, before.plan.tagged) {
			break // which of its URIs look like another upstream's has changed
		}
		state := states[was.index]
		return state, state.heard
	}
	return known{}, false
}

// remember notes what each upstream offered in the catalog before: who listened there
// goes on here, and is to hear of lists that come back.
func (c *Catalog) remember(before *Catalog) {
	if before == nil {
		return
	}
	c.before = make(map[string]kindSet, len(before.sources))
	states := before.snap.Load().states
	for _, s := range before.sources {
		kinds := states[s.index].offers.kinds
		if !states[s.index].heard {
			kinds |= before.before[s.naming.upstream]
		}
		c.before[s.naming.upstream] = kinds
	}
}

// offeredBefore returns the kinds that upstreams which a caller may know of offered in
// the catalog before.
func (c *Catalog) offeredBefore(visible func(upstream string) bool) (all kindSet) {
	for name, kinds := range c.before {
		if visible == nil || visible(name) {
			all |= kinds
		}
	}
	return all
}

func sameKeys(a, b map[string]int) bool {
	if len(a) != len(b) {
		return false
	}
	for key := range a {
		if _, ok := b[key]; !ok {
			return false
		}
	}
	return true
}
