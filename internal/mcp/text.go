package mcp

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[start:i]...), `�`...)
				start = i + size
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

// unescape decodes the text between the quotes of a JSON string; ok is false if it has an
// invalid escape.
func unescape(inner []byte) (s string, ok bool) {
	var out strings.Builder
	out.Grow(len(inner))
	for i := 0; i < len(inner); i++ {
		if inner[i] != '\\' {
			out.WriteByte(inner[i])
			continue
		}
		if i++; i == len(inner) {
			return "", false
		}
		switch c := inner[i]; c {
		case '"', '\\', '/':
			out.WriteByte(c)
		case 'b':
			out.WriteByte('\b')
		case 'f':
			out.WriteByte('\f')
		case 'n':
			out.WriteByte('\n')
		case 'r':
			out.WriteByte('\r')
		case 't':
			out.WriteByte('\t')
		case 'u':
			unit := hexUnit(inner[i+1:])
			if unit < 0 {
				return "", false
			}
			i += 4
			if utf16.IsSurrogate(unit) {
				low := rune(-1)
				if i+2 < len(inner) && inner[i+1] == '\\' && inner[i+2] == 'u' {
					low = hexUnit(inner[i+3:])
				}
				if unit = utf16.DecodeRune(unit, low); unit != utf8.RuneError {
					i += 6
				}
			}
			out.WriteRune(unit)
		default:
			return "", false
		}
	}
	return out.String(), true
}

// hexUnit parses the four digits of an escape; it returns -1 if they are missing.
func hexUnit(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	unit := rune(0)
	for _, c := range b[:4] {
		digit := strings.IndexByte(hexDigits, c|0x20)
		if digit < 0 || c < '0' {
			return -1
		}
		unit = unit<<4 | rune(digit)
	}
	return unit
}
