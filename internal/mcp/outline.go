package mcp

import "github.com/gatehouse-mcp/gatehouse/internal/jsonstring"

// Outline records the structure of a large object while it is checked, so that later readers
// need not scan it again. It is valid for that object only, at its address in memory; for any
// other value, and as a nil Outline, it knows nothing. Immutable.
type Outline struct {
	of      Raw
	members []span
	uris    bool
}

// Outliner builds an Outline.
type Outliner struct{ members []span }

// Add records a member: the offset of its quoted name, and the offsets at which its value
// begins and ends. Members are added in order.
func (o *Outliner) Add(name, start, end int) {
	o.members = append(o.members, span{name, start, end})
}

// Outline returns the Outline of an object when all its members were added. uris says that some
// name in it may end in uri, in any case, or is escaped.
func (o *Outliner) Outline(of Raw, uris bool) *Outline {
	return &Outline{of: of, members: o.members, uris: uris}
}

func (o *Outline) knows(r Raw) bool {
	return o != nil && len(r) == len(o.of) && len(r) > 0 && &r[0] == &o.of[0]
}

// Members is r.Members.
func (o *Outline) Members(r Raw, fn func(name []byte, value Raw) bool) {
	o.each(r, func(name []byte, at span) bool { return fn(name, r[at.start:at.end:at.end]) })
}

func (o *Outline) each(r Raw, fn func(name []byte, at span) bool) {
	if !o.knows(r) {
		r.each(fn)
		return
	}
	for _, at := range o.members {
		if !fn(r[at.name+1:jsonstring.Skip(r, at.name)-1], at) {
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

// LacksURIs reports that, to any reader, no name in r ends in uri. It is false if this is not
// known.
func (o *Outline) LacksURIs(r Raw) bool { return o.knows(r) && !o.uris }
