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

	"github.com/tailscale/hujson"

	"github.com/gatehouse-mcp/gatehouse/gateway/configtext"
)

// ErrByHand is the error for a file that has its servers in a form in which no entry can be changed without writing
// the rest of the file again.
var ErrByHand = errors.New("its servers are written in a way that only a person can change (--print shows the entry)")

// EntryName matches names that an entry may have: a key in all formats without quotes.
var EntryName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// inTOML reports whether the client's file is in TOML; those of the others are in JSON.
func (c Client) inTOML() bool { return path.Ext(c.File) == ".toml" }

// decode reads a file, an empty one as one without servers, and finds the servers in it. The error does not show what
// is in the file.
func (c Client) decode(text string) (root, servers map[string]any, err error) {
	var raw json.RawMessage
	if c.inTOML() {
		raw, err = jsonOfTOML(text)
	} else {
		raw, err = standard(text)
	}
	if err != nil {
		return nil, nil, err
	}
	if json.Unmarshal(raw, &root) != nil || root == nil {
		return nil, nil, errors.New("it is no object of JSON")
	}
	servers, ok := root[c.Key].(map[string]any)
	if !ok && root[c.Key] != nil {
		return nil, nil, fmt.Errorf("%s is not an object with servers", c.Key)
	}
	if !ok {
		servers = map[string]any{}
		root[c.Key] = servers
	}
	return root, servers, nil
}

// encoded returns a value of JSON in its one form for comparisons.
func encoded(v any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // it comes from JSON
	return strings.TrimSuffix(b.String(), "\n")
}

// Get returns the entry of a name in a file, in JSON; "" for none.
func (c Client) Get(text, name string) (entry string, err error) {
	_, _, text = c.layout(text)
	_, servers, err := c.decode(text)
	if err != nil || servers[name] == nil {
		return "", err
	}
	return encoded(servers[name]), nil
}

// Set returns the text of a file with an entry, in JSON, in place of the one of its name or as a further one. With ""
// it takes that out. All else stays as it is written, comments too. The error is ErrByHand, or that of a file
// that is not of the client's format.
func (c Client) Set(text, name, entry string) (string, error) {
	mark, windows, edited := c.layout(text)
	want, servers, err := c.decode(edited)
	if err != nil {
		return "", err
	}
	var goal any
	if err := json.Unmarshal([]byte(cmp.Or(entry, "null")), &goal); err != nil {
		return "", err
	}
	was, is := encoded(servers[name]), encoded(goal)
	if was == is {
		return text, nil
	}
	servers[name] = goal
	if goal == nil {
		delete(servers, name)
		is = ""
	}
	if c.inTOML() {
		edited = editTOML(edited, c.Key, name, was, is)
	} else {
		edited = editJSON(edited, c.Key, name, is)
	}
	// It reads its own work: only this entry may differ.
	if got, _, err := c.decode(edited); err != nil || encoded(got) != encoded(want) {
		return "", ErrByHand
	}
	if windows {
		edited = strings.ReplaceAll(edited, "\n", "\r\n")
	}
	return mark + edited, nil
}

// layout returns the byte order mark of a text, whether all its lines end as on Windows, and the rest with lines of
// Unix. One of white space and comments has an empty object there.
func (c Client) layout(text string) (mark string, windows bool, rest string) {
	rest, marked := strings.CutPrefix(text, "\ufeff")
	if marked {
		mark = "\ufeff"
	}
	if windows = strings.Contains(rest, "\n") && strings.Count(rest, "\n") == strings.Count(rest, "\r\n"); windows {
		rest = strings.ReplaceAll(rest, "\r\n", "\n")
	}
	if !c.inTOML() && strings.TrimSpace(inert.ReplaceAllString(rest, "")) == "" {
		rest = ended(rest) + "{}\n"
	}
	return mark, windows, rest
}

// editJSON edits JSON with comments that decode has read. Where it cannot, it returns something else than is wanted.
func editJSON(text, key, name, entry string) string {
	file, _ := hujson.Parse([]byte(text))
	root := file.Value.(*hujson.Object)
	unit := indentation(root, "  ")
	if file.Find("/"+key) == nil {
		addMember(root, key, &hujson.Object{}, "\n"+unit, "\n")
	}
	found := file.Find("/" + key)
	servers, ok := found.Value.(*hujson.Object)
	if !ok { // null, or there are several of the key
		servers = &hujson.Object{}
		found.Value = servers
	}
	old := file.Find("/" + key + "/" + name)
	switch {
	case old == nil && entry == "":
	case old == nil:
		addMember(servers, name, hujson.Literal(entry), "\n"+indentation(servers, unit+unit), "\n"+unit)
	case entry == "":
		removeMember(servers, name)
	default:
		old.Value = hujson.Literal(entry)
	}
	return file.String()
}

// indentation returns what stands in front of an object's members on their lines.
func indentation(o *hujson.Object, otherwise string) string {
	if len(o.Members) > 0 {
		before := string(o.Members[0].Name.BeforeExtra)
		if at := strings.LastIndexByte(before, '\n'); at >= 0 && strings.TrimSpace(before[at:]) == "" {
			return before[at+1:]
		}
	}
	return otherwise
}

// addMember adds a member at the beginning of an object, on a line of its own.
func addMember(o *hujson.Object, name string, value hujson.ValueTrimmed, line, outer string) {
	if len(o.Members) == 0 && !bytes.Contains(o.AfterExtra, []byte("\n")) {
		o.AfterExtra = slices.Concat(o.AfterExtra, []byte(outer))
	}
	o.Members = slices.Insert(o.Members, 0, hujson.ObjectMember{
		Name:  hujson.Value{BeforeExtra: hujson.Extra(line), Value: hujson.String(name)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: value},
	})
}

// removeMember removes a member that is there, but not the comments around it.
func removeMember(o *hujson.Object, name string) {
	at := slices.IndexFunc(o.Members, func(m hujson.ObjectMember) bool {
		return m.Name.Value.(hujson.Literal).String() == name
	})
	around := bytes.TrimRight(o.Members[at].Name.BeforeExtra, " \t\r\n")
	o.Members = slices.Delete(o.Members, at, at+1)
	next := &o.AfterExtra
	if at < len(o.Members) {
		next = &o.Members[at].Name.BeforeExtra
	} else if at > 0 { // the one before is the last now, without a comma
		last := &o.Members[at-1].Value
		around = slices.Concat(last.AfterExtra, around)
		last.AfterExtra = nil
	}
	*next = slices.Concat(around, *next)
}

// editTOML adds the table of an entry at the end, and takes out what it has added before. Where it cannot, it returns
// something else than is wanted.
func editTOML(text, key, name, was, entry string) string {
	if regexp.MustCompile(`(?m)^[ \t]*["']?` + key + `["']?[ \t]*(\.[^=\n]*)?=`).MatchString(text) {
		return text // a table cannot stand beside an inline one or dotted keys
	}
	table := func(entry string) string {
		lines := "[" + key + "." + name + "]\n"
		for _, m := range members(json.RawMessage(entry)) {
			lines += m.name + " = " + string(m.value) + "\n"
		}
		return lines
	}
	if at := strings.Index("\n"+text, "\n"+table(was)); at >= 0 && was != "null" {
		text = text[:at] + text[at+len(table(was)):]
	}
	if entry == "" {
		return text
	}
	text = ended(text)
	if text != "" && !strings.HasSuffix(text, "\n\n") {
		text += "\n"
	}
	return text + table(entry)
}

// ended returns a text with an end of its last line.
func ended(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// assigned matches a value with its name in a line of JSON or TOML, and values alone.
var assigned = regexp.MustCompile(`(?:("[\w.-]+"|'[\w.-]+'|[\w.-]+)\s*[:=]\s*)?` +
	`("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'{}\[\],][^"'{}\[\],\n]*)`)

// Diff returns the lines that differ between two texts of a file, in the unified form. A line ends where a secret
// begins.
func Diff(before, after string) string {
	var b strings.Builder
	of, option := "", "" // the sign and the end of the line before
	for line := range strings.Lines(configtext.Diff(before, after)) {
		sign := line[:1]
		if line = line[1:]; sign == " " { // other servers have secrets that no rule knows
			continue
		}
		if sign != of {
			of, option = sign, ""
		}
		for _, found := range assigned.FindAllStringSubmatchIndex(line, -1) {
			value := strings.Trim(line[found[4]:found[5]], `"'`)
			name := option
			if found[2] >= 0 {
				name = line[found[2]:found[3]]
			}
			option = ""
			if configtext.SecretName(strings.Trim(name, `"'`)) || configtext.SecretValue(value) {
				line = line[:found[4]] + configtext.Mask + "\n"
				break
			}
			if strings.HasPrefix(value, "-") { // its argument comes next
				option = value
			}
		}
		b.WriteString(sign + line)
	}
	return b.String()
}
