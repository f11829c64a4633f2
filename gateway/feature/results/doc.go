// Package results shortens tool results that are too large for a model. It keeps the whole for a
// while, so that its user can read it as a resource.
//
// It is one stage of the pipeline, above limits and policy. It owns what is left of a large result,
// the note and the link in it, and reads of such links. It leaves the kept results to a Store,
// which binds each to its user, and the settings of a tool to the configuration. A result that
// cannot be kept is passed on whole. Kept results are on no list. Callers who may not see the tool
// any more cannot read its results. It starts no goroutines.
package results
