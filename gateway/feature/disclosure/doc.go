// Package disclosure shows models short descriptions of tools first, and full ones when they ask.
// This is the extension "progressive disclosure for tool descriptions", 2.1.
//
// It is one stage of the pipeline, above limits and policy. It owns what tools/list says of a tool
// in mode progressive, the resource of tool descriptions, the tool describe_tools, and the refusal
// of calls before a fetch of the description. It leaves what a caller may use to policy below, and
// the record of shown descriptions to Grants. It learns of tools only from the caller's own
// tools/list, sent down the chain: what policy hides does not exist here either. It is not a
// security boundary: it makes a model read before it calls, and no protection depends on it.
//
// Calls of its own resource and tool are answered here and go no further. For callers in
// mode full the stage does nothing. It starts no goroutines.
package disclosure
