package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// TestHelpFits: with 80 columns, no line of the help of any command is longer.
func TestHelpFits(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	root := newRoot()
	for all := []*cobra.Command{root}; len(all) > 0; all = append(all[1:], all[0].Commands()...) {
		var text strings.Builder
		all[0].SetOut(&text)
		if err := all[0].Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", all[0].CommandPath(), n, line)
			}
		}
	}
}

// TestTableFits: the last column of a list ends where the terminal does. Nothing else is cut, and nothing without one.
func TestTableFits(t *testing.T) {
	t.Setenv("COLUMNS", "20")
	var out bytes.Buffer
	list := newTable(&out, "NAME", "STATE", "WHY")
	list.add(cell{"crm", plain}, cell{"down", plain}, cell{"it does not answer", plain})
	list.add(cell{"what stands over all columns", dim})
	write := func() string {
		t.Helper()
		rows := list.rows
		out.Reset()
		if err := list.flush(); err != nil {
			t.Fatal(err)
		}
		list.rows = rows
		return out.String()
	}
	if got := write(); !strings.Contains(got, "it does not answer\n") {
		t.Errorf("without a terminal:\n%s", got)
	}
	list.most = 20
	want := "NAME  STATE  WHY\ncrm   down   it doe…\nwhat stands over all columns\n"
	if got := write(); got != want {
		t.Errorf("with 20 columns:\n%s", got)
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err) // Windows has none; Linux and macOS do
	}
	defer terminal.Close()
	if !term.IsTerminal(int(terminal.Fd())) {
		t.Skip("no terminal") // macOS may want a program at its other end; Linux does not
	}
	for name, tt := range map[string]struct {
		w     io.Writer
		heads []string
		most  int
	}{
		"a list":              {terminal, []string{"A", "B", "C"}, 20},
		"facts":               {terminal, []string{"A", "B"}, 0},
		"a list that is wide": {wideOutput{terminal}, []string{"A", "B", "C"}, 0},
	} {
		if got := newTable(tt.w, tt.heads...).most; got != tt.most {
			t.Errorf("%s: cut at %d, want %d", name, got, tt.most)
		}
	}
}
