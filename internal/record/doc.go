// Package record holds what the gateway remembers of its decisions. There is one record for each
// call, sign-in, session, reload and so on, in chains that show if they were changed.
//
// It owns the members of a record and how they are written (docs/audit.md has them one by
// one), the chain and its anchors, and reading both again: one record, and files of them. It leaves
// where records go to internal/audit, and what is in them to gateway/observe. It writes nothing
// itself and starts no goroutines.
package record
