// Package observe makes the log lines, metrics and records of what the gateway does. It does so for
// each call, and for what happens beside calls.
//
// It owns the content of the call log and of records, the log's writer, and how many records there
// are of what anybody can cause. It leaves the meaning of a call to the handlers below, the members
// of records to internal/record, and where they go to internal/audit. It never looks at results, nor
// at arguments except for a record. Each logger made by NewLogger has one goroutine, which writes;
// its close function waits for it.
package observe
