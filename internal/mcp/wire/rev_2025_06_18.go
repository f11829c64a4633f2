package wire

import (
	"bytes"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// rev20250618 lacks icons, the modes of elicitation, tools in sampling, tasks and
// priming events.
var rev20250618 = Revision{
	Name:          "2025-06-18",
	Stateful:      true,
	VersionHeader: true,
	next:          &rev20251125,
	clients: []capability{
		{name: "experimental", any: true},
		{name: "roots", members: []string{"listChanged"}},
		{name: "sampling"},
		{name: "elicitation", unless: "url", base: "form"},
	},
	servers: []capability{
		{name: "experimental", any: true},
		{name: "logging", any: true},
		{name: "completions", any: true},
		{name: "prompts", any: true},
		{name: "resources", any: true},
		{name: "tools", any: true},
	},
	item:     item20250618,
	result:   result20250618,
	identity: identity20250618,
	error:    error20250618,
}

func item20250618(_ string, item mcp.Raw) mcp.Raw { return without(item, "icons") }

func result20250618(method string, result mcp.Raw) mcp.Raw {
	if !bytes.Contains(result, []byte(`"icons"`)) {
		return result
	}
	return inBlocks(method, result, func(block mcp.Raw) mcp.Raw {
		if blockType(block) != "resource_link" {
			return block
		}
		return without(block, "icons")
	})
}

func identity20250618(info mcp.Raw) mcp.Raw {
	return without(info, "description", "icons", "websiteUrl")
}

// error20250618 has no way to send the user to a URL: what is left is the message.
func error20250618(_ string, e *mcp.Error) *mcp.Error {
	if e.Code == mcp.CodeURLElicitation {
		return upstreamCode(e)
	}
	return e
}
