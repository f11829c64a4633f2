// Package audit brings records to where the operator keeps them.
//
// It owns the section "audit", the journal that everything is recorded in, a queue and a chain
// for each sink, what happens when a queue is full, and the sinks themselves. It leaves what a
// record holds and how chains are checked to internal/record, and what is recorded to those
// who do it.
//
// Each sink has one goroutine, which owns its chain and its output. Journal.Close ends them.
package audit
