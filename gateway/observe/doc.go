// Package observe records what the gateway does: one log line and a few metrics for each
// call, and a record for the audit if there is one.
//
// It owns the content of the call log and of the records of calls, and the log's writer. It
// leaves the meaning of a call to the handlers below, and where records go to internal/audit.
// It never looks at results, nor at arguments except for a record. Each logger made by
// NewLogger has one goroutine, which writes; its close function waits for it.
package observe
