// Package observe records what the gateway does: one log line and a few metrics for each
// call.
//
// It owns the content of the call log and the log's writer. It leaves the meaning of a call
// to the handlers below, and never looks at arguments or results. Each logger made by
// NewLogger has one goroutine, which writes; its close function waits for it.
package observe
