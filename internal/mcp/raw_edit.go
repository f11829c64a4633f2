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
	if !r.touched(edits) {
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
	out = append(out, '{')
	begin := len(out)
	var done uint64
	r.each(func(name []byte, at span) bool {
		n := editOf(edits, name)
		if n >= 0 && (edits[n].Value == nil || done&(1<<n) != 0) {
			return true
		}
		if len(out) > begin {
			out = append(out, ',')
		}
		if n < 0 {
			out = append(out, r[at.name:at.end]...)
			return true
		}
		done |= 1 << n
		out = append(out, r[at.name:at.start]...)
		out = append(out, edits[n].Value...)
		return true
	})
	for n, e := range edits {
		if e.Value == nil || done&(1<<n) != 0 || editOf(edits, []byte(e.Name)) != n {
			continue
		}
		if len(out) > begin {
			out = append(out, ',')
		}
		out = append(AppendString(out, e.Name), ':')
		out = append(out, e.Value...)
	}
	return append(out, '}')
}

// touched reports whether any edit changes the object.
func (r Raw) touched(edits []Edit) bool {
	for _, e := range edits {
		if e.Value != nil {
			return true
		}
	}
	found := false
	r.each(func(name []byte, _ span) bool {
		found = editOf(edits, name) >= 0
		return !found
	})
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
