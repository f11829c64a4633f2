package mcp

// ResultScheme begins the URI of a result that the gateway keeps because a client was sent only
// a part of it (gateway/feature/results). No upstream has such a URI.
const ResultScheme = "gatehouse-result:"
