package mcp

// Edit is a change of an object's member: it sets the value, or removes the member if Value
// is nil.
type Edit struct {
	Name  string
	Value Raw
}

// Edit applies the changes in one pass. Other members keep their text and order. A changed
// member takes the position of the first one with its name, and the others go; a new one
// comes last. Values are not checked. If nothing changes, Edit returns r itself. Anything but
// an object counts as an empty one.
func (r Raw) Edit(edits ...Edit) Raw {
	const most = 64 // a bit of done each
	if len(edits) > most {
		return r.Edit(edits[:most]...).Edit(edits[most:]...)
	}
	var unknown *Outline
	if !unknown.changes(r, edits) {
		return r
	}
	size := len(r) + 2
	for _, e := range edits {
		size += len(e.Name) + len(e.Value) + 4
	}
	return r.appendEdited(make(Raw, 0, size), edits)
}

// AppendEdited appends the object with one change, as by Edit.
func (r Raw) AppendEdited(dst []byte, e Edit) []byte {
	edits := [1]Edit{e}
	return r.appendEdited(dst, edits[:])
}

func (r Raw) appendEdited(out []byte, edits []Edit) []byte {
	var unknown *Outline
	out = append(out, '{')
	unknown.edit(r, edits, func(part []byte) { out = append(out, part...) })
	return append(out, '}')
}

// Edited is an object with changes, at most 64, that are carried out as it is written: a large
// object is not copied. Outline is that of the object, if there is one.
type Edited struct {
	Of      Raw
	Outline *Outline
	Edits   []Edit
}

// Member returns the value of a member after the changes.
func (e Edited) Member(name string) (Raw, bool) {
	if n := editOf(e.Edits, []byte(name)); n >= 0 {
		return e.Edits[n].Value, e.Edits[n].Value != nil
	}
	return e.Outline.Member(e.Of, name)
}

// With returns the object with more changes.
func (e Edited) With(more ...Edit) Edited {
	e.Edits = append(e.Edits, more...)
	return e
}

// Parts appends what follows the opening brace, in parts that share memory with the object.
func (e Edited) Parts(parts [][]byte) [][]byte {
	if !e.Outline.changes(e.Of, e.Edits) && e.Of.IsObject() {
		return append(parts, e.Of[1:])
	}
	e.Outline.edit(e.Of, e.Edits, func(part []byte) { parts = append(parts, part) })
	return append(parts, closing)
}

var comma, closing = []byte(","), []byte("}")

// edit calls put for the parts of what stands between the braces of r after the edits. Members that
// stay next to each other are one part.
func (o *Outline) edit(r Raw, edits []Edit, put func(part []byte)) {
	var done uint64
	from, to, any := -1, 0, false
	next := func() {
		if any {
			put(comma)
		}
		any = true
	}
	stay := func() {
		if from >= 0 {
			next()
			put(r[from:to])
			from = -1
		}
	}
	o.each(r, func(name []byte, at span) bool {
		n := editOf(edits, name)
		if n < 0 {
			if from < 0 {
				from = at.name
			}
			to = at.end
			return true
		}
		stay()
		if value := edits[n].Value; value != nil && done&(1<<n) == 0 {
			done |= 1 << n
			next()
			put(r[at.name:at.start])
			put(value)
		}
		return true
	})
	stay()
	for n, edit := range edits {
		if edit.Value != nil && done&(1<<n) == 0 && editOf(edits, []byte(edit.Name)) == n {
			next()
			put(append(String(edit.Name), ':'))
			put(edit.Value)
		}
	}
}

// changes reports whether any edit changes the object.
func (o *Outline) changes(r Raw, edits []Edit) bool {
	found := false
	for _, edit := range edits {
		found = found || edit.Value != nil
	}
	if !found && len(edits) > 0 {
		o.each(r, func(name []byte, _ span) bool {
			found = editOf(edits, name) >= 0
			return !found
		})
	}
	return found
}

// editOf returns the index of the edit that decides about a member, the last one of its name,
// or -1.
func editOf(edits []Edit, name []byte) int {
	for n := len(edits) - 1; n >= 0; n-- {
		if edits[n].Name == string(name) {
			return n
		}
	}
	return -1
}
