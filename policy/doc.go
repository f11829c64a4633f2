// Package policy decides what a caller may see and use, and how often.
//
// It owns the rules and their patterns and conditions (Policy.Decide is the one
// decision), the guard that every call passes directly above the catalog, approval by
// the user, the filtering of lists, rate limits, and the explanation of a decision. It
// leaves who the caller is to auth, which upstream a public name belongs to to
// gateway/catalog, and how an error looks on a wire to gateway/front.
//
// Denied looks like missing: what a caller may not use answers as a name that does not
// exist. What cannot be judged is denied. Package policy does no I/O and starts no
// goroutines.
package policy
