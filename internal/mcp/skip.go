package mcp

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// The functions here step over JSON text that is known to be valid. On other text
// they stop at its end.

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// skipString returns the index after the string that begins at i.
func skipString(b []byte, i int) int {
	for {
		if i = quote(b, i+1); i == len(b) {
			return i
		}
		escapes := 0
		for b[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

// quote returns the index of the first quote from i on, len(b) without one. Most strings are
// short, so it looks at the first bytes eight at a time before it calls the assembly of
// IndexByte.
func quote(b []byte, i int) int {
	for range 4 {
		if i+8 > len(b) {
			break
		}
		x := binary.LittleEndian.Uint64(b[i:]) ^ ones*'"'
		if found := (x - ones) &^ x & highs; found != 0 {
			return i + bits.TrailingZeros64(found)>>3
		}
		i += 8
	}
	i = min(i, len(b))
	if n := bytes.IndexByte(b[i:], '"'); n >= 0 {
		return i + n
	}
	return len(b)
}

// skipValue returns the index after the value that begins at i, or i if none begins there.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return i
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		for depth := 0; i < len(b); i++ {
			switch c := b[i]; {
			case c == '"':
				i = skipString(b, i) - 1
			case c|0x20 == '{': // and '['
				depth++
			case c|0x20 == '}': // and ']'
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return len(b)
	}
	for i < len(b) {
		switch b[i] {
		case ',', '}', ']', ' ', '\n', '\t', '\r', ':', '"', '{', '[':
			return i
		}
		i++
	}
	return i
}
