package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/tailscale/hujson"
)

// member is a member of an object, in the order of the text.
type member struct {
	name  string
	value json.RawMessage
}

// members returns the members of an object; none for another value.
func members(raw json.RawMessage) (all []member) {
	value, _ := hujson.Parse(raw)
	object, ok := value.Value.(*hujson.Object)
	if !ok {
		return nil
	}
	for _, m := range object.Members {
		inside := hujson.Value{Value: m.Value.Value}
		all = append(all, member{m.Name.Value.(hujson.Literal).String(), inside.Pack()})
	}
	return all
}

func find(all []member, name string) json.RawMessage {
	for _, m := range all {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// mostNested bounds how deep objects and lists may stand in each other.
const mostNested = 10000

// inert matches what may have brackets that nest nothing: strings and comments.
var inert = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/`)

// standard removes comments and trailing commas, which editors write, from JSON. Lines stay where they are. The error
// does not show what is in the text.
func standard(text string) (json.RawMessage, error) {
	deep := 0
	for _, c := range inert.ReplaceAllString(text, "") {
		switch c {
		case '{', '[':
			deep++
		case '}', ']':
			deep--
		}
		if deep > mostNested {
			return nil, errors.New("this JSON is nested too deep")
		}
	}
	raw, err := hujson.Standardize([]byte(text))
	if err != nil {
		line := 1
		_, _ = fmt.Sscanf(err.Error(), "hujson: line %d", &line)
		return nil, fmt.Errorf("line %d: this is not JSON", line)
	}
	return raw, nil
}

// readJSON reads the file of any client, with its servers in different places.
func (d *Draft) readJSON(raw json.RawMessage) {
	root := members(raw)
	d.readInputs(find(root, "inputs"))
	known := false
	for _, name := range []string{"mcpServers", "servers", "context_servers", "mcp_servers"} {
		if servers := find(root, name); servers != nil {
			d.readServers(servers)
			known = true
		}
	}
	if inner := members(find(root, "mcp")); inner != nil { // settings.json of VS Code, or opencode
		d.readInputs(find(inner, "inputs"))
		if servers := find(inner, "servers"); servers != nil {
			d.readServers(servers)
		} else {
			d.readServers(find(root, "mcp"))
		}
		known = true
	}
	others := 0
	for _, project := range members(find(root, "projects")) { // of Claude Code
		servers := find(members(project.value), "mcpServers")
		switch {
		case servers == nil:
		case !d.isIn(project.name):
			others += min(1, len(members(servers)))
		default:
			d.readServers(servers)
			known = true
		}
	}
	if others > 0 {
		d.note("", "servers of %d other projects were left out: run this in their directories to take them", others)
	}
	switch {
	case known:
	case isServer(root): // one server, without its name
		d.add(entryOf("", root))
	default: // servers by their names, without what is around them
		for _, m := range root {
			if inner := members(m.value); isServer(inner) {
				d.add(entryOf(m.name, inner))
			}
		}
	}
}

// isIn reports whether the servers of a project are wanted.
func (d *Draft) isIn(project string) bool {
	project = strings.TrimRight(strings.ReplaceAll(project, `\`, "/"), "/")
	return d.dir == "" || d.dir == project || strings.HasPrefix(d.dir, project+"/")
}

func isServer(all []member) bool {
	for _, name := range []string{"command", "url", "serverUrl", "httpUrl"} {
		if find(all, name) != nil {
			return true
		}
	}
	return false
}

func (d *Draft) readServers(raw json.RawMessage) {
	for _, m := range members(raw) {
		if len(m.value) > 0 && m.value[0] == '{' {
			d.add(entryOf(m.name, members(m.value)))
		} else {
			d.note("", "%s: is no object, and was left out", shown(m.name))
		}
	}
}

// readInputs reads the descriptions of values that VS Code asks its user for.
func (d *Draft) readInputs(raw json.RawMessage) {
	var inputs []struct{ ID, Description string }
	if json.Unmarshal(raw, &inputs) != nil {
		return
	}
	d.inputs = make(map[string]string)
	for _, in := range inputs {
		d.inputs[in.ID] = in.Description
	}
}
