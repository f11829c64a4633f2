package console

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/webpage"
)

// Bounds of shown texts, in characters: in a line of a table, in a paragraph, and where the text is
// the subject of the page.
const (
	mostShort = 80
	mostText  = 400
	mostWhole = 64 << 10
)

// text makes texts of others safe to show: it names characters that are invisible, or change how
// the rest looks, and cuts long texts. Templates escape the result as any other text.
func text(v any, most int) string {
	var s string
	switch v := v.(type) {
	case mcp.Raw:
		s = indented(v)
	case json.RawMessage:
		s = indented(mcp.Raw(v))
	default:
		s = fmt.Sprint(v)
	}
	return webpage.Lines(s, most)
}

// sentence makes an error's text a sentence.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(text[size:], ".") + "."
}

// fingerprint distinguishes contents.
func fingerprint(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:6])
}

// indented returns JSON with a line for each member, otherwise unchanged, since a person may decide
// on it. Other text stays as it is.
func indented(value mcp.Raw) string {
	var out bytes.Buffer
	if json.Indent(&out, value, "", "  ") != nil {
		return string(value)
	}
	return out.String()
}

// stateMark returns the class of a server's state.
func stateMark(state string) string {
	switch state {
	case "ready":
		return "good"
	case "connecting", "degraded":
		return "warn"
	case "disabled", "per user":
		return ""
	}
	return "bad"
}
