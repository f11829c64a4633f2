package setup

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// head is the text in front of the servers.
const head = `# docs/configuration.md says how this file is read, and config.example.yaml has every key.
# "gatehouse check --config FILE --connect" says what is wrong with it, and tries each server.

# Clients connect to http://127.0.0.1:8080/mcp. Nobody signs in: only this machine reaches it.
listen: 127.0.0.1:8080
auth: {mode: none}

# What happens: http://127.0.0.1:9090/console/, and "gatehouse calls --config FILE". All users of this
# machine may open the console.
admin:
  listen: 127.0.0.1:9090
  console: {loopback: operator}
  api: {loopback: viewer}
`

// Config returns the text of a whole configuration.
func (d *Draft) Config() (string, error) {
	var b strings.Builder
	b.WriteString(head)
	if len(d.Variables) > 0 {
		b.WriteString("\n# The environment of Gatehouse has to have these:\n")
		for _, v := range d.Variables {
			fmt.Fprintf(&b, "#   %s  (%s)\n", v.Name, shown(v.For))
		}
	}
	list, err := d.Upstreams()
	b.WriteString("\nupstreams:\n" + list)
	return b.String(), err
}

// bare matches values that need no quotes in a file of variables.
var bare = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,=-]+$`)

// Environment returns the text of a file of variables, as shells and systemd read it, with the values that
// the clients' files have.
func (d *Draft) Environment() string {
	var b strings.Builder
	b.WriteString("# Secrets for Gatehouse: keep this file to yourself.\n")
	for _, v := range d.Variables {
		value := v.value
		switch {
		case value == "":
			fmt.Fprintf(&b, "# %s=   # %s\n", v.Name, shown(v.For))
			continue
		case bare.MatchString(value):
		case !strings.Contains(value, "'"):
			value = "'" + value + "'"
		default:
			value = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(value) + `"`
		}
		fmt.Fprintf(&b, "%s=%s\n", v.Name, value)
	}
	return b.String()
}

// Upstreams returns the servers alone, as items of the list "upstreams".
func (d *Draft) Upstreams() (string, error) {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, s := range d.Servers {
		list.Content = append(list.Content, s.node())
	}
	var b strings.Builder
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	err := errors.Join(encoder.Encode(map[string]*yaml.Node{"upstreams": list}), encoder.Close())
	return strings.TrimPrefix(b.String(), "upstreams:\n"), err
}

func (s Server) node() *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	add := func(key string, value *yaml.Node) {
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
	}
	add("name", scalar(s.Name))
	if s.URL != "" {
		add("url", scalar(s.URL))
	}
	if len(s.Headers) > 0 {
		add("headers", mapping(s.Headers))
	}
	if len(s.Command) > 0 {
		list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, arg := range s.Command {
			list.Content = append(list.Content, scalar(arg))
		}
		add("command", list)
	}
	if len(s.Env) > 0 {
		add("env", mapping(s.Env))
	}
	if s.Dir != "" {
		add("dir", scalar(s.Dir))
	}
	if s.OAuth {
		add("auth", mapping([]Pair{{"type", "user_oauth"}}))
	}
	if s.Off {
		add("enabled", &yaml.Node{Kind: yaml.ScalarNode, Value: "false"})
	}
	return n
}

func mapping(pairs []Pair) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, p := range pairs {
		n.Content = append(n.Content, scalar(p.Name), scalar(p.Value))
	}
	return n
}

// scalar writes a text so that no parser reads it as something else. Invisible characters are
// written with escapes.
func scalar(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if text == "" || strings.ContainsAny(text, "${}\"'\\#:,[]\n") || shown(text) != text {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
