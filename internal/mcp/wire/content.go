package wire

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// The functions here change values inside a result or an item. Their results share memory
// with the original wherever nothing changed.

// without removes members.
func without(obj mcp.Raw, names ...string) mcp.Raw {
	var small [8]mcp.Edit
	edits := small[:0]
	for _, name := range names {
		edits = append(edits, mcp.Edit{Name: name})
	}
	return obj.Edit(edits...)
}

// same reports whether a change returned the value unchanged.
func same(a, b mcp.Raw) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// inMember changes the value of a member, if there is one.
func inMember(obj mcp.Raw, name string, change func(mcp.Raw) mcp.Raw) mcp.Raw {
	value, ok := obj.Member(name)
	if !ok {
		return obj
	}
	if changed := change(value); !same(changed, value) {
		return obj.With(name, changed)
	}
	return obj
}

// inElements changes each element of an array.
func inElements(array mcp.Raw, change func(mcp.Raw) mcp.Raw) mcp.Raw {
	var out mcp.Raw
	n := 0
	array.Elements(func(element mcp.Raw) bool {
		changed := change(element)
		if out == nil && !same(changed, element) {
			out = startElements(array, n)
		}
		if out != nil {
			out = appendElement(out, changed)
		}
		n++
		return true
	})
	if out == nil {
		return array
	}
	return append(out, ']')
}

// startElements begins a new array with the first n elements of another.
func startElements(array mcp.Raw, n int) mcp.Raw {
	out := append(make(mcp.Raw, 0, len(array)), '[')
	array.Elements(func(element mcp.Raw) bool {
		if n--; n < 0 {
			return false
		}
		out = appendElement(out, element)
		return true
	})
	return out
}

func appendElement(array, element mcp.Raw) mcp.Raw {
	if len(array) > 1 {
		array = append(array, ',')
	}
	return append(array, element...)
}

// inBlocks changes the content blocks of a result: those of a tool's result and of a
// prompt's messages.
func inBlocks(method string, result mcp.Raw, change func(mcp.Raw) mcp.Raw) mcp.Raw {
	switch method {
	case mcp.MethodToolsCall:
		return inMember(result, "content", func(blocks mcp.Raw) mcp.Raw { return inElements(blocks, change) })
	case mcp.MethodPromptsGet:
		return inMember(result, "messages", func(messages mcp.Raw) mcp.Raw {
			return inElements(messages, func(message mcp.Raw) mcp.Raw {
				return inMember(message, "content", change)
			})
		})
	}
	return result
}

// inContents changes the contents of a resource in a result.
func inContents(method string, result mcp.Raw, change func(mcp.Raw) mcp.Raw) mcp.Raw {
	if method != mcp.MethodResourcesRead {
		return result
	}
	return inMember(result, "contents", func(contents mcp.Raw) mcp.Raw { return inElements(contents, change) })
}

// blockType returns the type of a content block.
func blockType(block mcp.Raw) string {
	kind, _ := block.Member("type")
	return kind.Text()
}

// textBlock returns a text block that replaces another block and keeps its annotations.
func textBlock(text string, instead mcp.Raw) mcp.Raw {
	block := mcp.Object("type", mcp.String("text"), "text", mcp.String(text))
	if annotations, ok := instead.Member("annotations"); ok {
		block = block.With("annotations", annotations)
	}
	return block
}
