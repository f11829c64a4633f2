package loadskill

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/gateway/clients"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxAbout bounds the line for a skill in the tool's description, in characters.
const maxAbout = 120

const maxSkillPage = 100

// skill is a skill as its caller sees it.
type skill struct {
	name, description string
	uri               string // of its SKILL.md
	files             mcp.Raw
}

// listing holds the skills that a caller may see.
type listing struct {
	all     []skill
	offered bool      // there may be some, now or later
	expires time.Time // zero: unknown
	private bool
}

// skills lists the skills that the caller may see. Having none is not an error.
func (s *stage) skills(ctx context.Context, c *mcp.Call) (l listing, err error) {
	first := true
	for page, err := range mcp.Pages(ctx, s.next, c.Listing(mcp.MethodSkillsList), maxSkillPage) {
		switch {
		case mcp.HasCode(err, mcp.CodeMethodNotFound):
			return l, nil
		case err != nil:
			return l, err
		case first || page.Expires.Before(l.expires):
			l.expires = page.Expires
		}
		first, l.offered = false, true
		l.private = l.private || page.Private
		for _, item := range page.Items {
			l.all = append(l.all, readSkill(item))
		}
	}
	return l, nil
}

// readSkill reads an entry of the list. For clients of the extension, it has no name.
func readSkill(item mcp.Item) skill {
	uri, _ := item.Raw.Member("uri")
	files, _ := item.Raw.Member("resources")
	frontmatter, _ := item.Raw.Member("frontmatter")
	description, _ := frontmatter.Member("description")
	return skill{name: item.Name, uri: uri.Text(), files: files,
		description: strings.Join(strings.Fields(description.Text()), " ")}
}

func (l listing) find(name string) (skill, bool) {
	for _, s := range l.all {
		if s.name == name {
			return s, true
		}
	}
	return skill{}, false
}

// tool returns the tool as lists show it.
func (l listing) tool() mcp.Raw {
	return mcp.Object("name", mcp.String(ToolName), "title", mcp.Raw(`"Load a skill"`), "description",
		mcp.String(l.about()),
		"inputSchema", mcp.Raw(`{"type":"object","properties":{"name":{"type":"string","description":"The skill. Without it, all skills are listed."},`+
			`"file":{"type":"string","description":"A file of the skill, such as references/rules.md, in place of its instructions."}},"additionalProperties":false}`),
		"annotations", mcp.Raw(`{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}`))
}

// about returns the description of the tool: with a line for each skill, as long as every client reads
// it whole. If there are too many skills, the lines are shorter, and the last skills are left out.
func (l listing) about() string {
	text := ""
	for _, most := range []int{maxAbout, maxAbout / 2, 0} {
		var all bool
		if text, all = l.lines(most); all {
			break
		}
	}
	return text
}

// lines describes each skill in up to most characters, and reports whether all skills are there.
func (l listing) lines(most int) (text string, all bool) {
	const room = clients.ReadByAll - len("\nand 1000000 more: call it without a name for all of them.")
	var b strings.Builder
	b.WriteString("Loads a skill: instructions for a kind of task, to be read before you begin one. Skills:")
	for i, s := range l.all {
		line := "\n- " + s.name
		if most > 0 {
			line += ": " + clip(s.description, most)
		}
		if b.Len()+len(line) > room {
			fmt.Fprintf(&b, "\nand %d more: call it without a name for all of them.", len(l.all)-i)
			return b.String(), false
		}
		b.WriteString(line)
	}
	return b.String(), true
}

// text lists all skills.
func (l listing) text() string {
	var b strings.Builder
	for _, s := range l.all {
		fmt.Fprintf(&b, "- %s: %s\n", s.name, s.description)
	}
	return b.String()
}

// clip returns the beginning of a text: its first sentence, if that has at most this many
// characters.
func clip(text string, most int) string {
	if at := strings.Index(text, ". "); at >= 0 && at <= most {
		return text[:at+1]
	}
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}
