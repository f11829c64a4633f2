// Package failure names everything that can go wrong for a client or an operator.
//
// It owns the table of names, which docs/errors.md describes. A name never changes: programs,
// alerts and people look for it. The error objects that clients get belong to internal/mcp. It
// starts no goroutines.
package failure

import (
	"log/slog"
	"strings"
)

// Key is the key for the name of a failure: as a member of an error's data, as an attribute in the
// log, as a label of metrics and in reports.
const Key = "error_code"

// Name identifies a failure. The zero Name is Upstream: the error is a server's own.
type Name uint8

// Retry says whether it helps to make the same request again.
type Retry uint8

const (
	// Never: the request, the configuration or something else has to change first.
	Never Retry = iota
	// Later: nothing was done, and the trouble should pass.
	Later
	// Depends: the call may have run. The error's data says so in "executed".
	Depends
)

// String returns the word of docs/errors.md.
func (r Retry) String() string { return [...]string{"no", "later", "depends"}[r] }

// row is the entry of a failure in the table.
type row struct {
	text  string
	code  int // of JSON-RPC; 0 where no request is answered with it
	retry Retry
	cause string
}

// String returns the name, such as "GH-UPSTREAM-DOWN".
func (n Name) String() string { return table[n].text }

// Code returns the JSON-RPC code of the failure for clients, 0 if only operators learn of it. A
// revision may require another one for the same failure.
func (n Name) Code() int { return table[n].code }

// Retry says whether it helps to make the same request again.
func (n Name) Retry() Retry { return table[n].retry }

// Cause is the usual cause, in one line.
func (n Name) Cause() string { return table[n].cause }

// Anchor returns the place in docs/errors.md that describes the failure.
func (n Name) Anchor() string { return strings.ToLower(table[n].text) }

// Attr is the log attribute of the failure.
func (n Name) Attr() slog.Attr { return slog.String(Key, table[n].text) }

// All returns all names, in the order of the table.
func All() []Name {
	all := make([]Name, len(table))
	for i := range all {
		all[i] = Name(i)
	}
	return all
}
