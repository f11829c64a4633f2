// Package foureyes holds calls until people other than their callers approve of them.
//
// It owns the table of the calls that wait, its bounds, what a decision on a call has to be,
// and how replicas decide on each other's calls. It leaves to policy which calls wait and who may decide on them, to gateway/admin how
// people are identified and asked, and to its caller what then becomes of a call. It starts no
// goroutines: the goroutine of a call waits.
package foureyes
