// Package recent keeps the last records, for operators who ask what has just happened.
//
// It owns a bounded memory of records, in the order of their times; those who follow what is
// recorded; and, where replicas share a Redis, the bounded log there through which each of
// them knows the records of all. It leaves what a record holds to internal/record, and who may
// read records to gateway/admin.
//
// Records has one goroutine, which hands new records to followers and to Redis. Close ends it.
package recent
