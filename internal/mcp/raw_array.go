package mcp

// Array makes an array of its elements.
func Array(elements ...Raw) Raw {
	out := Raw{'['}
	for i, element := range elements {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, element...)
	}
	return append(out, ']')
}

// Strings makes an array of strings.
func Strings(values []string) Raw {
	out := Raw{'['}
	for i, value := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = AppendString(out, value)
	}
	return append(out, ']')
}

// Filter returns the array with each element replaced by fn's result, without those for which
// fn returns nil. Anything but an array counts as empty.
func (r Raw) Filter(fn func(Raw) Raw) Raw {
	out := Raw{'['}
	r.Elements(func(element Raw) bool {
		if element = fn(element); element != nil {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, element...)
		}
		return true
	})
	return append(out, ']')
}
