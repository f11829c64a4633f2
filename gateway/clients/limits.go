package clients

import (
	"fmt"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// limit is a limit beyond which a known client cuts or refuses.
type limit struct {
	client string
	of     subject
	// most is the number of bytes, or of tools, that the client accepts; 0 for characters.
	most int
	// prefix is the text that the client puts in front of a tool's name and counts, if its user
	// calls the gateway "gatehouse".
	prefix string
	// beyond describes what the client does beyond the limit.
	beyond string
}

// subject is the subject of a limit.
type subject string

const (
	instructions subject = "instructions"
	description  subject = "the description of a tool"
	toolName     subject = "the name of a tool"
	characters   subject = "characters in the name of a tool"
	toolCount    subject = "tools"
)

// limits are the known limits. docs/clients.md has the same table.
var limits = []limit{
	{"Claude Code", instructions, 2048, "", "the rest is cut"},
	{"Claude Code", description, 2048, "", "the rest is cut"},
	{"Claude Code", toolName, 64, "mcp__gatehouse__", "requests to the model fail"},
	{"Claude Desktop", toolName, 64, "", "requests to the model fail"},
	{"Copilot CLI", toolName, 128, "", "requests to the model fail"},
	{"Copilot CLI", characters, 0, "", "requests to the model fail"},
	{"Cursor", toolName, 60, "gatehouse:", "the tool is left out"},
	{"Cursor", toolCount, 40, "", "the others are left out"},
	{"Gemini CLI", toolName, 64, "mcp_gatehouse_", "the name is cut"},
	{"VS Code", toolCount, 128, "", "requests to the model fail"},
}

// Doubts returns a warning for each limit of a client that tools exceed. full says that clients get
// whole descriptions.
func Doubts(tools []mcp.Item, full bool) (doubts []string) {
	for _, l := range limits {
		if l.of == description && !full {
			continue
		}
		var exceed []string
		for _, tool := range tools {
			if found := l.exceeded(tool); found != "" {
				exceed = append(exceed, found)
			}
		}
		if len(exceed) > 0 {
			doubts = append(doubts, l.String()+": "+some(exceed))
		}
	}
	return doubts
}

// LongInstructions names the clients that cut instructions of n bytes.
func LongInstructions(n int) []string { return tooLong(instructions, n) }

// LongDescription names the clients that cut a tool's description of n bytes.
func LongDescription(n int) []string { return tooLong(description, n) }

func tooLong(what subject, n int) (doubts []string) {
	for _, l := range limits {
		if l.of == what && n > l.most {
			doubts = append(doubts, fmt.Sprintf("%s: these are %d", l, n))
		}
	}
	return doubts
}

// TooMany names the clients that accept fewer than n tools.
func TooMany(n int) (doubts []string) {
	for _, l := range limits {
		if l.of == toolCount && n > l.most {
			doubts = append(doubts, fmt.Sprintf("%s: there are %d for callers who may use all of them", l, n))
		}
	}
	return doubts
}

// exceeded names the tool and the part that exceeds the limit, "" for none.
func (l limit) exceeded(tool mcp.Item) string {
	size := 0
	switch l.of {
	case toolName:
		size = len(l.prefix + tool.Name)
	case description:
		text, _ := tool.Raw.Member("description")
		size = len(text.Text())
	case characters:
		const safe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
		if strings.Trim(tool.Name, safe) != "" {
			return tool.Name
		}
	}
	if size <= l.most {
		return ""
	}
	return fmt.Sprintf("%s (%d)", tool.Name, size)
}

// bound describes what the client accepts.
func (l limit) bound() string {
	switch {
	case l.of == characters:
		return "A-Z a-z 0-9 _ -"
	case l.of == toolCount:
		return fmt.Sprint(l.most)
	case l.prefix != "":
		return fmt.Sprintf("%d bytes with %s in front", l.most, l.prefix)
	}
	return fmt.Sprintf("%d bytes", l.most)
}

func (l limit) String() string {
	switch l.of {
	case characters:
		return fmt.Sprintf("%s: only %s in the name of a tool; with others, %s", l.client, l.bound(), l.beyond)
	case toolCount:
		return fmt.Sprintf("%s: at most %s tools; beyond that, %s", l.client, l.bound(), l.beyond)
	}
	return fmt.Sprintf("%s: at most %s for %s; beyond that, %s", l.client, l.bound(), l.of, l.beyond)
}

// some lists the first few.
func some(all []string) string {
	const few = 3
	if len(all) <= few {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:few], ", "), len(all)-few)
}
