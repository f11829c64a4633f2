// Package recent keeps the latest records, for operators who ask.
//
// It owns a bounded memory of the last records, in the order of their times, and of the trails of
// their calls; those who follow what is recorded; the counters of the last two hours, in all, of
// each server and of each rule (Series); and, where replicas share a Redis, the bounded log there
// through which each of them knows the records of all. It leaves what a record holds to
// internal/record, what a trail holds to internal/trail, and who may read them to gateway/admin.
//
// Records has one goroutine, which hands new records to followers and to Redis. Close ends it.
package recent
