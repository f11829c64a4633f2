package mcp

// MetaGuidance is the member of a tool's _meta for what its server says beyond MCP, in the
// members of the extension "progressive disclosure" 2.1: examples, usage_guidance,
// error_guidance, and summary, its short description.
const MetaGuidance = "io.github.gatehouse-mcp/guidance"
