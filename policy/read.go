package policy

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxValues bounds the number of values, at all depths, in an object that conditions judge.
const maxValues = 100_000

// maxDepth bounds their nesting. The envelope's scanner has a bound too; this one is for
// objects from elsewhere.
const maxDepth = 256

// names are the member names of an object, at all depths, by their case-folded form; "" for a
// form with several spellings.
type names map[string]string

// twin reports whether the object has the name in another case. Some servers treat the two as
// the same. folded is what fold returns for the name.
func (n names) twin(name, folded string) bool {
	other, ok := n[folded]
	return ok && other != name
}

// readObject parses a JSON object for conditions. It is strict, because the server may read
// anything ambiguous differently. A duplicate name in an object is an error, even if the two
// differ in case only. A number without an exact Go value, and text with half of a surrogate
// pair, become values on which a condition fails when it uses them.
func readObject(text mcp.Raw) (map[string]any, names, error) { return readUpTo(maxValues, text) }

// readUpTo is readObject with its own bound on the number of values.
func readUpTo(most int, text mcp.Raw) (map[string]any, names, error) {
	if !text.IsObject() {
		return nil, nil, errors.New("no object")
	}
	r := reader{left: most, most: most, names: make(names)}
	value, err := r.read(text, 0)
	if err != nil {
		return nil, nil, err
	}
	return value.(map[string]any), r.names, nil
}

type reader struct {
	left  int // values that may still come
	most  int
	names names
}

func (r *reader) read(text mcp.Raw, depth int) (any, error) {
	if r.left--; r.left < 0 {
		return nil, fmt.Errorf("more than %d values", r.most)
	}
	if depth > maxDepth {
		return nil, errors.New("nested too deep")
	}
	if len(text) == 0 {
		return nil, errors.New("no JSON")
	}
	switch text[0] {
	case '{':
		return r.readMembers(text, depth)
	case '[':
		list := []any{}
		var err error
		text.Elements(func(element mcp.Raw) bool {
			var value any
			value, err = r.read(element, depth+1)
			list = append(list, value)
			return err == nil
		})
		return list, err
	case '"':
		if value, ok := wholeText(text); ok {
			return value, nil
		}
		return types.NewErr("text with half a character"), nil
	case 't', 'f':
		return text[0] == 't', nil
	case 'n':
		return nil, nil
	}
	return readNumber(string(text)), nil
}

func (r *reader) readMembers(text mcp.Raw, depth int) (any, error) {
	object := make(map[string]any)
	here := make(names)
	var err error
	text.Members(func(written []byte, member mcp.Raw) bool {
		name, ok := wholeText(append(append([]byte{'"'}, written...), '"'))
		if !ok {
			err = errors.New("a name with half a character")
			return false
		}
		folded := fold(name)
		if other, twice := here[folded]; twice {
			err = fmt.Errorf("%q stands twice", name)
			if other != name {
				err = fmt.Errorf("%q and %q differ in case only", other, name)
			}
			return false
		}
		here[folded] = name
		if other, known := r.names[folded]; known && other != name {
			r.names[folded] = ""
		} else {
			r.names[folded] = name
		}
		object[name], err = r.read(member, depth+1)
		return err == nil
	})
	return object, err
}

// wholeText decodes a JSON string; ok is false if it has half of a surrogate pair, which each
// reader decodes differently.
func wholeText(text mcp.Raw) (string, bool) {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		i++
		if i < len(text) && text[i] != 'u' {
			continue
		}
		unit := hexUnit(text, i+1)
		i += 4
		if !utf16.IsSurrogate(unit) {
			continue
		}
		if i+2 >= len(text) || text[i+1] != '\\' || text[i+2] != 'u' ||
			utf16.DecodeRune(unit, hexUnit(text, i+3)) == utf8.RuneError {
			return "", false
		}
		i += 6
	}
	s, ok := text.StringValue()
	return s, ok && utf8.ValidString(s)
}

// hexUnit parses the four digits of an escape; it returns 0 if they are missing.
func hexUnit(text mcp.Raw, at int) rune {
	if at+4 > len(text) {
		return 0
	}
	n, err := strconv.ParseUint(string(text[at:at+4]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}

// exactDigits is the number of decimal digits that every float64 keeps.
const exactDigits = 15

// readNumber returns an int64, uint64 or float64. If none of them is exactly the number, it returns
// a value that fails when it is used.
func readNumber(text string) any {
	if !strings.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			return n
		}
		return types.NewErr("number out of range")
	}
	n, err := strconv.ParseFloat(text, 64)
	mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
	digits := strings.Trim(strings.NewReplacer("-", "", ".", "").Replace(mantissa), "0")
	if err != nil || math.IsInf(n, 0) || len(digits) > exactDigits || n == 0 && digits != "" {
		return types.NewErr("number with more digits than can be compared")
	}
	return n
}

// fold makes upper and lower case of a name the same.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, name)
}
