package fit

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// maxDepth bounds the nesting of an item: some parsers refuse more than 200 levels, with the list around it.
const maxDepth = 190

// parsable makes a definition fit for every parser. RFC 8259 sets no bounds on depth and numbers, but
// parsers do, and some refuse a text that ends within an emoji.
func parsable(item mcp.Raw) (mcp.Raw, error) {
	depth := 0
	for i := 0; i < len(item); i++ {
		switch c := item[i]; {
		case c == '"':
			i = endOfText(item, i)
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return nil, errors.New("is nested deeper than every client can read")
			}
		case c == '}' || c == ']':
			depth--
		case c == '-' || c >= '0' && c <= '9':
			number := item[i:]
			if end := bytes.IndexAny(number, ",]} \t\r\n"); end >= 0 {
				number = number[:end]
			}
			if _, err := strconv.ParseFloat(string(number), 64); err != nil {
				return nil, errors.New("has a number that is larger than every client can read")
			}
			i += len(number) - 1
		}
	}
	return wire.WholeText(item), nil
}

// endOfText returns the index of the quotation mark that ends the string that begins at i.
func endOfText(item mcp.Raw, i int) int {
	for i++; i < len(item) && item[i] != '"'; i++ {
		if item[i] == '\\' {
			i++
		}
	}
	return i
}
