// Package answers makes results as servers return them, for benchmarks.
package answers

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Shape is the result of a tool, of one kind and about one size.
type Shape struct {
	Name   string
	Result mcp.Raw
}

// Shapes returns results of about this size in bytes: all kinds that differ in how they are read.
func Shapes(size int) []Shape {
	document := Document(size / 2)
	return []Shape{
		{"words", mcp.Object("content", Text(Words(size)))},
		{"json", mcp.Object("content", Text(mcp.String(Document(size))))},
		{"script", mcp.Object("content", Text(repeat("Съешь ещё этих мягких булок. 敏捷的棕色狐狸跳过了懒狗。\\n", size)))},
		{"escaped", mcp.Object("content", Text(repeat(`caf\u00e9 \ud83d\ude00 \"\u6771\u4eac\" `, size)))},
		{"structured", mcp.Object("content", Text(mcp.String(document)),
			"structuredContent", mcp.Object("records", mcp.Raw(document)))},
		{"resource", mcp.Object("content", mcp.Array(mcp.Object("type", mcp.String("resource"), "resource", mcp.Object(
			"uri", mcp.String("file:///report.md"), "mimeType", mcp.String("text/markdown"),
			"text", mcp.String(document+document)))))},
		{"image", mcp.Object("content", mcp.Array(mcp.Object("type", mcp.String("image"), "mimeType", mcp.String("image/png"),
			"data", mcp.String(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x89PNG\r\n\x1a\n", size*3/4/8)))))))},
	}
}

// Text returns content with one text, which is a JSON string.
func Text(text mcp.Raw) mcp.Raw {
	return mcp.Array(mcp.Object("type", mcp.String("text"), "text", text))
}

// Words returns a text of this size that needs no escapes.
func Words(size int) mcp.Raw { return repeat("All work and no play makes Jack a dull boy. ", size) }

// repeat repeats what is written inside of a JSON string.
func repeat(part string, size int) mcp.Raw {
	return mcp.Raw(`"` + strings.Repeat(part, max(size/len(part), 1)) + `"`)
}

// Document returns an array of records that, written as a JSON string, is about this size. Most
// servers answer with such a text: every third byte belongs to an escape, some to letters outside
// of ASCII.
func Document(size int) string {
	var document strings.Builder
	document.WriteString("[\n")
	for i := 0; document.Len() < size*6/7; i++ { // escapes add a sixth
		fmt.Fprintf(&document, "  {\n    \"id\": %d,\n    \"state\": \"open\",\n    \"title\": \"Prüfung der Anlage %d\",\n"+
			"    \"labels\": [\"bug\", \"größe\"],\n    \"author\": {\"login\": \"user%d\", \"city\": \"東京\"},\n"+
			"    \"url\": \"https://example.com/issues/%d\"\n  },\n", i, i*7, i%50, i)
	}
	document.WriteString("  null\n]\n")
	return document.String()
}
