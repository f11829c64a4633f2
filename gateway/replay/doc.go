// Package replay runs a draft configuration against recorded calls.
//
// It owns what a record tells of a call, what cannot be told from it, and the report: which
// calls of whom would be decided otherwise, and which rules never applied. It leaves decisions to
// policy, the form of records to internal/record, and configurations and files to gateway. It
// starts no goroutines.
package replay
