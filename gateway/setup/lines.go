package setup

import (
	"errors"
	"fmt"
	"strings"
)

// readLines reads lines with a URL or a command each. The error does not show a line, which may have a secret.
func (d *Draft) readLines(text string) error {
	text = strings.ReplaceAll(text, "\\\n", " ")
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		line = strings.TrimPrefix(line, "$ ")
		words, err := split(line)
		if err == nil && len(words) > 0 {
			err = notALine(line, words)
		}
		if err != nil {
			return fmt.Errorf("line %d looks like %w: give JSON, the TOML of Codex, or lines with a URL or a command each",
				number, err)
		}
		switch {
		case len(words) == 1 && isURL(words[0]):
			d.add(entry{url: words[0]})
		case len(words) > 3 && words[1] == "mcp" && words[2] == "add":
			d.readAdd(words[3:])
		default:
			e := entry{}
			for len(words) > 1 && isAssignment(words[0]) {
				name, value, _ := strings.Cut(words[0], "=")
				e.env, words = append(e.env, Pair{name, value}), words[1:]
			}
			e.command = words
			d.add(e)
		}
	}
	return nil
}

func isAssignment(word string) bool {
	name, _, has := strings.Cut(word, "=")
	return has && clientVariable.MatchString(name)
}

// readAdd reads the arguments of "claude mcp add" and of other clients' commands like it:
// [flags] NAME [flags] URL, or [flags] NAME [flags] [--] COMMAND...
func (d *Draft) readAdd(words []string) {
	e := entry{}
	for i := 0; i < len(words); i++ {
		word := words[i]
		next := func() string {
			if i++; i < len(words) {
				return words[i]
			}
			return ""
		}
		switch {
		case word == "--" && e.name != "":
			e.command = words[i+1:]
			i = len(words)
		case word == "-e" || word == "--env":
			name, value, _ := strings.Cut(next(), "=")
			e.env = append(e.env, Pair{name, value})
		case word == "-H" || word == "--header":
			name, value, _ := strings.Cut(next(), ":")
			e.headers = append(e.headers, Pair{strings.TrimSpace(name), strings.TrimSpace(value)})
		case word == "--url":
			e.url = next()
		case word == "-t" || word == "--transport" || word == "-s" || word == "--scope":
			next()
		case strings.HasPrefix(word, "-"):
			e.notes = append(e.notes, shown(word)+" is not taken over")
		case e.name == "":
			e.name = word
		case isURL(word):
			e.url = word
		default:
			e.command = words[i:]
			i = len(words)
		}
	}
	d.add(e)
}

// split splits a line into words as a shell does, without expanding variables.
func split(line string) (words []string, err error) {
	var b strings.Builder
	inWord := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t', '\r':
			if inWord {
				words = append(words, b.String())
				b.Reset()
			}
			inWord = false
		case '\'', '"':
			inWord = true
			for i++; i < len(line) && line[i] != c; i++ {
				if c == '"' && line[i] == '\\' && i+1 < len(line) && strings.IndexByte("\\\"$`", line[i+1]) >= 0 {
					i++
				}
				b.WriteByte(line[i])
			}
			if i == len(line) {
				return nil, errors.New("a command with a quotation mark that is not closed")
			}
		case '\\':
			if i++; i < len(line) {
				b.WriteByte(line[i])
			}
			inWord = true
		default:
			b.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, b.String())
	}
	return words, nil
}
