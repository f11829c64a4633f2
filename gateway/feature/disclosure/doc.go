// Package disclosure shows models short descriptions of tools first, and full ones when
// they ask: the extension "progressive disclosure for tool descriptions", 2.1.
//
// It is one stage of the pipeline, above limits and policy: it owns what tools/list says of a tool
// in mode progressive, the resource of tool descriptions and the tool describe_tools, and
// the refusal of calls whose description was not fetched. It leaves what a caller may
// use to policy below, and whom a description was shown to to Grants. All that it tells
// of tools it has from the caller's own tools/list, made down the chain: what policy
// hides does not exist here either. It is no security boundary: it makes a model read
// before it calls, and nothing leans on it.
//
// Its own resource and tool are answered here and never get further. Callers in mode
// full do not meet it at all. It starts no goroutines.
package disclosure
