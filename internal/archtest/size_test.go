package archtest

import (
	"cmp"
	_ "embed"
	"fmt"
	"go/scanner"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// held are the numbers that the repository is held to.
//
//go:embed size.txt
var held string

// widest is the bound of a line of Go, in characters.
const widest = 120

// room is the size of one directory at the second level, with all that is below, in lines that have
// code.
type room struct {
	name                       string
	product, kits, tests, wide int
}

// TestSize prints the sizes of the rooms (make size) and holds the product to size.txt. Its numbers may
// rise only in a commit that says what for, and are lowered when they fall by a slack.
func TestSize(t *testing.T) {
	sum, rooms := measure(loadRepository(t))
	for _, r := range append(rooms, sum) {
		t.Logf("%-24s %7d product %7d kits and demo %7d tests %5d wide", r.name, r.product, r.kits, r.tests, r.wide)
	}
	for name, now := range map[string]int{"product": sum.product, "wide": sum.wide} {
		var most int
		for line := range strings.Lines(held) {
			_, _ = fmt.Sscanf(line, name+" %d", &most)
		}
		const slack = 200
		switch {
		case now > most:
			t.Errorf("%s: %d lines, and internal/archtest/size.txt allows %d: "+
				"make do with less, or raise it and say in the commit what for", name, now, most)
		case now < most-slack:
			t.Errorf("%s: %d lines: lower the %d in internal/archtest/size.txt", name, now, most)
		}
	}
}

// measure returns the sizes of all rooms and their sum. A test kit is a package that only tests import.
func measure(m *module) (sum room, rooms []room) {
	all := make(map[string]*room)
	sum.name = "in all"
	m.each(func(p *pkg, f *file) {
		name := p.dir
		if parts := strings.Split(p.dir, "/"); len(parts) > 2 {
			name = strings.Join(parts[:2], "/")
		}
		if all[name] == nil {
			all[name] = &room{name: name}
		}
		code, wide := codeLines(f.src)
		l, ok := layerOf(p.dir)
		for _, r := range []*room{all[name], &sum} {
			switch {
			case f.test:
				r.tests += code
			case ok && l.level == testLevel, strings.HasPrefix(p.dir, "gateway/demo"):
				r.kits += code
			default:
				r.product += code
			}
			r.wide += wide
		}
	})
	for r := range maps.Values(all) {
		rooms = append(rooms, *r)
	}
	slices.SortFunc(rooms, func(a, b room) int { return cmp.Or(b.product-a.product, strings.Compare(a.name, b.name)) })
	return sum, rooms
}

// codeLines counts the lines that have code, and of those the ones that are too wide.
func codeLines(src []byte) (code, wide int) {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0) // without comments
	has := make(map[int]bool)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue
		}
		first := file.Line(pos)
		for line := first; line <= first+strings.Count(text, "\n"); line++ {
			has[line] = true
		}
	}
	line := 0
	for text := range strings.Lines(string(src)) {
		if line++; has[line] {
			code++
			if utf8.RuneCountInString(strings.TrimRight(text, "\n")) > widest {
				wide++
			}
		}
	}
	return code, wide
}

func TestCodeLines(t *testing.T) {
	src := "// Package a.\npackage a\n\n/* not\n*/ var x = `1\n2`\n// " + strings.Repeat("w", widest) + "\n\tvar y = \"" +
		strings.Repeat("w", widest-11) + "\"\nvar z = \"" + strings.Repeat("w", widest-9) + "\"\n"
	if code, wide := codeLines([]byte(src)); code != 5 || wide != 1 {
		t.Errorf("%d lines of code, %d wide, want 5 and 1", code, wide)
	}
}
