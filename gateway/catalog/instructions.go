package catalog

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// readByAll is how much of the instructions every known client reads, in bytes: some cut them
	// at 2 KB (docs/clients.md).
	readByAll = 2000
	// maxInstructions bounds all instructions together, in bytes.
	maxInstructions = 32 << 10
	// leastShare is the shortest beginning of a section that is worth showing, in bytes.
	leastShare = 80
	// cutMark ends a text that has been cut.
	cutMark = " […]"
)

// instructions joins the operator's text, preface and those of the upstreams, each in its own
// section. If they are longer than what every client reads, each section begins there, with a
// fair share of the room, and continues behind it.
func (p *plan) instructions(states []sourceState, v visible, preface string) string {
	var sections []section
	prefixed := ""
	for i, s := range states {
		text := strings.TrimSpace(s.instructions)
		if text == "" || !v.has(i) {
			continue
		}
		n := p.namings[i]
		if prefixed == "" && !n.plain() {
			prefixed = n.prefix
		}
		if len(states) == 1 && n.plain() {
			sections = append(sections, section{text: text})
			continue
		}
		if len(text) > maxInstructions {
			text = strings.ToValidUTF8(text[:maxInstructions], "")
		}
		sections = append(sections, section{name: n.upstream, text: demoted(text)})
	}
	// The operator's text is first, unless a client would then cut what the gateway itself has to
	// say.
	first, second := strings.TrimSpace(p.cfg.Instructions), preface
	if len(first)+len(second) > readByAll {
		first, second = second, first
	}
	out := strings.TrimSpace(first + "\n\n" + second)
	if prefixed != "" {
		out += "\n\nThe sections below call tools and prompts by their original names; here each name has its server's prefix in front, such as " +
			prefixed + ", and a resource's URI has its server's name in it."
	}
	head, left := fill(sections, readByAll-len(out))
	if len(left) == 1 && left[0].name == sections[len(sections)-1].name {
		head, left = "", sections // the last one would continue where it was cut
	}
	rest, left := fill(left, maxInstructions-len(out)-len(head))
	out += head + rest
	if len(left) > 0 && !strings.HasSuffix(out, cutMark) {
		out += "\n\n" + strings.TrimSpace(cutMark)
	}
	return strings.TrimSpace(out)
}

// section is what one upstream says.
type section struct {
	name string // of the upstream; "" for a text without a heading
	text string
	// continued says that the beginning of the text stands in an earlier section.
	continued bool
}

func (s section) heading() string {
	switch {
	case s.name == "":
		return "\n\n"
	case s.continued:
		return "\n\n## " + s.name + " (continued)\n\n"
	}
	return "\n\n## " + s.name + "\n\n"
}

// fill writes sections into room, in bytes, and returns what is left of them. If there is too
// little room, their texts get the same share of it, and what short texts leave of theirs goes to
// longer ones. The last sections are left whole if the shares would become too small.
func fill(sections []section, room int) (out string, left []section) {
	shown, least, headings := 0, 0, 0
	for _, s := range sections {
		if least += len(s.heading()) + min(len(s.text), leastShare); least > room {
			break
		}
		headings += len(s.heading())
		shown++
	}
	room -= headings
	pieces, rests := make([]string, shown), make([]section, shown)
	for i, which := range shortestFirst(sections[:shown]) {
		s := sections[which]
		first, rest := cut(s.text, room/(shown-i))
		pieces[which], rests[which] = s.heading()+first, section{s.name, rest, true}
		room -= len(first)
	}
	for _, rest := range rests {
		if rest.text != "" {
			left = append(left, rest)
		}
	}
	return strings.Join(pieces, ""), append(left, sections[shown:]...)
}

// shortestFirst returns the indexes of sections, sorted by the lengths of their texts.
func shortestFirst(sections []section) []int {
	order := make([]int, len(sections))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(sections[a].text), len(sections[b].text)) })
	return order
}

// demoted moves the headings of a text two levels down, so that none of them looks like the
// beginning of another upstream's section.
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
