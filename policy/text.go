package policy

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Bounds of what the question shows of a call: bytes before escaping, and members.
const (
	maxShownName  = 200
	maxShownValue = 400
	maxShownLines = 24
)

// bullet begins each line about the call. Clients that render HTML join lines, so no name and
// no value may contain it.
const bullet = "\u2022"

// question is the text that the user reads before they approve: it says that the gateway
// asks, and names the server, the target and everything that is sent. The call is an indented
// block, which looks the same in clients with and without Markdown. Anything that a reader
// would not see as it is, such as control characters, invisible characters and changes of
// text direction, is escaped. The text says if something did not fit.
func question(target mcp.Target, c *mcp.Call, holds time.Duration) string {
	var b strings.Builder
	b.WriteString("Gatehouse asks: a program wants to make this call in your name. Accept only if you want what it does.\n\n")
	line := func(format string, args ...any) { fmt.Fprintf(&b, "    "+bullet+" "+format+"\n", args...) }
	line("server: %s", shown(target.Upstream, maxShownName))
	line("%s: %s", map[string]string{mcp.KindTools: "tool", mcp.KindPrompts: "prompt", mcp.KindResources: "resource",
		mcp.KindSkills: "skill"}[target.Kind], shown(target.Name, maxShownName))
	if target.File != "" {
		line("file: %s", shown(target.File, maxShownName))
	}
	cut := len(target.Name) > maxShownName || len(target.File) > maxShownName
	add := func(lines *int, what, name, value string) {
		if *lines++; *lines > maxShownLines {
			cut = true
			return
		}
		cut = cut || len(name) > maxShownName || len(value) > maxShownValue
		line("%s: %s", strings.TrimSpace(what+" "+shown(name, maxShownName)), shown(value, maxShownValue))
	}
	arguments, others := 0, 0 // many of one do not keep the other from being shown
	eachSent(c, func(in, name string, value mcp.Raw) {
		switch {
		case in == "" && name == "arguments" && value.IsObject():
			value.Each(func(name string, value mcp.Raw) bool {
				add(&arguments, "argument", quoted(name), string(readable(value)))
				return true
			})
		case in == "" && name == "arguments":
			add(&arguments, "arguments", "", string(readable(value)))
		case in == "":
			add(&others, "also", quoted(name), string(readable(value)))
		default:
			add(&others, in, quoted(name), string(readable(value)))
		}
	})
	if arguments == 0 && (target.Kind == mcp.KindTools || target.Kind == mcp.KindPrompts) {
		line("without arguments")
	}
	if cut {
		line("NOT ALL OF IT IS SHOWN: parts are too long (%d bytes in all).", len(c.Params))
	}
	if holds > 0 {
		fmt.Fprintf(&b, "\n"+bullet+" Your approval is good for exactly this call, as often as it is made in the next %s.",
			holds)
	} else {
		b.WriteString("\n" + bullet + " Your approval is good for this call, once.")
	}
	return b.String()
}

// quoted is the name of a member in quotes.
func quoted(name string) string { return string(readable(mcp.Raw(`"` + name + `"`))) }

// readable is a JSON text without white space between its parts and without needless escapes
// in its strings: an escape can hide a word.
func readable(text mcp.Raw) mcp.Raw {
	if len(text) > 0 && text[0] == '"' {
		if said, ok := text.StringValue(); ok {
			return mcp.String(said)
		}
		return text
	}
	out := make(mcp.Raw, 0, min(len(text), 2*maxShownValue))
	for i := 0; i < len(text) && len(out) <= maxShownValue; i++ {
		switch text[i] {
		case ' ', '\t', '\n', '\r':
		case '"':
			end := i + 1
			for end < len(text) && text[end] != '"' {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(text))
			out = append(out, readable(text[i:end])...)
			i = end - 1
		default:
			out = append(out, text[i])
		}
	}
	return out
}

// shown returns a text of at most max bytes, with escapes for everything that a reader would not
// see as it is.
func shown(text string, max int) string {
	var b strings.Builder
	for i, r := range text {
		if i >= max {
			b.WriteString(" ...")
			break
		}
		if r == '`' || string(r) == bullet || !unicode.IsPrint(r) ||
			unicode.In(r, unicode.Mn, unicode.Me, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
