package wire

import (
	"bytes"

	"github.com/gatehouse-mcp/gatehouse/internal/jsonstring"
)

// scanner checks JSON text strictly by RFC 8259: valid UTF-8 without a byte order mark, no
// control characters in strings, at most MaxDepth levels. Its only state is the text and,
// after a method returned -1, where and why it stopped.
type scanner struct {
	b   []byte
	at  int
	why string

	outline bool // whether to outline a result
	uris    bool // a name ends in uri, or contains an escape
}

func (s *scanner) fail(at int, why string) int {
	s.at, s.why = at, why
	return -1
}

// space returns the index of the first byte from i on that is not white space.
func (s *scanner) space(i int) int {
	b := s.b
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// value checks the value that begins at i, below depth levels, and returns the index after
// it. It needs one bit of stack for each level.
func (s *scanner) value(i, depth int) int {
	b := s.b
	var objects [MaxDepth / 64]uint64 // which open levels are objects
	inObject, base := false, depth
	for {
		if inObject {
			if _, i = s.name(i); i < 0 {
				return -1
			}
		}
		if i = s.space(i); i >= len(b) {
			return s.fail(i, "it ends too early")
		}
		switch c := b[i]; c {
		case '{', '[':
			if depth == MaxDepth {
				return s.fail(i, "it is nested too deep")
			}
			bit := uint64(1) << (depth & 63)
			objects[depth>>6] &^= bit
			if inObject = c == '{'; inObject {
				objects[depth>>6] |= bit
			}
			depth++
			if i = s.space(i + 1); i >= len(b) {
				return s.fail(i, "it ends too early")
			}
			if b[i] != c+2 { // '}' and ']' are two after '{' and '['
				continue
			}
		case '"':
			if i = s.text(i); i < 0 {
				return -1
			}
		case 't':
			i = s.word(i, "true")
		case 'f':
			i = s.word(i, "false")
		case 'n':
			i = s.word(i, "null")
		default:
			i = s.number(i)
		}
		if i < 0 {
			return -1
		}
		for { // after a value: close what ends here, continue after a comma
			if depth == base {
				return i
			}
			if i = s.space(i); i >= len(b) {
				return s.fail(i, "it ends too early")
			}
			if b[i] == ',' {
				i++
				break
			}
			if inObject && b[i] != '}' || !inObject && b[i] != ']' {
				return s.fail(i, "a comma or an end is missing")
			}
			i++
			depth--
			inObject = depth > base && objects[(depth-1)>>6]>>((depth-1)&63)&1 == 1
		}
	}
}

// name checks the name and the colon at i and returns the index after each, -1 for both
// when they are missing.
func (s *scanner) name(i int) (end, after int) {
	if i = s.space(i); i >= len(s.b) || s.b[i] != '"' {
		i = s.fail(i, "a member's name is missing")
		return i, i
	}
	if end = s.text(i); end < 0 {
		return -1, -1
	}
	if end-i > 4 && s.b[end-2]|0x20 == 'i' && s.b[end-3]|0x20 == 'r' && s.b[end-4]|0x20 == 'u' ||
		s.outline && bytes.IndexByte(s.b[i:end], '\\') >= 0 {
		s.uris = true
	}
	if i = s.space(end); i >= len(s.b) || s.b[i] != ':' {
		i = s.fail(i, "a colon is missing")
		return i, i
	}
	return end, i + 1
}

// text checks the string that begins at i and returns the index after it.
func (s *scanner) text(i int) int {
	end, why := jsonstring.Check(s.b, i)
	if why != "" {
		return s.fail(end, why)
	}
	return end
}

func (s *scanner) word(i int, word string) int {
	if len(s.b)-i < len(word) || string(s.b[i:i+len(word)]) != word {
		return s.fail(i, "a value is missing or wrong")
	}
	return i + len(word)
}

// number checks the number that begins at i and returns the index after it.
func (s *scanner) number(i int) int {
	b := s.b
	start := i
	if i < len(b) && b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b) || b[i] < '0' || b[i] > '9':
		return s.fail(start, "a value is missing or wrong")
	case b[i] == '0':
		i++
	default:
		i = s.digits(i)
	}
	if i < len(b) && b[i] == '.' {
		end := s.digits(i + 1)
		if end == i+1 {
			return s.fail(start, "a number is wrong")
		}
		i = end
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		end := s.digits(i)
		if end == i {
			return s.fail(start, "a number is wrong")
		}
		i = end
	}
	return i
}

func (s *scanner) digits(i int) int {
	for i < len(s.b) && s.b[i]-'0' <= 9 {
		i++
	}
	return i
}
