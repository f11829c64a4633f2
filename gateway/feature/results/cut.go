package results

import (
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// leastText is the length of the shortest text that is left, as JSON, in bytes. Less tells a model nothing.
const leastText = 64

// parts are the members of a tool result that can be large.
type parts struct {
	content    mcp.Raw // nil if it is no array
	structured mcp.Raw // nil for none
	isError    bool
}

func partsOf(result mcp.Raw, outline *mcp.Outline) (p parts) {
	outline.Members(result, func(name []byte, value mcp.Raw) bool {
		switch {
		case string(name) == "content" && p.content == nil && value.IsArray():
			p.content = value
		case string(name) == "structuredContent" && p.structured == nil:
			p.structured = value
		case string(name) == "isError":
			p.isError = value.IsTrue()
		}
		return true
	})
	return p
}

// beginning is the part of a content that is sent.
type beginning struct {
	blocks  []mcp.Raw
	short   bool // it is not the whole
	all     int  // blocks of the whole
	missing int  // blocks left out completely
}

// cut returns the content blocks that fit into a number of bytes together, as an array. Blocks
// that do not fit are left out, until the first text among them: that is cut at the end of a
// line or, if no line ends in its second half, after a character, and ends the content.
func cut(content mcp.Raw, most int) (b beginning) {
	if len(content) <= most { // white space is not taken away
		content.Elements(func(block mcp.Raw) bool { b.blocks = append(b.blocks, block); return true })
		return b
	}
	b.short = true
	most -= len("[]")
	ended := false
	content.Elements(func(block mcp.Raw) bool {
		b.all++
		room := most - len(",")
		if len(b.blocks) == 0 {
			room = most
		}
		if !ended && len(block) > room {
			block, ended = cutBlock(block, room)
		} else if ended {
			block = nil
		}
		if block == nil {
			b.missing++
			return true
		}
		b.blocks = append(b.blocks, block)
		most = room - len(block)
		return true
	})
	return b
}

// cutBlock shortens a text block. It returns nil if nothing useful fits. text is false for any
// other block.
func cutBlock(block mcp.Raw, most int) (short mcp.Raw, text bool) {
	value, ok := textOf(block)
	if !ok {
		return nil, false
	}
	room := most - (len(block) - len(value))
	if room < leastText {
		return nil, true
	}
	short = block.Edit(mcp.Edit{Name: "text", Value: cutText(value, room)})
	if len(short) > most {
		return nil, true
	}
	return short, true
}

// textOf returns the text of a text block as it is written.
func textOf(block mcp.Raw) (text mcp.Raw, ok bool) {
	if block.At("type").Text() != "text" {
		return nil, false
	}
	text, ok = block.Member("text")
	return text, ok && len(text) >= 2 && text[0] == '"'
}

// cutText returns the beginning of a JSON string as a JSON string of at most these bytes.
func cutText(text mcp.Raw, most int) mcp.Raw {
	inner := text[1 : len(text)-1]
	end, line := 0, 0
	for end < len(inner) {
		n := charLen(inner[end:])
		if end+n > most-2 {
			break
		}
		end += n
		if c := string(inner[end-n : end]); c == `\n` || c == `\u000a` || c == `\u000A` {
			line = end
		}
	}
	if line > end/2 {
		end = line
	}
	return append(append(append(make(mcp.Raw, 0, end+2), '"'), inner[:end]...), '"')
}

// charLen returns the length of the first character in a JSON string. An escape, or a pair of them,
// may be one character.
func charLen(inner []byte) int {
	switch {
	case inner[0] != '\\':
		_, n := utf8.DecodeRune(inner)
		return n
	case len(inner) < 2 || inner[1] != 'u':
		return min(2, len(inner))
	case len(inner) >= 12 && surrogate(inner, "89abAB") && surrogate(inner[6:], "cdefCDEF"):
		return 12
	}
	return min(6, len(inner))
}

// surrogate reports whether an escape such as \ud83d is half of a pair: its third digit is one of
// these.
func surrogate(escape []byte, third string) bool {
	if escape[0] != '\\' || escape[1] != 'u' || escape[2]|0x20 != 'd' {
		return false
	}
	for i := range len(third) {
		if escape[3] == third[i] {
			return true
		}
	}
	return false
}
