package record

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxServerError bounds what a record repeats of a server's error, in bytes.
const maxServerError = 500

var (
	// assigned matches the value that follows the name of a secret, bearer one after its scheme.
	assigned = regexp.MustCompile(`(?i)((?:pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key|authorization|cookie|credentials?)["']?\s*[=:]\s*)` +
		`(?:"[^"]*"?|'[^']*'?|(?:bearer|basic|token)\s+[^\s"',;&]+|[^\s"',;&]+)`)
	bearer = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[^\s"',;&<]+`)
	// userInfo matches the password in a URL.
	userInfo = regexp.MustCompile(`(://[^/\s:@]*:)[^/\s@]+@`)
	// known matches tokens that show what they are.
	known = regexp.MustCompile(`\b(?:(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}|gh[kopusr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}` +
		`|xox[abeoprs]-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA)[A-Z2-7]{16}|AIza[A-Za-z0-9_-]{35}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]+)`)
)

// ServerError returns what a record repeats of a server's error: the beginning, without what looks
// like a secret.
func ServerError(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	cut := len(text) > maxServerError
	if cut { // a secret at the end is found whole
		text = text[:min(len(text), 4*maxServerError)]
	}
	text = assigned.ReplaceAllString(text, "${1}<redacted>")
	text = bearer.ReplaceAllString(text, "${1} <redacted>")
	text = userInfo.ReplaceAllString(text, "${1}<redacted>@")
	text = known.ReplaceAllString(text, "<redacted>")
	if !cut && len(text) <= maxServerError {
		return text
	}
	end := min(len(text), maxServerError)
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cutEnd
}
