package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Colours of a terminal.
const (
	plain  = ""
	bold   = "1"
	dim    = "2"
	red    = "31"
	yellow = "33"
	green  = "32"
)

// table writes rows for people, in columns that are as wide as their widest cell. The last column
// has no width.
type table struct {
	w      io.Writer
	colour bool
	wide   bool  // nothing is cut
	most   int   // columns of a terminal, at which the last column of a list is cut; 0 for others
	widths []int // least; 0 for that of the contents
	rows   [][]cell
}

// cell is a text in a colour. Control characters in it are escaped.
type cell struct{ text, colour string }

func newTable(w io.Writer, heads ...string) *table {
	t := &table{w: w, widths: make([]int, len(heads))}
	if within, wide := w.(wideOutput); wide {
		t.wide, w = true, within.Writer
	}
	t.colour = isTerminal(w)
	if f, ok := w.(*os.File); ok && !t.wide && len(heads) > 2 && term.IsTerminal(int(f.Fd())) { // else facts of one thing
		t.most = columns()
	}
	row := make([]cell, len(heads))
	for i, head := range heads {
		row[i] = cell{head, bold}
	}
	t.add(row...)
	return t
}

// add adds a row. A row of one cell stands over all columns, and does not widen them.
func (t *table) add(row ...cell) {
	for i := range row {
		row[i].text = shown(row[i].text)
		if i < len(row)-1 {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(row[i].text))
		}
	}
	t.rows = append(t.rows, row)
}

// flush writes the rows that were added.
func (t *table) flush() error {
	var b strings.Builder
	before := 0 // the last column
	for _, width := range t.widths[:len(t.widths)-1] {
		before += width + 2
	}
	for _, row := range t.rows {
		if last := len(t.widths) - 1; len(row) > last && t.most > before {
			row[last].text = t.short(row[last].text, t.most-before)
		}
		for i, c := range row {
			b.WriteString(t.coloured(c))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(c.text)+2))
			}
		}
		b.WriteByte('\n')
	}
	t.rows = nil
	_, err := io.WriteString(t.w, b.String())
	return err
}

func (t *table) coloured(c cell) string {
	if !t.colour || c.colour == plain || c.text == "" {
		return c.text
	}
	return "\x1b[" + c.colour + "m" + c.text + "\x1b[0m"
}

// short cuts a text that is too long for a column, unless the table is wide.
func (t *table) short(text string, most int) string {
	if t.wide || utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// clock writes a time of the last hours, or an older one with its day.
func clock(at, now time.Time) string {
	at = at.Local()
	if now.Sub(at) < 20*time.Hour {
		return at.Format("15:04:05")
	}
	return at.Format("Jan _2 15:04")
}

// ago writes how long ago a time was.
func ago(at, now time.Time) string {
	switch d := now.Sub(at); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", max(int(d.Seconds()), 0))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// shown makes a text safe for a terminal.
func shown(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// isTerminal reports whether w is a terminal, and its user does not ask for plain text
// (https://no-color.org).
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
