package disclosure

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Lengths of a short description, in characters. A first sentence shorter than enough is
// followed by the second one if both fit.
const (
	enough  = 60
	longest = 160
)

// hostHints are the members of _meta that hosts act on: those of MCP Apps, and of Claude Code.
var hostHints = []string{"ui", "ui/resourceUri", "anthropic/alwaysLoad", "anthropic/maxResultSizeChars"}

// Short returns a tool as tools/list shows it in mode progressive, whatever mode is
// configured.
func (d *Disclosure) Short(tool mcp.Item) mcp.Item { return d.minimal(tool) }

// minimal returns a tool in short: its purpose, and what users need to consent. Schemas,
// their headers, and how the tool runs belong to the full description.
func (d *Disclosure) minimal(item mcp.Item) mcp.Item {
	out := mcp.Object("name", mcp.String(item.Name))
	keep := func(name string) {
		if value, ok := item.Raw.Member(name); ok {
			out = out.With(name, value)
		}
	}
	keep("title")
	out = out.With("description", mcp.String(d.summary(item))).With("inputSchema", mcp.Raw(minimalSchema))
	keep("annotations")
	keep("icons")
	meta, _ := item.Raw.Member("_meta")
	kept := mcp.Raw("{}")
	for _, name := range hostHints {
		if value, ok := meta.Member(name); ok {
			kept = kept.With(name, value)
		}
	}
	if len(kept) > len("{}") {
		out = out.With("_meta", kept)
	}
	item.Raw = out
	return item
}

// summary returns the short description of a tool: the operator's, otherwise the upstream's
// own, otherwise the beginning of its full description, otherwise its title, otherwise its
// name in words.
func (d *Disclosure) summary(item mcp.Item) string {
	if text := d.files[item.Name].Summary; text != "" {
		return text
	}
	if text := d.upstreams[item.Target.Upstream].Summaries[item.Target.Name]; text != "" {
		return text
	}
	if short, _ := guidance(item).Member("summary"); clip(plain(short.Text())) != "" {
		return clip(plain(short.Text()))
	}
	description, _ := item.Raw.Member("description")
	if text := beginning(description.Text(), parameters(item.Raw)); text != "" {
		return text
	}
	title, _ := item.Raw.Member("title")
	annotations, _ := item.Raw.Member("annotations")
	annotated, _ := annotations.Member("title")
	for _, text := range []string{title.Text(), annotated.Text()} {
		if text = clip(plain(text)); text != "" {
			return text
		}
	}
	return words(item.Target.Name)
}

// parameters returns the names of a tool's parameters.
func parameters(tool mcp.Raw) (names []string) {
	schema, _ := tool.Member("inputSchema")
	properties, _ := schema.Member("properties")
	properties.Each(func(name string, _ mcp.Raw) bool {
		names = append(names, name)
		return len(names) < 1000
	})
	return names
}

// words turns a name into a text: "list_openOrders" becomes "List open orders".
func words(name string) string {
	var out strings.Builder
	lower := false
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			r, lower = ' ', false
		case unicode.IsUpper(r) && lower:
			out.WriteByte(' ')
			r, lower = unicode.ToLower(r), false
		default:
			lower = unicode.IsLower(r)
		}
		out.WriteRune(r)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return "Tool"
	}
	return clip(string(unicode.ToUpper(first)) + text[size:])
}

var (
	link    = regexp.MustCompile(`\[([^\][]*)\]\([^()]*\)`)
	address = regexp.MustCompile(`[(<]?\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s)>]*[)>]?`)
	section = regexp.MustCompile(`(?i)^(args|arguments|parameters|params|inputs?|outputs?|returns?|raises|yields|throws|examples?|usage|notes?)\b[^.!?]{0,40}:`)
	listed  = regexp.MustCompile(`^([-*+•]|\d+[.)])\s`)
)

// beginning returns the first sentence of a description, or two if they are short and the
// second names no parameter. It skips code, links, lists, and sections about parameters or
// examples.
func beginning(description string, parameters []string) string {
	text := plain(paragraph(description))
	first, rest := sentence(text)
	if second, _ := sentence(rest); second != "" && utf8.RuneCountInString(first) < enough &&
		utf8.RuneCountInString(first)+1+utf8.RuneCountInString(second) <= longest && !names(second, parameters) {
		first += " " + second
	}
	return clip(first)
}

// paragraph returns the first paragraph of running text.
func paragraph(text string) string {
	const most = 4 << 10 // a first sentence ends long before this
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	var out []string
	code := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"), strings.HasPrefix(line, "~~~"):
			code = !code
			if len(out) > 0 {
				return strings.Join(out, " ")
			}
		case code, line == "" && len(out) == 0, strings.HasPrefix(line, "#") && len(out) == 0:
		case line == "", strings.HasPrefix(line, "#"), section.MatchString(line), listed.MatchString(line) && len(out) > 0:
			return strings.Join(out, " ")
		default:
			out = append(out, listed.ReplaceAllString(line, ""))
		}
	}
	return strings.Join(out, " ")
}

// plain removes links, markup and invisible characters from a text.
func plain(text string) string {
	text = link.ReplaceAllString(text, "$1")
	text = address.ReplaceAllString(text, "")
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '`' || r == utf8.RuneError:
			return -1
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, strings.ReplaceAll(text, "**", ""))
	return strings.Join(strings.Fields(text), " ")
}

// sentence splits the first sentence off a text. A full stop within an abbreviation, or
// before a lower-case letter, does not end a sentence.
func sentence(text string) (first, rest string) {
	for i, r := range text {
		if !strings.ContainsRune(".!?。！？", r) {
			continue
		}
		end := i + utf8.RuneLen(r)
		after, size := utf8.DecodeRuneInString(strings.TrimLeft(text[end:], " "))
		switch {
		case r < utf8.RuneSelf && end < len(text) && text[end] != ' ': // 1.5, e.g
			continue
		case r == '.' && abbreviates(text[:i]), size > 0 && unicode.IsLower(after):
			continue
		}
		return text[:end], strings.TrimSpace(text[end:])
	}
	return text, ""
}

func abbreviates(before string) bool {
	word := before[strings.LastIndexAny(before, " (")+1:]
	return slices.Contains([]string{"e.g", "i.e", "cf", "vs", "approx", "incl", "resp", "no", "No", "Dr", "St"}, word)
}

// names reports whether a text contains one of the names as a word.
func names(text string, all []string) bool {
	found := strings.FieldsFunc(text,
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' })
	return slices.ContainsFunc(found, func(word string) bool { return slices.Contains(all, word) })
}

// clip shortens a text that is too long, between two words.
func clip(text string) string {
	if utf8.RuneCountInString(text) <= longest {
		return text
	}
	cut := string([]rune(text)[:longest-1])
	if space := strings.LastIndexByte(cut, ' '); space > longest/2 {
		cut = cut[:space]
	}
	return strings.TrimRight(cut, " ,;:") + "…"
}
