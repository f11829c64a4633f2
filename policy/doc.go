// Package policy decides what a caller may see and use, and how often.
//
// It owns the rules with their patterns and conditions (Policy.Decide makes every decision),
// the guard directly above the catalog that every call passes, approval by the user, the
// filtering of lists, rate limits, and explanations of decisions. It leaves the caller's
// identity to auth, the upstream of a public name to gateway/catalog, and errors on the wire
// to gateway/front.
//
// A denied name looks like a missing one: the caller gets the answer for a name that does not
// exist. What cannot be judged is denied. Only the Redis stores do I/O. The package starts no
// goroutines.
package policy
