package mcp

// Outline is what was noted of a large object while it was checked, so that later
// readers need not go over all of it again. It answers for that object alone, where
// it stands in memory: of any other value it knows nothing, as a nil Outline knows
// nothing of all. Immutable.
type Outline struct {
	of      Raw
	members []span
	uris    bool
}

// Outliner makes an Outline.
type Outliner struct{ members []span }

// Add notes a member: where its name, in quotation marks, begins, and its value begins
// and ends, counted from the beginning of the object. Members come in their order.
func (o *Outliner) Add(name, start, end int) {
	o.members = append(o.members, span{name, start, end})
}

// Outline returns the Outline of an object of which all members were added. uris says
// that something in it may have a name that ends in uri, in whatever case, or is escaped.
func (o *Outliner) Outline(of Raw, uris bool) *Outline {
	return &Outline{of: of, members: o.members, uris: uris}
}

func (o *Outline) knows(r Raw) bool {
	return o != nil && len(r) == len(o.of) && len(r) > 0 && &r[0] == &o.of[0]
}

// Members is r.Members.
func (o *Outline) Members(r Raw, fn func(name []byte, value Raw) bool) {
	if !o.knows(r) {
		r.Members(fn)
		return
	}
	for _, at := range o.members {
		name := r[at.name+1 : skipString(r, at.name)-1]
		if !fn(name, r[at.start:at.end:at.end]) {
			return
		}
	}
}

// Member is r.Member.
func (o *Outline) Member(r Raw, name string) (found Raw, ok bool) {
	o.Members(r, func(n []byte, value Raw) bool {
		if ok = string(n) == name; ok {
			found = value
		}
		return !ok
	})
	return found, ok
}

// LacksURIs reports that no name in r ends in uri to any reader; false where it is not
// known.
func (o *Outline) LacksURIs(r Raw) bool { return o.knows(r) && !o.uris }
