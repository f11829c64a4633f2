package disclosure

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// The gateway's own tool and resource.
const (
	// ToolName is the tool that describes tools, for hosts that show no resources to the
	// model. The name is reserved: a tool of an upstream with this name is withheld.
	ToolName = "describe_tools"
	// URI is the resource of tool descriptions. It is reserved, and so is every URI that
	// continues it with ?, # or an expression.
	URI = "resource:///tool_descriptions"
	// Template is the resource as a template (RFC 6570).
	Template = URI + "{?tools}"
)

// Prompt is the recommended text for the system prompt of an agent (2.1 §8). The gateway's
// instructions contain it, too.
const Prompt = `Tools here are listed with short descriptions and without their parameters.
1. Pick a tool from the list by what it does: the short descriptions are enough for that.
2. Before the first call of a tool, fetch its full description: read the resource ` + URI + `?tools=TOOL_NAME (several at once: ?tools=TOOL_1,TOOL_2), or call the tool ` + ToolName + ` with {"names": ["TOOL_NAME"]}. Always name the tools that you are about to use; there is nothing to fetch without a name.
3. Call the tool with the parameters that its description gives.
Fetching a description allows calls of that tool for the rest of the session. A call without it is refused with TOOL_DESCRIPTION_REQUIRED: fetch the description then, and call again.`

const (
	resourceName  = "Tool descriptions - required before a tool is called"
	resourceTitle = "Tool descriptions"
	resourceText  = "WORKFLOW: Step 1: pick a tool from tools/list by what it does; its short description there is for choosing only and leaves the parameters out. " +
		"Step 2: fetch its full description, with the parameters, here: " + URI +
		"?tools=TOOL_NAME, or several at once, ?tools=TOOL_1,TOOL_2, with names exactly as in tools/list. " +
		"The parameter tools is required. Step 3: call the tool with the parameters learned. " +
		"Fetching a description authorises calls of that tool for the session; a tool called without it is refused with TOOL_DESCRIPTION_REQUIRED."
	toolText = "Returns the full descriptions of tools: their parameters, examples and guidance. The tool list only has short descriptions, for choosing. " +
		"Call this with the names of the tools that you are about to use, before you call them for the first time; until then they are refused with TOOL_DESCRIPTION_REQUIRED. " +
		"It does the same as reading " + URI + "?tools=TOOL_1,TOOL_2."
	missingText      = "You must specify one or more tool names in the 'tools' parameter."
	missingNamesText = "You must specify one or more tool names in the 'names' argument of describe_tools."
)

// minimalSchema replaces every schema of a tool that is listed in short.
const minimalSchema = `{"type":"object","additionalProperties":true}`

func ownResource() mcp.Item {
	return mcp.Item{Name: URI, Raw: mcp.Object("uri", mcp.String(URI), "name", mcp.String(resourceName), "title",
		mcp.String(resourceTitle),
		"description", mcp.String(resourceText), "mimeType", mcp.Raw(`"application/json"`))}
}

func ownTemplate() mcp.Item {
	return mcp.Item{Name: Template, Raw: mcp.Object("uriTemplate", mcp.String(Template), "name", mcp.String(resourceName),
		"title", mcp.String(resourceTitle),
		"description", mcp.String(resourceText), "mimeType", mcp.Raw(`"application/json"`))}
}

// OwnTool returns the tool that describes tools, as lists show it.
func OwnTool() mcp.Item {
	return mcp.Item{Name: ToolName, Raw: mcp.Object("name", mcp.String(ToolName), "title", mcp.Raw(`"Describe tools"`),
		"description", mcp.String(toolText),
		"inputSchema", mcp.Raw(`{"type":"object","properties":{"names":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":50,`+
			`"description":"Names of tools, exactly as in the tool list."}},"required":["names"],"additionalProperties":false}`),
		"annotations", mcp.Raw(`{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}`))}
}
