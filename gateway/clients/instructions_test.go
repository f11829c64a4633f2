package clients

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// saying makes sections of the servers s0, s1 ...
func saying(texts ...string) (sections []Section) {
	for i, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			sections = append(sections, Section{Server: fmt.Sprintf("s%d", i), Text: text})
		}
	}
	return sections
}

// sentences returns numbered sentences of about n bytes together.
func sentences(of string, n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "Sentence %d of %s is here. ", i, of)
	}
	return strings.TrimSpace(b.String())
}

// sectionsIn returns the text of each section, with its continuation, by name. What comes before
// the first section has the name "".
func sectionsIn(text string) map[string]string {
	found := map[string]string{}
	for part := range strings.SplitSeq("\n\n## \n\n"+text, "\n\n## ") {
		heading, body, _ := strings.Cut(part, "\n\n")
		name := strings.TrimSuffix(heading, " (continued)")
		body = strings.TrimPrefix(strings.TrimSuffix(body, cutMark), "… ")
		found[name] = strings.TrimSpace(found[name] + " " + body)
	}
	return found
}

// TestInstructionsReadByAll: where clients cut the instructions, they have read what the operator
// says, and the beginning of every section.
func TestInstructionsReadByAll(t *testing.T) {
	short, long := sentences("short", 60), sentences("long", 3000)
	own, sections := sentences("operator", 200), saying(long, short, long, long, short)
	got := Instructions(own, sections)
	head := sectionsIn(got[:ReadByAll])
	if !strings.HasPrefix(got, own) {
		t.Error("the operator's text is not first")
	}
	for _, name := range []string{"s1", "s4"} {
		if head[name] != short {
			t.Errorf("section %s begins with %q", name, head[name])
		}
	}
	var lengths []int
	for _, name := range []string{"s0", "s2", "s3"} {
		lengths = append(lengths, len(head[name]))
		if n := len(head[name]); n < 380 || !strings.HasPrefix(long, head[name]) || !strings.HasSuffix(head[name], ".") {
			t.Errorf("section %s begins with %d bytes: %q", name, n, head[name])
		}
	}
	if slices.Max(lengths)-slices.Min(lengths) > 3*len("Sentence 10 of long is here. ") {
		t.Errorf("different shares: %v", lengths)
	}
	for _, s := range sections {
		if sectionsIn(got)[s.Server] != s.Text {
			t.Errorf("section %s has %q", s.Server, sectionsIn(got)[s.Server])
		}
	}
	if again := Instructions(own, sections); again != got {
		t.Error("not the same again")
	}
}

func TestInstructionsOfMany(t *testing.T) {
	texts := make([]string, 200)
	for i := range texts {
		texts[i] = sentences(fmt.Sprint("server ", i), 120)
	}
	got := Instructions("", saying(texts...))
	if head := sectionsIn(got[:ReadByAll]); head["s0"] == "" || len(head["s10"]) < leastShare/2 {
		t.Errorf("the first sections are %q", head)
	}
	whole := sectionsIn(got)
	for i, text := range texts {
		if whole[fmt.Sprint("s", i)] != text {
			t.Errorf("section %d has %q", i, whole[fmt.Sprint("s", i)])
		}
	}

	long := strings.Repeat("é", MaxInstructions)
	for i := range texts {
		texts[i] = long
	}
	if got := Instructions("", saying(texts...)); len(got) > MaxInstructions+len(cutMark) || !utf8.ValidString(got) ||
		!strings.HasSuffix(got, "[…]") {
		t.Errorf("%d bytes, valid %v, end %q", len(got), utf8.ValidString(got), got[len(got)-20:])
	}
}

// TestInstructionsKeepAll: whatever servers say, nothing is lost that has room, and each section is
// written by its own server alone.
func TestInstructionsKeepAll(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 2))
	words := []string{"word", "a", ".", "é", "\n", "\n\n", "# h", "## s0", "\n## s1", "日本", strings.Repeat("x", 90)}
	for range 300 {
		texts := make([]string, 1+r.IntN(12))
		for i := range texts {
			var b strings.Builder
			for range r.IntN(300) {
				b.WriteString(words[r.IntN(len(words))] + " ")
			}
			texts[i] = b.String()
		}
		got := Instructions(strings.Repeat("o", r.IntN(3000)), saying(texts...))
		if !utf8.ValidString(got) || len(got) > MaxInstructions+len(cutMark) {
			t.Fatalf("%d bytes, valid %v", len(got), utf8.ValidString(got))
		}
		if len(got) >= MaxInstructions-100 {
			continue
		}
		plain := func(s string) string {
			return strings.Join(strings.Fields(strings.ReplaceAll(strings.ReplaceAll(s, "…", ""), "[]", "")), "")
		}
		want := map[string]string{}
		for i, text := range texts {
			if text = plain(demoted(strings.TrimSpace(text))); text != "" {
				want[fmt.Sprint("s", i)] = text
			}
		}
		for name, text := range sectionsIn(got) {
			if name != "" && plain(text) != want[name] {
				t.Fatalf("section %s has %q, want %q", name, plain(text), want[name])
			}
			delete(want, name)
		}
		if len(want) > 0 {
			t.Fatalf("missing: %q", want)
		}
	}
}
