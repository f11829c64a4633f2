package clients

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// ReadByAll is the length of instructions, and of the description of a tool, that every known
	// client reads, in bytes.
	ReadByAll = 2000
	// MaxInstructions bounds all instructions together, in bytes.
	MaxInstructions = 32 << 10
	// leastShare is the shortest beginning of a section that is worth showing, in bytes.
	leastShare = 80
	// cutMark ends a text that has been cut.
	cutMark = " […]"
)

// Section is the text of one server for models.
type Section struct {
	// Server is the name in the heading. Without one there is no heading, for the text of an only
	// server.
	Server string
	Text   string

	continued bool // the beginning of the text stands in an earlier section
}

// Instructions joins texts of the gateway, which are taken whole, and those of the servers. If
// they are longer than ReadByAll, each section begins there, with a fair share of the room, and
// continues behind it. What exceeds MaxInstructions is cut.
func Instructions(own string, sections []Section) string {
	prepared := make([]Section, len(sections))
	for i, s := range sections {
		if len(s.Text) > MaxInstructions {
			s.Text = strings.ToValidUTF8(s.Text[:MaxInstructions], "")
		}
		if s.Server != "" {
			s.Text = demoted(s.Text)
		}
		prepared[i] = s
	}
	head, left := fill(prepared, ReadByAll-len(own))
	if len(left) == 1 && left[0].Server == prepared[len(prepared)-1].Server {
		head, left = "", prepared // the last one would continue where it was cut
	}
	rest, left := fill(left, MaxInstructions-len(own)-len(head))
	out := own + head + rest
	if len(left) > 0 && !strings.HasSuffix(out, cutMark) {
		out += "\n\n" + strings.TrimSpace(cutMark)
	}
	return strings.TrimSpace(out)
}

func (s Section) heading() string {
	switch {
	case s.Server == "":
		return "\n\n"
	case s.continued:
		return "\n\n## " + s.Server + " (continued)\n\n"
	}
	return "\n\n## " + s.Server + "\n\n"
}

// fill writes sections into room, in bytes, and returns what is left of them. If there is too
// little room, their texts get the same share of it, and short texts leave the rest of theirs to
// longer ones. The last sections are left whole if the shares would become too small.
func fill(sections []Section, room int) (out string, left []Section) {
	shown, least, headings := 0, 0, 0
	for _, s := range sections {
		if least += len(s.heading()) + min(len(s.Text), leastShare); least > room {
			break
		}
		headings += len(s.heading())
		shown++
	}
	room -= headings
	pieces, rests := make([]string, shown), make([]Section, shown)
	for i, which := range shortestFirst(sections[:shown]) {
		s := sections[which]
		first, rest := cut(s.Text, room/(shown-i))
		pieces[which], rests[which] = s.heading()+first, Section{s.Server, rest, true}
		room -= len(first)
	}
	for _, rest := range rests {
		if rest.Text != "" {
			left = append(left, rest)
		}
	}
	return strings.Join(pieces, ""), append(left, sections[shown:]...)
}

// shortestFirst returns the indexes of sections, sorted by the lengths of their texts.
func shortestFirst(sections []Section) []int {
	order := make([]int, len(sections))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(sections[a].Text), len(sections[b].Text)) })
	return order
}

// demoted moves the headings of a text two levels down, so that none of them looks like the
// beginning of another server's section.
func demoted(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimLeft(line, " "), "#") {
			lines[i] = "##" + strings.TrimLeft(line, " ")
		}
	}
	return strings.Join(lines, "\n")
}

// cut divides a text that is longer than n bytes: at the end of a line, of a sentence or of a
// word, if there is one in the second half, and else between two characters. The first part,
// which says that there is more, has at most n bytes.
func cut(text string, n int) (first, rest string) {
	if len(text) <= n {
		return text, ""
	}
	end := n - len(cutMark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	for _, boundary := range []string{"\n", ". ", " "} {
		if i := strings.LastIndex(text[:end], boundary); i >= end/2 {
			end = i + len(boundary)
			break
		}
	}
	rest = strings.TrimSpace(text[end:])
	if end > 0 && text[end-1] != '\n' {
		rest = "… " + rest // in the middle of a line, which may go on with what looks like a heading
	}
	return strings.TrimSpace(text[:end]) + cutMark, rest
}
