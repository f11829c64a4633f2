package mcp

// ResultScheme begins the URI of a result that the gateway keeps because a client was sent only
// a part of it (gateway/feature/results). No upstream has such a URI.
const ResultScheme = "gatehouse-result:"

// TextContent is a block of content with just this text.
func TextContent(text string) Raw { return Object("type", Raw(`"text"`), "text", String(text)) }

// ToolResult is a tool's result. With isError it is a failure that a model can read and react to.
func ToolResult(isError bool, content ...Raw) Raw {
	result := Object("content", Array(content...))
	if isError {
		result = result.With("isError", Raw("true"))
	}
	return result
}

// MetaGuidance is the member of a tool's _meta for guidance beyond MCP, in the members of the
// extension "progressive disclosure" 2.1: examples, usage_guidance, error_guidance, and summary,
// its short description.
const MetaGuidance = "io.github.gatehouse-mcp/guidance"
