package wire

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// outlineOf is value for params or a result in the envelope. It also returns the outline of an object
// that does not have too many members.
func (s *scanner) outlineOf(start int) (end int, outline *mcp.Outline) {
	b := s.b
	if start >= len(b) || b[start] != '{' {
		return s.value(start, 1), nil
	}
	var members mcp.Outliner
	i := s.space(start + 1)
	if i >= len(b) {
		return s.fail(i, "it ends too early"), nil
	}
	if b[i] == '}' {
		return i + 1, members.Outline(b[start:i+1:i+1], false)
	}
	s.uris = false // names before the result do not count
	for n := 0; ; n++ {
		i = s.space(i)
		_, value := s.name(i)
		if value < 0 {
			return -1, nil
		}
		value = s.space(value)
		if end = s.value(value, 2); end < 0 {
			return -1, nil
		}
		if n < MaxMembers {
			members.Add(i-start, value-start, end-start)
		}
		if i = s.space(end); i >= len(b) {
			return s.fail(i, "it ends too early"), nil
		}
		switch {
		case b[i] == ',':
			i++
		case b[i] != '}':
			return s.fail(i, "a comma or an end is missing"), nil
		case n >= MaxMembers:
			return i + 1, nil
		default:
			return i + 1, members.Outline(b[start:i+1:i+1], s.uris)
		}
	}
}
