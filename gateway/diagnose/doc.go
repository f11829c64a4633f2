// Package diagnose judges the health of a gateway. It tells whether it is ready, what the problems
// are, and what to do about them.
//
// It owns the answer to /readyz, the rules by which facts become findings, their words and their order,
// and the search for spoofs: texts of tools that people cannot see, and names that look like others. It
// leaves the facts that only the process has to gateway, the form of the answer to gateway/admin, and what
// is hidden or looks alike to internal/pin. Its caller runs SpoofLog.Run; the package starts no goroutines.
//
// A finding is about now: it is there as long as its cause is.
package diagnose
