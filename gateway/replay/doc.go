// Package replay runs a draft configuration against recorded calls.
//
// It owns what a record tells of a call and what it cannot tell, and the report: the calls of each
// user that would be decided otherwise, and rules that never applied. It leaves decisions to
// policy, the form of records to internal/record, and configurations and files to gateway. It
// starts no goroutines.
package replay
