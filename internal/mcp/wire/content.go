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
	if !array.IsArray() {
		return array
	}
	return array.Map(func(_ []byte, element mcp.Raw) mcp.Raw { return change(element) })
}

func appendElement(array, element mcp.Raw) mcp.Raw {
	if len(array) > 1 {
		array = append(array, ',')
	}
	return append(array, element...)
}

// inResult changes the value of a result's member, if there is one.
func inResult(result mcp.Edited, name string, change func(mcp.Raw) mcp.Raw) mcp.Edited {
	value, ok := result.Member(name)
	if changed := change(value); ok && !same(changed, value) {
		return result.With(mcp.Edit{Name: name, Value: changed})
	}
	return result
}

// inBlocks changes the content blocks of a result: those of a tool's result and of a
// prompt's messages.
func inBlocks(method string, result mcp.Edited, change func(mcp.Raw) mcp.Raw) mcp.Edited {
	switch method {
	case mcp.MethodToolsCall:
		return inResult(result, "content", func(blocks mcp.Raw) mcp.Raw { return inElements(blocks, change) })
	case mcp.MethodPromptsGet:
		return inResult(result, "messages", func(messages mcp.Raw) mcp.Raw {
			return inElements(messages, func(message mcp.Raw) mcp.Raw {
				return inMember(message, "content", change)
			})
		})
	}
	return result
}

// inContents changes the contents of a resource in a result.
func inContents(method string, result mcp.Edited, change func(mcp.Raw) mcp.Raw) mcp.Edited {
	if method != mcp.MethodResourcesRead {
		return result
	}
	return inResult(result, "contents", func(contents mcp.Raw) mcp.Raw { return inElements(contents, change) })
}

// blockType returns the type of a content block.
func blockType(block mcp.Raw) string {
	kind, _ := block.Member("type")
	if string(kind) == `"text"` { // most blocks, without an allocation
		return "text"
	}
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
