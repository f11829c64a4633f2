package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

func (d *Document) empty() placed {
	return placed{position{line: 1, column: 1}, "", "the file is empty: it needs at least " + d.src.Least}
}

// parse parses the text as exactly one YAML document with a mapping as its root. root is nil when
// it cannot be used at all; faults then says why.
func (d *Document) parse() (root *yaml.Node, faults []placed) {
	data := d.src.Data
	if f, bad := badText(data); bad {
		return nil, []placed{f}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, []placed{d.empty()}
	} else if err != nil {
		return nil, []placed{syntaxFault(err, data)}
	}
	var second yaml.Node
	if err := decoder.Decode(&second); err == nil {
		faults = append(faults, placed{placeOf(&second), "",
			"a second document begins here: a configuration is exactly one"})
	} else if !errors.Is(err, io.EOF) {
		faults = append(faults, syntaxFault(err, data))
	}
	if len(document.Content) != 1 {
		return nil, append(faults, d.empty())
	}
	root = document.Content[0]
	faults = append(faults, checkNode(root, "")...)
	if isNull(root) {
		return nil, append(faults, d.empty())
	}
	if root.Kind != yaml.MappingNode {
		return nil, append(faults, placed{placeOf(root), "",
			"the file has to consist of keys and their values, such as " + d.src.Example})
	}
	return root, faults
}

// badText finds what the YAML parser would refuse without telling where.
func badText(data []byte) (placed, bool) {
	line, column := 1, 1
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return placed{position{line: line, column: column}, "", "not UTF-8 text"}, true
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r >= 0x7f && r < 0xa0 && r != 0x85:
			return placed{position{line: line, column: column}, "", fmt.Sprintf("control character %#U", r)}, true
		}
		i += size
		column++
		if r == '\n' {
			line, column = line+1, 1
		}
	}
	return placed{}, false
}

var (
	yamlErrorLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?((?s).*)$`)
	unknownAlias  = regexp.MustCompile(`unknown anchor '(.*)' referenced`)
)

// syntaxFault turns the parser's error into a fault. It leaves out the name of an unknown
// alias, which may be a password that begins with *.
func syntaxFault(err error, data []byte) placed {
	m := yamlErrorLine.FindStringSubmatch(err.Error())
	f := placed{position: position{line: 1, column: 1}, message: "not valid YAML: " + m[2]}
	if line, err := strconv.Atoi(m[1]); err == nil && line > 0 {
		f.line = line
	}
	if strings.Contains(m[2], "did not find expected") {
		f.line = breakingLine(err, data, f.line)
	}
	switch alias := unknownAlias.FindStringSubmatch(m[2]); {
	case alias != nil:
		before, _, _ := bytes.Cut(data, []byte("*"+alias[1]))
		f.line = 1 + bytes.Count(before, []byte("\n"))
		f.message = "aliases (*name) are not supported; text that begins with * needs quotes"
	case strings.Contains(m[2], "cannot start any token"):
		f.message += " (tabs cannot indent; text that begins with @, ` or % needs quotes)"
	}
	return f
}

// breakingLine returns the line that causes the parser's error: for a wrong indentation the
// parser names the line where the list or mapping begins. It is the first line without which
// the text before it parses.
func breakingLine(fault error, data []byte, from int) int {
	var ends []int // of lines, in bytes
	for i, b := range data {
		if b == '\n' || i == len(data)-1 {
			ends = append(ends, i+1)
		}
	}
	message := yamlErrorLine.FindStringSubmatch(fault.Error())[2]
	n := sort.Search(len(ends), func(i int) bool {
		var document yaml.Node
		err := yaml.Unmarshal(data[:ends[i]], &document)
		return err != nil && strings.HasSuffix(err.Error(), message)
	})
	return max(from, min(n+1, len(ends)))
}

// checkNode refuses what makes a YAML document mean more than it shows: aliases, anchors,
// merge keys, explicit tags, keys that are not text, and duplicate keys.
func checkNode(n *yaml.Node, address string) []placed {
	var faults []placed
	say := func(at *yaml.Node, format string, args ...any) {
		faults = append(faults, placed{placeOf(at), address, fmt.Sprintf(format, args...)})
	}
	switch {
	case n.Kind == yaml.AliasNode:
		say(n, "aliases (*name) are not supported; text that begins with * needs quotes")
	case n.Anchor != "":
		say(n, "anchors (&name) are not supported; text that begins with & needs quotes")
	case n.Style&yaml.TaggedStyle != 0:
		say(n, "tags (!name) are not supported; text that begins with ! needs quotes")
	}
	if n.Kind == yaml.SequenceNode {
		for i, child := range n.Content {
			faults = append(faults, checkNode(child, element(address, i))...)
		}
	}
	if n.Kind != yaml.MappingNode {
		return faults
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		line, twice := first[key.Value]
		switch {
		case key.Kind == yaml.AliasNode || key.Anchor != "" || key.Style&yaml.TaggedStyle != 0:
			faults = append(faults, checkNode(key, address)...)
		case key.Kind != yaml.ScalarNode:
			say(key, "a key has to be text")
		case key.Tag == "!!merge":
			say(key, "merge keys (<<) are not supported; write the keys out")
		case twice:
			say(key, "key %s is given twice, in lines %d and %d", shownKey(key.Value), line, key.Line)
		default:
			first[key.Value] = key.Line
		}
		faults = append(faults, checkNode(value, join(address, strings.Trim(shownKey(key.Value), `"`)))...)
	}
	return faults
}

// isKey reports whether checkNode takes n as a key.
func isKey(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag != "!!merge"
}

// isNull reports whether n is empty: no value, ~ or null.
func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag == "!!null"
}

// join returns the address of a key of the mapping at address.
func join(address, key string) string {
	if address == "" {
		return key
	}
	return address + "." + key
}

// element returns the address of an element of the list at address.
func element(address string, i int) string {
	return fmt.Sprintf("%s[%d]", address, i)
}
