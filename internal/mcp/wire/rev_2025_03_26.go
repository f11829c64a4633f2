package wire

import (
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// rev20250326 lacks elicitation, structured output, resource links, titles, _meta on single
// objects, the context of completions and the version header. It has batches.
var rev20250326 = Revision{
	Name:     "2025-03-26",
	Stateful: true,
	Batches:  true,
	next:     &rev20250618,
	clients: []capability{
		{name: "experimental", any: true},
		{name: "roots", members: []string{"listChanged"}},
		{name: "sampling"},
	},
	servers: []capability{
		{name: "experimental", any: true},
		{name: "logging", any: true},
		{name: "completions", any: true},
		{name: "prompts", any: true},
		{name: "resources", any: true},
		{name: "tools", any: true},
		{name: "skills", any: true}, // SEP-2076
	},
	item:     item20250326,
	result:   result20250326,
	params:   params20250326,
	identity: identity20250326,
	ask:      ask20250326,
	answer:   answer20250326,
}

func item20250326(listMethod string, item mcp.Raw) mcp.Raw {
	if title, ok := item.Member("title"); ok && listMethod == mcp.MethodToolsList {
		annotations, _ := item.Member("annotations")
		if _, ok := annotations.Member("title"); !ok {
			item = item.With("annotations", annotations.With("title", title))
		}
	}
	item = without(item, "title", "outputSchema", "_meta")
	switch listMethod {
	case mcp.MethodPromptsList:
		item = inMember(item, "arguments", func(arguments mcp.Raw) mcp.Raw {
			return inElements(arguments, func(a mcp.Raw) mcp.Raw { return without(a, "title") })
		})
	case mcp.MethodResourcesList, mcp.MethodResourceTemplatesList:
		item = withoutLastModified(item)
	}
	return item
}

func result20250326(method string, result mcp.Edited) mcp.Edited {
	if structured, ok := result.Member("structuredContent"); ok && method == mcp.MethodToolsCall {
		result = withoutStructured(result, structured)
	}
	result = inBlocks(method, result, block20250326)
	return inContents(method, result, func(c mcp.Raw) mcp.Raw { return without(c, "_meta") })
}

func block20250326(block mcp.Raw) mcp.Raw {
	block = withoutLastModified(without(block, "_meta"))
	switch blockType(block) {
	case "resource_link":
		return textBlock(linkText(block), block)
	case "resource":
		return inMember(block, "resource", func(r mcp.Raw) mcp.Raw { return without(r, "_meta") })
	}
	return block
}

// linkText describes a resource link in words.
func linkText(link mcp.Raw) string {
	name, _ := link.Member("name")
	uri, _ := link.Member("uri")
	description, _ := link.Member("description")
	text := "Resource: " + name.Text() + " (" + uri.Text() + ")"
	if d := description.Text(); d != "" {
		text += ": " + d
	}
	return text
}

func withoutLastModified(thing mcp.Raw) mcp.Raw {
	return inMember(thing, "annotations", func(a mcp.Raw) mcp.Raw { return without(a, "lastModified") })
}

func params20250326(method string, params mcp.Raw) mcp.Raw {
	if method != mcp.MethodComplete {
		return params
	}
	params = without(params, "context")
	return inMember(params, "ref", func(ref mcp.Raw) mcp.Raw { return without(ref, "title") })
}

func identity20250326(info mcp.Raw) mcp.Raw { return without(info, "title") }

func ask20250326(method string, params mcp.Raw) (mcp.Raw, error) {
	switch method {
	case mcp.MethodElicit:
		return nil, errors.New("this revision has no elicitation")
	case mcp.MethodCreateMessage:
		return inMessages(params, func(message mcp.Raw) (mcp.Raw,
			error) {
			return inMember(message, "content", block20250326), nil
		})
	}
	return params, nil
}

func answer20250326(method string, answer mcp.Raw) (mcp.Raw, error) {
	switch method {
	case mcp.MethodCreateMessage:
		return inMember(answer, "content", block20250326), nil
	case mcp.MethodRootsList:
		return inMember(answer, "roots", func(roots mcp.Raw) mcp.Raw {
			return inElements(roots, func(root mcp.Raw) mcp.Raw { return without(root, "_meta") })
		}), nil
	}
	return answer, nil
}
