package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Bounds of a frontmatter: in bytes, in values, and of how deep they nest.
const (
	maxFrontmatter       = 64 << 10
	maxFrontmatterValues = 2000
	maxFrontmatterDepth  = 8
)

// Limits of the agentskills format, in characters.
const (
	maxSkillName     = 64
	maxDescription   = 1024
	maxCompatibility = 500
)

// skillName is ASCII alone: names are shown to models and compared by people.
var skillName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// skillText is a SKILL.md.
type skillText struct {
	frontmatter mcp.Raw // an object, its members in the order of the file
	name        string
	description string
	body        string // what follows the frontmatter
}

// readSkill reads a SKILL.md: frontmatter between two lines of three dashes, then
// Markdown (agentskills specification). Fields that the format does not know stay: the
// extension wants the frontmatter verbatim. Errors quote nothing but names of fields.
func readSkill(text []byte) (s skillText, err error) {
	if !utf8.Valid(text) {
		return s, errors.New("it is not UTF-8")
	}
	head, body, err := splitSkill(text)
	if err != nil {
		return s, err
	}
	s.body = string(body)
	if s.frontmatter, err = readFrontmatter(head); err != nil {
		return s, err
	}
	return s, s.check()
}

// splitSkill divides a SKILL.md.
func splitSkill(text []byte) (head, body []byte, err error) {
	line := func(text []byte) (line, rest []byte) {
		line, rest, _ = bytes.Cut(text, []byte{'\n'})
		return bytes.TrimSuffix(line, []byte{'\r'}), rest
	}
	first, rest := line(bytes.TrimPrefix(text, []byte("\ufeff")))
	if string(first) != "---" {
		return nil, nil, errors.New("it does not begin with a line of three dashes")
	}
	start := rest
	for len(rest) > 0 {
		if len(start)-len(rest) > maxFrontmatter {
			return nil, nil, fmt.Errorf("its frontmatter has more than %d bytes", maxFrontmatter)
		}
		at := len(start) - len(rest)
		var l []byte
		if l, rest = line(rest); string(l) == "---" {
			return start[:at], rest, nil
		}
	}
	return nil, nil, errors.New("its frontmatter does not end with a line of three dashes")
}

// readFrontmatter makes JSON of YAML. What YAML can do beyond that, and what two readers
// could read in two ways, is refused: aliases, anchors, tags, merges, several documents,
// keys that stand twice or are no strings.
func readFrontmatter(head []byte) (object mcp.Raw, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(head))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, errors.New("its frontmatter is not YAML" + lineOf(err))
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("its frontmatter is more than one document")
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("its frontmatter is no mapping")
	}
	w := frontmatterWriter{left: maxFrontmatterValues}
	return w.append(nil, document.Content[0], 1)
}

var yamlLine = regexp.MustCompile(`line \d+`)

// lineOf is where in the file an error of the parser is; what else it says may quote it.
func lineOf(err error) string {
	at := yamlLine.FindString(err.Error())
	if at == "" {
		return ""
	}
	n, err := strconv.Atoi(at[len("line "):])
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (line %d of the file)", n+1) // the first one is that of the dashes
}

type frontmatterWriter struct{ left int }

func (w *frontmatterWriter) append(dst mcp.Raw, n *yaml.Node, depth int) (mcp.Raw, error) {
	fail := func(why string) (mcp.Raw, error) {
		return nil, fmt.Errorf("its frontmatter %s (line %d of the file)", why, n.Line+1)
	}
	if w.left--; w.left < 0 {
		return fail(fmt.Sprintf("has more than %d values", maxFrontmatterValues))
	}
	switch {
	case depth > maxFrontmatterDepth:
		return fail("nests too deep")
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return fail("has an anchor or alias")
	case n.Style&yaml.TaggedStyle != 0:
		return fail("has a tag")
	}
	switch n.Kind {
	case yaml.MappingNode:
		dst = append(dst, '{')
		seen := make(map[string]bool)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode || !isText(key) || isPlain(key) && key.Value == "<<" || key.Anchor != "" || key.Style&yaml.TaggedStyle != 0 {
				return fail("has a key that is no plain text")
			}
			if seen[key.Value] {
				return fail("has a key twice")
			}
			seen[key.Value] = true
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(mcp.AppendString(dst, key.Value), ':')
			var err error
			if dst, err = w.append(dst, n.Content[i+1], depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for i, element := range n.Content {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = w.append(dst, element, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case yaml.ScalarNode:
		return appendScalar(dst, n)
	}
	return fail("has something that JSON has not")
}

// check checks the fields that the format knows.
func (s *skillText) check() error {
	text := func(field string, least, most int) (string, error) {
		value, ok := s.frontmatter.Member(field)
		if !ok {
			if least > 0 {
				return "", fmt.Errorf("its frontmatter has no %s", field)
			}
			return "", nil
		}
		t, isText := value.StringValue()
		switch n := utf8.RuneCountInString(strings.TrimSpace(t)); {
		case !isText:
			return "", fmt.Errorf("%s is no text", field)
		case n == 0:
			return "", fmt.Errorf("%s is empty", field)
		case utf8.RuneCountInString(t) > most:
			return "", fmt.Errorf("%s has more than %d characters", field, most)
		}
		return t, nil
	}
	var err error
	if s.name, err = text("name", 1, maxSkillName); err != nil {
		return err
	}
	if !skillName.MatchString(s.name) {
		return errors.New("name: want lower-case letters, digits and single '-' between them")
	}
	if s.description, err = text("description", 1, maxDescription); err != nil {
		return err
	}
	if _, err = text("compatibility", 0, maxCompatibility); err != nil {
		return err
	}
	for _, field := range []string{"license", "allowed-tools"} {
		if _, err = text(field, 0, maxFrontmatter); err != nil {
			return err
		}
	}
	metadata, ok := s.frontmatter.Member("metadata")
	if !ok || metadata.IsNull() {
		return nil
	}
	if !metadata.IsObject() {
		return errors.New("metadata is no mapping")
	}
	metadata.Members(func(_ []byte, value mcp.Raw) bool {
		if value.IsObject() || value.IsArray() {
			err = errors.New("metadata has a value that is no text")
		}
		return err == nil
	})
	return err
}
