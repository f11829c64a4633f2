package front

import (
	"bufio"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
)

// TestTranscripts plays what clients send and compares what they get. A file has pairs of
// sections, "name >" and "name <".
//
// A request is its method, then header lines, an empty line and the body. POST gets the usual
// Content-Type and Accept unless they are given; an empty value omits them. An answer is its
// status, then header lines that it must have ("Name: value") or must not have ("Name!"), an
// empty line and the whole body. In answers, {name} matches any text without quotes, which is
// kept under that name ({*} is not kept). In requests it stands for the kept text.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(archive.Files) == 0 || len(archive.Files)%2 != 0 {
				t.Fatalf("%d sections: want pairs of \"-- name > --\" and \"-- name < --\"", len(archive.Files))
			}
			b := newBench(t, Config{StreamAfter: time.Hour, KeepAlive: time.Hour})
			known := map[string]string{}
			for i := 0; i+1 < len(archive.Files); i += 2 {
				send, want := archive.Files[i], archive.Files[i+1]
				name, ok := strings.CutSuffix(send.Name, " >")
				if !ok || want.Name != name+" <" {
					t.Fatalf("sections %q and %q are no pair", send.Name, want.Name)
				}
				// One after the other: each pair builds on those before it.
				t.Run(name, func(t *testing.T) {
					got := play(t, b, string(send.Data), known)
					if err := got.matches(string(want.Data), known); err != nil {
						t.Errorf("%v\n\nthe answer was:\n%s", err, got)
					}
				})
			}
		})
	}
}

// played is an answer.
type played struct {
	*http.Response
	text string
}

func (p played) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, p.StatusCode)
	_ = p.Header.Write(&b) // to a Builder
	return b.String() + "\n" + p.text
}

var placeholder = regexp.MustCompile(`\{(\*|[a-z]+)\}`)

func play(t *testing.T, b *bench, text string, known map[string]string) played {
	t.Helper()
	text = placeholder.ReplaceAllStringFunc(text, func(p string) string {
		if value, ok := known[p[1:len(p)-1]]; ok {
			return value
		}
		return p
	})
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimRight(head, "\n"), "\n")
	header := http.Header{}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); value == "" {
			header[name] = nil
			continue
		}
		header[http.CanonicalHeaderKey(name)] = append(header[http.CanonicalHeaderKey(name)], value)
	}
	resp, got := b.send(lines[0], strings.TrimSuffix(body, "\n"), header)
	return played{resp, got}
}

func (p played) matches(want string, known map[string]string) error {
	head, body, _ := strings.Cut(want, "\n\n")
	lines := bufio.NewScanner(strings.NewReader(head))
	lines.Scan()
	if status := fmt.Sprint(p.StatusCode); lines.Text() != status {
		return fmt.Errorf("status %s, want %s", status, lines.Text())
	}
	for lines.Scan() {
		if name, ok := strings.CutSuffix(lines.Text(), "!"); ok {
			if got, ok := p.Header[http.CanonicalHeaderKey(name)]; ok {
				return fmt.Errorf("header %s: %q, want none", name, got)
			}
			continue
		}
		name, value, _ := strings.Cut(lines.Text(), ":")
		if err := match(p.Header.Get(name), strings.TrimSpace(value), known); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	return match(strings.TrimRight(p.text, "\n"), strings.TrimRight(body, "\n"), known)
}

// match compares a text with a pattern and keeps what its names match.
func match(got, pattern string, known map[string]string) error {
	var expr strings.Builder
	var names []string
	rest := pattern
	for {
		at := placeholder.FindStringIndex(rest)
		if at == nil {
			break
		}
		expr.WriteString(regexp.QuoteMeta(rest[:at[0]]))
		name := rest[at[0]+1 : at[1]-1]
		if value, ok := known[name]; ok {
			expr.WriteString("(" + regexp.QuoteMeta(value) + ")")
		} else {
			expr.WriteString(`([^"\n]*)`)
		}
		names = append(names, name)
		rest = rest[at[1]:]
	}
	expr.WriteString(regexp.QuoteMeta(rest))
	found := regexp.MustCompile("(?s)^" + expr.String() + "$").FindStringSubmatch(got)
	if found == nil {
		return fmt.Errorf("got\n%s\nwant\n%s", got, pattern)
	}
	for i, name := range names {
		if name != "*" {
			known[name] = found[i+1]
		}
	}
	return nil
}
