package policy

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// hole marks an open place in a URI. It is a character that no text contains, and that no
// spelling of a URI changes.
const hole = "\uffff"

// expand returns what clients make of a URI template (RFC 6570) with these variables, and with
// holes for the others: percent-encoded as the RFC says and, as many clients do, with the values
// unchanged. short says whether to drop expressions for queries, parameters and fragments if all
// their variables are open.
func expand(template string, values map[string]string, short bool) []string {
	var encoded, plain strings.Builder
	for {
		literal, rest, found := strings.Cut(template, "{")
		encoded.WriteString(literal)
		plain.WriteString(literal)
		if !found {
			break
		}
		var expression string
		if expression, template, found = strings.Cut(rest, "}"); !found {
			encoded.WriteString(hole)
			plain.WriteString(hole)
			break
		}
		x := readExpression(expression)
		encoded.WriteString(x.expand(values, short, x.encode))
		plain.WriteString(x.expand(values, short, func(s string) string { return s }))
	}
	if encoded.String() == plain.String() {
		return []string{plain.String()}
	}
	return []string{encoded.String(), plain.String()}
}

// hasVariable reports whether a URI template has a variable.
func hasVariable(template, name string) bool {
	return !slices.Equal(expand(template, map[string]string{name: "x"}, true), expand(template, nil, true))
}

// expression is an expression of a URI template, such as {?from,to}.
type expression struct {
	first, between  string
	named, reserved bool
	variables       []string // with their modifiers
}

func readExpression(text string) expression {
	x := expression{between: ","}
	if text != "" {
		switch operator := text[:1]; operator {
		case "+":
			x = expression{between: ",", reserved: true}
		case "#":
			x = expression{first: "#", between: ",", reserved: true}
		case ".", "/":
			x = expression{first: operator, between: operator}
		case ";", "?", "&":
			x = expression{first: operator, between: operator, named: true}
			if operator == "?" {
				x.between = "&"
			}
		}
		text = strings.TrimLeft(text, "+#./;?&")
	}
	x.variables = strings.Split(text, ",")
	return x
}

// expand expands the expression. The client may leave out an open variable, and with it the
// separator to its neighbours.
func (x expression) expand(values map[string]string, short bool, encode func(string) string) string {
	var parts []string
	for _, variable := range x.variables {
		name, _, _ := strings.Cut(strings.TrimSuffix(variable, "*"), ":")
		value, known := values[name]
		switch {
		case known && x.named:
			parts = append(parts, name+"="+encode(value))
		case known:
			parts = append(parts, encode(shortened(variable, value)))
		case len(parts) == 0 || parts[len(parts)-1] != hole:
			parts = append(parts, hole)
		}
	}
	if len(parts) == 1 && parts[0] == hole {
		switch {
		case !x.named && x.first != "#":
			return hole
		case short:
			return ""
		}
		return x.first + hole
	}
	var out strings.Builder
	for i, part := range parts {
		switch {
		case i == 0:
			out.WriteString(x.first)
		case part != hole && parts[i-1] != hole:
			out.WriteString(x.between)
		}
		out.WriteString(part)
	}
	return out.String()
}

// shortened cuts a value to the length in its variable, such as name:3.
func shortened(variable, value string) string {
	_, length, found := strings.Cut(variable, ":")
	if !found {
		return value
	}
	most := 0
	for _, digit := range length {
		if digit < '0' || digit > '9' || most > len(value) {
			return value
		}
		most = most*10 + int(digit-'0')
	}
	at := 0
	for range most {
		if at == len(value) {
			break
		}
		_, size := utf8.DecodeRuneInString(value[at:])
		at += size
	}
	return value[:at]
}

// encode percent-encodes a value, except for characters that the expression keeps.
func (x expression) encode(value string) string {
	const upper = "0123456789ABCDEF"
	var out strings.Builder
	for i := range len(value) {
		c := value[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~", c) >= 0,
			x.reserved && strings.IndexByte(":/?#[]@!$&'()*+,;=", c) >= 0,
			x.reserved && c == '%' && i+2 < len(value) && hexDigit(value[i+1]) >= 0 && hexDigit(value[i+2]) >= 0:
			out.WriteByte(c)
		default:
			out.WriteByte('%')
			out.WriteByte(upper[c>>4])
			out.WriteByte(upper[c&15])
		}
	}
	return out.String()
}

// spellOpen returns the spellings of a URI with holes, each by itself. There are none if no caller
// may have the URI.
func spellOpen(t mcp.Target) []spelledTarget {
	uri := t.Name
	if t.File != "" {
		uri = t.File
	}
	forms, refused := spellings(uri)
	if refused {
		return nil
	}
	var all []spelledTarget
	for _, form := range forms {
		if strings.Count(form, hole) > strings.Count(uri, hole) {
			return nil // there was an encoded one
		}
		g := globOf(strings.Split(form, hole))
		all = append(all, spelledTarget{target: t, names: []string{t.Name}, template: &g})
	}
	return all
}

// globOf is a glob with a star between the parts. A * inside a part is an ordinary character.
func globOf(parts []string) glob {
	last := len(parts) - 1
	if last == 0 {
		return glob{prefix: parts[0]}
	}
	middle := slices.DeleteFunc(slices.Clone(parts[1:last]), func(part string) bool { return part == "" })
	return glob{star: true, prefix: parts[0], middle: middle, suffix: parts[last]}
}
