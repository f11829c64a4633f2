package results

import (
	"bytes"
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// A kept result is a line with the target of the tool, and then the result of resources/read.

// wholeOf returns the kept form of a result under a URI: its tool, all content blocks, and the
// structured content if the client does not get that.
func wholeOf(uri string, of mcp.Target, content, structured mcp.Raw) []byte {
	head := mcp.Object("upstream", mcp.String(of.Upstream), "tool", mcp.String(of.Name))
	out := make([]byte, 0, len(head)+len(content)+len(structured)+len(structured)/8+1024)
	out = append(append(out, head...), "\n{\"contents\":["...)
	begin := len(out)
	quoted := mcp.String(uri)
	add := func(entry func([]byte) []byte) {
		if len(out) > begin {
			out = append(out, ',')
		}
		out = entry(out)
	}
	content.Elements(func(block mcp.Raw) bool {
		add(func(out []byte) []byte { return appendEntry(out, quoted, block) })
		return true
	})
	if structured != nil {
		add(func(out []byte) []byte { return appendDocument(out, quoted, structured) })
	}
	return append(out, "]}"...)
}

// appendEntry appends a content block as the contents of a resource. Texts and data keep their
// bytes; a block of another type becomes a JSON document.
func appendEntry(out []byte, uri, block mcp.Raw) []byte {
	switch text, ok := textOf(block); block.At("type").Text() {
	case "text":
		if ok {
			return appendContents(out, uri, mcp.Raw(`"text/plain"`), "text", text, block)
		}
	case "image", "audio":
		data, has := block.Member("data")
		kind, typed := block.Member("mimeType")
		if has && typed {
			return appendContents(out, uri, kind, "blob", data, block)
		}
	case "resource":
		if resource := block.At("resource"); resource.At("uri").Text() != "" {
			return append(out, resource...)
		}
	}
	return appendDocument(out, uri, block)
}

func appendDocument(out []byte, uri, value mcp.Raw) []byte {
	return appendContents(out, uri, mcp.Raw(`"application/json"`), "text", mcp.String(string(value)), nil)
}

func appendContents(out []byte, uri, kind mcp.Raw, name string, value, block mcp.Raw) []byte {
	out = append(append(out, `{"uri":`...), uri...)
	out = append(append(out, `,"mimeType":`...), kind...)
	out = append(append(append(append(out, `,"`...), name...), `":`...), value...)
	if meta, ok := block.Member("_meta"); ok {
		out = append(append(out, `,"_meta":`...), meta...)
	}
	return append(out, '}')
}

// readWhole returns the tool that a kept result came from, and the result of reading it.
func readWhole(kept []byte) (of mcp.Target, result mcp.Raw) {
	head, result, _ := bytes.Cut(kept, []byte("\n"))
	from := mcp.Raw(head)
	return mcp.Target{Kind: mcp.KindTools, Upstream: from.At("upstream").Text(), Name: from.At("tool").Text()}, result
}

// note is the text that tells the model what is left out, and how to read the whole. structured is
// the structured content that is left out, nil for none.
func note(uri string, content mcp.Raw, b beginning, structured mcp.Raw, keep time.Duration) mcp.Raw {
	text := "[Note by the gateway: this result is too large to be shown whole."
	shown := 0
	for _, block := range b.blocks {
		shown += len(block)
	}
	switch {
	case !b.short:
	case shown == 0:
		text += fmt.Sprintf(" Its content has %d bytes; none of it is shown.", len(content))
	case b.missing == 0:
		text += fmt.Sprintf(" Its content has %d bytes; the first %d are shown above.", len(content), shown)
	default:
		text += fmt.Sprintf(" Its content has %d bytes; %d are shown above, and %d of its %d parts are left out.",
			len(content), shown, b.missing, b.all)
	}
	if structured != nil {
		text += fmt.Sprintf(" Its structured content, %d bytes, is left out.", len(structured))
	}
	text += fmt.Sprintf(" For %s, the whole can be read as the resource %s]", lasts(keep), uri)
	return mcp.TextContent(text)
}

// link returns the resource_link to the whole.
func link(uri string, keep time.Duration) mcp.Raw {
	return mcp.Object("type", mcp.Raw(`"resource_link"`), "uri", mcp.String(uri), "name", mcp.Raw(`"whole-result"`),
		"title", mcp.Raw(`"The whole result"`), "description",
		mcp.String("The whole of this result. It can be read for "+lasts(keep)+"."))
}

// lasts writes a duration without units that are zero: 10m, 1h30m.
func lasts(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if len(text) > len(zero) && text[len(text)-len(zero):] == zero {
			text = text[:len(text)-2]
		}
	}
	return text
}
