// Package observe makes the log lines, metrics and records of the gateway. It does so for each
// call, and for events beside calls.
//
// It owns the content of the call log and of records, the log's writer, and bounds on records that
// any client can cause. It leaves the meaning of a call to the handlers below, the members of
// records to internal/record, and their sinks to internal/audit. It never looks at results, nor at
// arguments except for a record. Each logger made by NewLogger has one goroutine, which writes; its
// close function waits for it.
package observe
