package setup

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/pin"
)

// entry is one server as a client has it.
type entry struct {
	name    string
	url     string
	command []string
	env     []Pair
	headers []Pair
	dir     string
	off     bool
	oauth   bool // its user signs in there
	notes   []string
}

// Members of an entry that a gateway does not need, and those that it has another place for.
var (
	silent = []string{"type", "transport", "transportType", "name", "description", "title", "version", "source", "gallery",
		"icon", "iconUrl", "tags"}
	told = map[string]string{
		"alwaysAllow":   "policy decides what needs no question (docs/policy.md)",
		"autoApprove":   "policy decides what needs no question (docs/policy.md)",
		"trust":         "policy decides what needs no question (docs/policy.md)",
		"autoAllow":     "policy decides what needs no question (docs/policy.md)",
		"disabledTools": "policy and views decide what is shown", "includeTools": "policy and views decide what is shown",
		"excludeTools": "policy and views decide what is shown", "tools": "policy and views decide what is shown",
		"enabled_tools": "policy and views decide what is shown", "disabled_tools": "policy and views decide what is shown",
		"timeout": "the gateway's own are in timeout", "startup_timeout_sec": "the gateway's own are in timeout",
		"startup_timeout_ms": "the gateway's own are in timeout", "tool_timeout_sec": "the gateway's own are in timeout",
		"oauth": "the gateway's own credentials are in auth", "auth": "the gateway's own credentials are in auth",
		"envFile": "write its variables into env, or set them for the gateway",
	}
)

// entryOf reads the members of an entry.
func entryOf(name string, all []member) entry {
	e := entry{name: name}
	for _, m := range slices.Concat(all, members(find(all, "transport"))) { // Cline has some in there
		switch m.name {
		case "command":
			e.command = append(program(m.value), e.command...)
		case "args":
			e.command = append(e.command, texts(m.value)...)
		case "env", "environment":
			e.env = append(e.env, pairs(m.value)...)
		case "url", "serverUrl", "httpUrl":
			e.url = text(m.value)
		case "headers", "http_headers":
			e.headers = append(e.headers, pairs(m.value)...)
		case "env_http_headers": // of Codex, as the next ones
			for _, h := range pairs(m.value) {
				e.headers = append(e.headers, Pair{h.Name, "${" + h.Value + "}"})
			}
		case "bearer_token_env_var":
			e.headers = append(e.headers, Pair{"Authorization", "Bearer ${" + text(m.value) + "}"})
		case "env_vars":
			for _, name := range texts(m.value) {
				e.env = append(e.env, Pair{name, "${" + name + "}"})
			}
		case "cwd":
			e.dir = text(m.value)
		case "disabled":
			e.off = e.off || string(m.value) == "true"
		case "enabled":
			e.off = e.off || string(m.value) == "false"
		default:
			if why, known := told[m.name]; known {
				e.notes = append(e.notes, shown(m.name)+" is not taken over: "+why)
			} else if !slices.Contains(silent, m.name) {
				e.notes = append(e.notes, shown(m.name)+" is not taken over: the gateway knows nothing like it")
			}
		}
	}
	if inner := members(find(all, "command")); inner != nil { // of Zed
		e.command = append([]string{text(find(inner, "path"))}, texts(find(inner, "args"))...)
		e.env = pairs(find(inner, "env"))
	}
	return e
}

// program reads a command, which some clients write as a list.
func program(raw json.RawMessage) []string {
	if one := text(raw); one != "" {
		return []string{one}
	}
	return texts(raw)
}

// text returns a string, "" for anything else.
func text(raw json.RawMessage) (s string) {
	if json.Unmarshal(raw, &s) != nil || len(s) > mostText {
		return ""
	}
	return s
}

func texts(raw json.RawMessage) (all []string) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	for _, item := range list[:min(len(list), 256)] {
		all = append(all, plain(item))
	}
	return all
}

// pairs reads an object of strings, numbers and booleans.
func pairs(raw json.RawMessage) (all []Pair) {
	for _, m := range members(raw) {
		if len(all) < 256 && m.name != "" && len(m.name) < 256 {
			all = append(all, Pair{m.name, plain(m.value)})
		}
	}
	return all
}

// plain returns a string, or a number or boolean as it is written.
func plain(raw json.RawMessage) string {
	if len(raw) > 0 && strings.ContainsRune("-0123456789tf", rune(raw[0])) {
		return string(raw)
	}
	return text(raw)
}

// shown makes a word of an untrusted text safe to print.
func shown(word string) string {
	word = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, pin.Visible(strings.ToValidUTF8(word, "?")))
	if cut := []rune(word); len(cut) > 120 {
		return string(cut[:120]) + "..."
	}
	return word
}
