// Package series counts what happened over the last two hours, for operators who look at charts
// and ask what has changed.
//
// It owns the counters of calls, errors, refusals and latencies by time, in all and of each
// server, and how often each rule of policy decided. All of it is of this process, in memory of
// a fixed size. It leaves what a record says to internal/record, and who may read the counters to
// gateway/admin. It starts no goroutines.
package series
