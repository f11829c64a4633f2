package setup

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/tailscale/hujson"
	"gopkg.in/yaml.v3"

	"github.com/gatehouse-mcp/gatehouse/gateway/configtext"
)

// ErrByHand is the error for a file that has its servers in a form in which no entry can be changed without writing
// the rest of the file again.
var ErrByHand = errors.New("its servers are written in a way that only a person can change")

// EntryName matches names that an entry may have: a key in all formats without quotes.
var EntryName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// decode reads a file, an empty one as one without servers. The error does not show what is in the file.
func (c Client) decode(text string) (root, servers map[string]any, err error) {
	switch path.Ext(c.File) {
	case ".toml":
		_, err = toml.Decode(text, &root)
		if at, ok := errors.AsType[toml.ParseError](err); ok {
			err = fmt.Errorf("line %d is not TOML", at.Position.Line)
		}
	case ".yaml":
		err = yaml.Unmarshal([]byte(text), &root)
	default:
		var raw json.RawMessage
		if raw, err = standard(cmp.Or(strings.TrimSpace(text), "{}")); err == nil {
			err = json.Unmarshal(raw, &root)
		}
	}
	if root == nil {
		root = map[string]any{}
	}
	servers, ok := root[c.Key].(map[string]any)
	if !ok && root[c.Key] != nil && err == nil {
		err = fmt.Errorf("%s is not an object with servers", c.Key)
	}
	if servers == nil {
		servers = map[string]any{}
		root[c.Key] = servers
	}
	return root, servers, err
}

// Get returns the entry of a name in a file, in JSON; "" for none.
func (c Client) Get(text, name string) (entry string, err error) {
	_, servers, err := c.decode(text)
	if err != nil || servers[name] == nil {
		return "", err
	}
	raw, err := json.Marshal(servers[name])
	return string(raw), err
}

// Canonical returns an entry as Get does.
func Canonical(entry string) string {
	var v any
	if json.Unmarshal([]byte(entry), &v) != nil {
		return ""
	}
	raw, _ := json.Marshal(v) // it comes from JSON
	return string(raw)
}

// Set returns the text of a file with an entry, in JSON, in place of the one of its name or as a further one. With ""
// it takes that out. All else stays as it is written, comments too. The error is ErrByHand, or that of a file
// that is not of the client's format.
func (c Client) Set(text, name, entry string) (string, error) {
	want, servers, err := c.decode(text)
	if err != nil {
		return "", err
	}
	edited := ""
	switch path.Ext(c.File) {
	case ".toml":
		edited = editTOML(text, c.Key, name, members(json.RawMessage(entry)))
	case ".yaml":
		edited = editYAML(text, c.Key, name, members(json.RawMessage(entry)))
	default:
		edited = editJSON(cmp.Or(text, "{}\n"), c.Key, name, entry)
	}
	delete(servers, name)
	if entry != "" {
		servers[name] = json.RawMessage(Canonical(entry))
	}
	// It reads its own work: only this entry may differ.
	is, _, err := c.decode(edited)
	wanted, errWanted := json.Marshal(want)
	got, errGot := json.Marshal(is)
	if errors.Join(err, errWanted, errGot) != nil || !bytes.Equal(wanted, got) {
		return "", ErrByHand
	}
	return edited, nil
}

// newline returns the end of a text's lines.
func newline(text string) string {
	if strings.Contains(text, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// editJSON edits JSON with comments. It returns the text as it is where that is not possible.
func editJSON(text, key, name, entry string) string {
	root, err := hujson.Parse([]byte(text))
	if err != nil || root.Value.Kind() != '{' {
		return text
	}
	unit := indentation(text, root, "  ")
	servers := root.Find("/" + key)
	if servers == nil {
		if entry == "" {
			return text
		}
		return editJSON(addMember(text, root, key, "{}", unit, ""), key, name, entry)
	}
	if servers.Value.Kind() != '{' {
		return text
	}
	indent := indentation(text, *servers, unit+unit)
	var b bytes.Buffer
	if json.Indent(&b, []byte(entry), indent, unit) == nil {
		entry = strings.ReplaceAll(b.String(), "\n", newline(text))
	}
	switch old := servers.Find("/" + name); {
	case old == nil && entry != "":
		return addMember(text, *servers, name, entry, indent, strings.TrimSuffix(indent, unit))
	case old != nil && entry != "":
		return text[:old.StartOffset] + entry + text[old.EndOffset:]
	}
	return removeMember(text, servers.Value.(*hujson.Object), name)
}

// indentation returns what stands in front of an object's members on their lines.
func indentation(text string, v hujson.Value, otherwise string) string {
	if o := v.Value.(*hujson.Object); len(o.Members) > 0 {
		before := text[:o.Members[0].Name.StartOffset]
		if line := strings.TrimRight(before, " \t"); strings.HasSuffix(line, "\n") {
			return before[len(line):]
		}
	}
	return otherwise
}

// addMember adds a member at the beginning of an object, on lines of its own: no other line changes.
func addMember(text string, v hujson.Value, name, value, indent, outer string) string {
	o, nl, at := v.Value.(*hujson.Object), newline(text), v.StartOffset+1
	added := nl + indent + `"` + name + `": ` + value
	if len(o.Members) > 0 {
		added += ","
	} else if !bytes.Contains(o.AfterExtra, []byte("\n")) {
		added += nl + outer
	}
	return text[:at] + added + text[at:]
}

// removeMember removes a member, but not the comments around it.
func removeMember(text string, o *hujson.Object, name string) string {
	at := slices.IndexFunc(o.Members, func(m hujson.ObjectMember) bool {
		return m.Name.Value.(hujson.Literal).String() == name
	})
	if at < 0 {
		return text
	}
	gone := o.Members[at]
	before, after := strings.TrimRight(text[:gone.Name.StartOffset], " \t\r\n"), text[gone.Value.EndOffset:]
	if at < len(o.Members)-1 || gone.Value.AfterExtra != nil {
		after = after[len(gone.Value.AfterExtra)+1:] // with its comma
	} else if at > 0 {
		comma := o.Members[at-1].Value.EndOffset + len(o.Members[at-1].Value.AfterExtra)
		before = before[:comma] + before[comma+1:]
	}
	return before + after
}

// cut removes the first line that matches, and what stands inside of it. Comments at the end belong to what follows.
func cut(lines []string, own *regexp.Regexp, inside func(first, line string) bool) []string {
	start := slices.IndexFunc(lines, own.MatchString)
	if start < 0 {
		return lines
	}
	end := start + 1
	for end < len(lines) && inside(lines[start], lines[end]) {
		end++
	}
	for end > start+1 && (strings.TrimSpace(lines[end-1]) == "" || strings.HasPrefix(lines[end-1], "#")) {
		end--
	}
	return slices.Delete(lines, start, end)
}

// editTOML replaces the table of an entry, and those in it, by one at the end.
func editTOML(text, key, name string, entry []member) string {
	if regexp.MustCompile(`(?m)^[ \t]*["']?` + key + `["']?[ \t]*(\.[^=\n]*)?=`).MatchString(text) {
		return "" // a table cannot stand beside an inline one or dotted keys
	}
	own := regexp.MustCompile(`^\s*\[\s*["']?` + key + `["']?\s*\.\s*["']?` + name + `["']?\s*[.\]]`)
	lines := cut(slices.Collect(strings.Lines(text)), own, func(_, line string) bool {
		return !strings.HasPrefix(line, "[") || own.MatchString(line)
	})
	nl, edited := newline(text), strings.Join(lines, "")
	if edited != text || len(entry) > 0 { // an empty line stands in front of the table
		edited = strings.TrimRight(edited, "\r\n") + nl
	}
	if len(entry) == 0 {
		return edited
	}
	edited = strings.TrimPrefix(edited+nl, nl+nl) + "[" + key + "." + name + "]" + nl
	for _, m := range entry {
		edited += m.name + " = " + string(m.value) + nl
	}
	return edited
}

// editYAML replaces an entry in a mapping by one at its beginning.
func editYAML(text, key, name string, entry []member) string {
	indent := func(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " "))] }
	lines := cut(slices.Collect(strings.Lines(text)), regexp.MustCompile("^ +"+name+":"), func(first, line string) bool {
		return strings.TrimSpace(line) == "" || len(indent(line)) > len(indent(first))
	})
	nl, step := newline(text), "  "
	at := 1 + slices.IndexFunc(lines, func(line string) bool { return strings.TrimRight(line, " \r\n") == key+":" })
	if at > 0 && at < len(lines) && strings.HasPrefix(lines[at], " ") {
		step = indent(lines[at])
	} else if at > 0 && len(entry) == 0 { // a mapping without entries has no key
		lines = slices.Delete(lines, at-1, at)
	}
	if len(entry) == 0 {
		return strings.Join(lines, "")
	}
	block := []string{step + name + ":" + nl}
	for _, m := range entry {
		block = append(block, step+"  "+m.name+": "+string(m.value)+nl)
	}
	if at == 0 {
		edited := strings.TrimRight(text, "\r\n") + nl + key + ":" + nl + strings.Join(block, "")
		return strings.TrimPrefix(edited, nl)
	}
	return strings.Join(slices.Insert(lines, at, block...), "")
}

// assigned matches a value with its name in a line of JSON, TOML or YAML, and values alone.
var assigned = regexp.MustCompile(
	`(?:["']?([\w.-]+)["']?\s*[:=]\s*)?("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'{}\[\],][^"'{}\[\],\n]*)`)

// Diff returns the difference between two texts of a file, in the unified form. A line ends where a secret begins.
func Diff(before, after string) string {
	var b strings.Builder
	for line := range strings.Lines(configtext.Diff(before, after)) {
		for _, at := range assigned.FindAllStringSubmatchIndex(line, -1) {
			name := line[max(at[2], 0):max(at[3], 0)]
			if configtext.SecretName(name) || strings.EqualFold(name, "Authorization") ||
				configtext.SecretValue(strings.Trim(line[at[4]:at[5]], `"'`)) {
				line = line[:at[4]] + configtext.Mask + "\n"
				break
			}
		}
		b.WriteString(line)
	}
	return b.String()
}
