package record

import (
	"strings"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/redact"
)

// maxServerError bounds what a record repeats of a server's error, in bytes.
const maxServerError = 500

// ServerError returns what a record repeats of a server's error: the beginning, without what looks
// like a secret.
func ServerError(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	cut := len(text) > maxServerError
	if cut { // a secret at the end is found whole
		text = text[:min(len(text), 4*maxServerError)]
	}
	text = redact.Text(text)
	if !cut && len(text) <= maxServerError {
		return text
	}
	end := min(len(text), maxServerError)
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cutEnd
}
