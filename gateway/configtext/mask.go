package configtext

import (
	"bytes"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/gatehouse-mcp/gatehouse/internal/redact"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

// Mask replaces a secret.
const Mask = "<secret>"

// ErrNotShown is the error for a text in which secrets cannot be found reliably.
var ErrNotShown = errors.New("it is not valid YAML, so what is secret in it cannot be told: correct it on the machine of the gateway")

// Masked returns a text with Mask in place of each secret that stands in it literally. shape is
// the struct that it is read into: its secrets have a type of their own. References are no
// secrets. Where the text cannot be masked for sure, the error is ErrNotShown.
func Masked(text []byte, shape reflect.Type) (string, error) {
	root, err := parse(text)
	if err != nil {
		return "", ErrNotShown
	}
	starts := lineStarts(text)
	type cut struct{ from, to int }
	var cuts []cut
	var hidden []string
	nodes := flat(root, nil)
	secret := make(map[*yaml.Node]bool)
	masker{text, starts}.find(root, place{shape: shape}, func(n *yaml.Node) { secret[n] = true })
	for i, n := range nodes {
		if !secret[n] {
			continue
		}
		end := len(text)
		if i+1 < len(nodes) && nodes[i+1].Line <= len(starts) {
			end = starts[nodes[i+1].Line-1]
		}
		from, to, ok := span(text, n, starts, end)
		if !ok {
			return "", ErrNotShown
		}
		cuts, hidden = append(cuts, cut{from, to}), append(hidden, n.Value)
	}
	var b bytes.Buffer
	at := 0
	for _, c := range cuts {
		if c.from < at {
			return "", ErrNotShown
		}
		b.Write(text[at:c.from])
		b.WriteString(Mask)
		at = c.to
	}
	b.Write(text[at:])
	masked := maskComments(b.String(), hidden)
	if !masksAll(masked, shape, len(nodes)) {
		return "", ErrNotShown
	}
	return masked, nil
}

// masksAll reports whether a masked text has as many nodes as before, and no secrets. Names of
// anchors, aliases and tags, which no configuration has, may be passwords.
func masksAll(masked string, shape reflect.Type, nodes int) bool {
	root, err := parse([]byte(masked))
	all := flat(root, nil)
	if err != nil || len(all) != nodes || redact.HasToken(masked) {
		return false
	}
	clean := !slices.ContainsFunc(all, func(n *yaml.Node) bool {
		return n.Anchor != "" || n.Kind == yaml.AliasNode || n.Style&yaml.TaggedStyle != 0
	})
	m := masker{[]byte(masked), lineStarts([]byte(masked))}
	m.find(root, place{shape: shape}, func(*yaml.Node) { clean = false })
	return clean
}

func parse(text []byte) (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 { // only comments, or nothing
		return &yaml.Node{Kind: yaml.MappingNode, Line: 1, Column: 1}, nil
	}
	return document.Content[0], nil
}

// flat returns a node and everything in it, in the order of the text.
func flat(n *yaml.Node, all []*yaml.Node) []*yaml.Node {
	if n == nil {
		return all
	}
	all = append(all, n)
	for _, child := range n.Content {
		all = flat(child, all)
	}
	return all
}

// masker finds secrets in a text.
type masker struct {
	text   []byte
	starts []int // of its lines
}

// place describes the position of a node.
type place struct {
	shape reflect.Type // what it is read into, nil if that is not known
	name  string       // the key that it stands under
	named bool         // people give names to what stands there, such as headers
	tag   string       // secret, of the field
}

// find calls found for each scalar that is a secret.
func (m masker) find(n *yaml.Node, at place, found func(*yaml.Node)) {
	for at.shape != nil && at.shape.Kind() == reflect.Pointer {
		at.shape = at.shape.Elem()
	}
	switch n.Kind {
	case yaml.MappingNode:
		fields := keysOf(at.shape)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if SecretValue(key.Value) {
				found(key)
			}
			child := place{name: key.Value}
			switch {
			case at.shape != nil && at.shape.Kind() == reflect.Map:
				child.shape, child.named = at.shape.Elem(), true
			case fields[key.Value] != nil:
				field := at.shape.FieldByIndex(fields[key.Value])
				child.shape, child.tag = field.Type, field.Tag.Get("secret")
			case fields != nil && value.Tag == "!!str" && !isMasked(value) && !hasReference(value): // a misspelt key?
				found(value)
				continue
			}
			m.find(value, child, found)
		}
	case yaml.SequenceNode:
		m.findInList(n, at, found)
	case yaml.ScalarNode:
		if m.isSecret(n, at) {
			found(n)
		}
	}
}

// findInList calls found for each secret in a list, such as the arguments of a program.
func (m masker) findInList(n *yaml.Node, at place, found func(*yaml.Node)) {
	child := place{name: at.name}
	if at.shape != nil && at.shape.Kind() == reflect.Slice {
		child.shape = at.shape.Elem()
	}
	flag := ""
	for _, item := range n.Content {
		name, value, joined := strings.Cut(item.Value, "=")
		isFlag := item.Kind == yaml.ScalarNode && strings.HasPrefix(item.Value, "-")
		switch {
		case item.Kind != yaml.ScalarNode || isMasked(item):
			m.find(item, child, found)
		case !isFlag && SecretName(flag), // --token abc
			isFlag && joined && !m.public(item) && !plainArgument(name, value),
			!isFlag && flag != "" && !m.public(item) && !plainArgument(flag, item.Value):
			found(item)
		default:
			m.find(item, child, found)
		}
		if flag = ""; isFlag && !joined {
			flag = item.Value
		}
	}
}

// public reports whether the line on which a node begins is marked: its literals may be shown.
func (m masker) public(n *yaml.Node) bool {
	if n.Line < 1 || n.Line > len(m.starts) {
		return false
	}
	line, _, _ := bytes.Cut(m.text[m.starts[n.Line-1]:], []byte("\n"))
	return mark.Match(line)
}

func (m masker) isSecret(n *yaml.Node, at place) bool {
	if isMasked(n) || n.Tag == "!!null" {
		return false
	}
	hides := at.shape != nil && at.shape.Implements(reflect.TypeFor[slog.LogValuer]())
	switch {
	case at.tag == tagUser:
		return secretLink(literal(n.Value))
	case SecretValue(literal(n.Value)):
		return true
	case at.tag == tagPath:
		return !plainServer(n.Value) && !m.public(n)
	case hasReference(n):
		return false
	case hides && !at.named: // always a secret
		return true
	case hides && SecretName(at.name), at.shape == nil && SecretName(at.name): // or no key is known for it
		return n.Tag == "!!str"
	case hides:
		return !harmless.MatchString(n.Value) && !m.public(n)
	}
	return false
}

func isMasked(n *yaml.Node) bool { return n.Value == Mask || n.Value == "" }

func hasReference(n *yaml.Node) bool {
	return strings.Contains(strings.ReplaceAll(n.Value, "$${", ""), "${")
}

func keysOf(shape reflect.Type) map[string][]int {
	if shape == nil || shape.Kind() != reflect.Struct {
		return nil
	}
	return strictyaml.Keys(shape)
}

func lineStarts(text []byte) []int {
	starts := []int{0}
	for i, b := range text {
		if b == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// span finds a scalar in the text. end is where the line of the next node begins.
func span(text []byte, n *yaml.Node, starts []int, end int) (from, to int, ok bool) {
	if n.Line < 1 || n.Line > len(starts) {
		return 0, 0, false
	}
	from = starts[n.Line-1]
	for range n.Column - 1 { // columns count characters
		_, size := utf8.DecodeRune(text[from:])
		if from += size; size == 0 {
			return 0, 0, false
		}
	}
	rest := text[from:]
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		if end <= from {
			end = len(text)
		}
		to = from + len(bytes.TrimRight(text[from:end], " \t\r\n"))
		return from, to, true
	case n.Style&yaml.DoubleQuotedStyle != 0:
		return quotedSpan(rest, '"', from)
	case n.Style&yaml.SingleQuotedStyle != 0:
		return quotedSpan(rest, '\'', from)
	}
	return from, from + len(n.Value), bytes.HasPrefix(rest, []byte(n.Value))
}

func quotedSpan(rest []byte, quote byte, from int) (int, int, bool) {
	if len(rest) == 0 || rest[0] != quote {
		return 0, 0, false
	}
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] == '\\' && quote == '"':
			i++
		case rest[i] == quote && quote == '\'' && i+1 < len(rest) && rest[i+1] == quote:
			i++
		case rest[i] == quote:
			return from, from + i + 1, true
		}
	}
	return 0, 0, false
}

// Lengths in bytes from which a secret is masked wherever else it occurs: in comments, and in all
// of the text. Shorter ones may be words.
const (
	leastInComments = 6
	leastAnywhere   = 16
)

// maskComments masks repeated secrets, and secrets of commented-out keys.
func maskComments(text string, hidden []string) string {
	for _, secret := range hidden {
		if len(secret) >= leastAnywhere {
			text = strings.ReplaceAll(text, secret, Mask)
		}
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		before, comment, has := strings.Cut(line, "#")
		if !has || strings.TrimSpace(before) != "" && !strings.HasSuffix(before, " ") {
			b.WriteString(line)
			continue
		}
		for _, secret := range hidden {
			if len(secret) >= leastInComments {
				comment = strings.ReplaceAll(comment, secret, Mask)
			}
		}
		b.WriteString(before + "#" + maskComment(comment))
	}
	return b.String()
}

func maskComment(comment string) string {
	comment = scheme.ReplaceAllString(redact.Tokens(comment, Mask), Mask)
	comment = link.ReplaceAllStringFunc(comment, func(found string) string {
		if secretLink(found) {
			return Mask
		}
		return found
	})
	var b strings.Builder
	done := 0
	for _, at := range assignedSecrets(comment) {
		said := comment[at[0]:at[1]]
		if at[0] < done || strings.Contains(said, Mask) || !isRandom(said) && !strings.ContainsAny(said, "0123456789") {
			continue // a word of a sentence
		}
		b.WriteString(comment[done:at[0]] + Mask)
		done = at[1]
	}
	return b.String() + comment[done:]
}
