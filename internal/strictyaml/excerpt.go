package strictyaml

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	// mostExcerpt bounds an excerpt, in characters.
	mostExcerpt = 160
	// leftOut stands for a value that is not shown.
	leftOut = "…"
)

// aReference is a reference with nothing around it.
var aReference = regexp.MustCompile(`^\$\{(env|file):[^${}]+\}$`)

// Excerpt shows the line of a problem to people who may not know secrets, and under it a caret at
// the problem's column. It shows keys and structure. Values are left out, since their key may be
// misspelt, but for references and what the problem's message quotes, which is no secret.
func Excerpt(line string, column int, message string) string {
	e := excerpt{message: message, column: column, caret: -1}
	for len(line) > 0 {
		line = line[e.next(line):]
	}
	text := []rune(e.text.String())
	if len(text) > mostExcerpt {
		text = append(text[:mostExcerpt], []rune(leftOut)...)
	}
	if e.caret < 0 || e.caret > len(text) {
		return string(text)
	}
	return string(text) + "\n" + strings.Repeat(" ", e.caret) + "^"
}

// excerpt is an excerpt that is being made.
type excerpt struct {
	message string
	column  int // of the problem, counted from 1
	read    int // characters of the line so far
	text    strings.Builder
	shown   int  // characters of text
	caret   int  // where the problem is in text; -1 while it is not known
	depth   int  // of { and [
	begun   bool // there was a key or a value, outside of { and [
	key     bool // a key may be next, within { and [
}

// next reads a token, and returns its size in bytes.
func (e *excerpt) next(line string) int {
	switch c := line[0]; {
	case c == ' ' || c == '\t':
		e.add(line[:1], " ")
		return 1
	case c == '#' && (e.read == 0 || strings.HasSuffix(e.text.String(), " ")):
		e.add(line, "")
		return len(line)
	case c == '{' || c == '[' || e.depth > 0 && (c == '}' || c == ']' || c == ','):
		switch c {
		case '{', '[':
			e.depth++
		case '}', ']':
			e.depth--
		}
		e.key = c == '{' || c == '[' || c == ','
		e.add(line[:1], line[:1])
		return 1
	case c == '-' && !e.begun && (len(line) == 1 || line[1] == ' '):
		e.add(line[:1], "-")
		return 1
	}
	mayBeKey := !e.begun && e.depth == 0 || e.key
	n := e.token(line, mayBeKey)
	text, rest := line[:n], line[n:]
	value := strings.Trim(text, `"'`)
	e.begun, e.key = true, false
	switch {
	case mayBeKey && strings.HasPrefix(rest, ":") && (len(rest) == 1 || rest[1] == ' '):
		if !keyName.MatchString(value) {
			e.add(text, leftOut)
			text = ""
		}
		e.add(text+":", text+":")
		return n + 1
	case strings.Contains(e.message, `"`+value+`"`), aReference.MatchString(value):
		e.add(text, text)
	default:
		e.add(text, leftOut)
	}
	return n
}

// token returns the size of what stands at the beginning of a line: a text in quotes, or anything
// up to a space or, within { and [, up to a sign.
func (e *excerpt) token(line string, mayBeKey bool) int {
	if quote := line[0]; quote == '"' || quote == '\'' {
		if end := strings.IndexByte(line[1:], quote); end >= 0 && !strings.Contains(line[1:end+1], `\`) {
			return end + 2
		}
		return len(line)
	}
	if end := strings.IndexByte(line, '}'); end >= 0 && strings.HasPrefix(line, "${") {
		return end + 1
	}
	ends := " \t"
	if e.depth > 0 {
		ends = " \t{}[],"
	}
	end := strings.IndexAny(line, ends)
	if end < 0 {
		end = len(line)
	}
	if end > 1 && line[end-1] == ':' && mayBeKey {
		end--
	}
	return max(1, end)
}

// add adds what is shown of a part of the line.
func (e *excerpt) add(part, shown string) {
	n := utf8.RuneCountInString(part)
	if e.caret < 0 && e.column > e.read && e.column <= e.read+n {
		e.caret = e.shown
		if part == shown {
			e.caret += e.column - e.read - 1
		}
	}
	e.read += n
	e.text.WriteString(shown)
	e.shown += utf8.RuneCountInString(shown)
}
