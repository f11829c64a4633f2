// Package whatif answers what a caller would get. It tells what a configuration decides on an
// imagined call, on recorded calls, on a token and for a user; and, of a running gateway, the lists
// as a caller gets them, what is not in them and why, and the result of a tool that an operator
// tries.
//
// It owns reading the name in a question without asking servers, and its caller, the comparison of a
// list with what servers offer, and the call of a trial. It leaves decisions to policy and
// gateway/replay, judging tokens to auth, who may ask to gateway/admin, and lists and calls to the
// pipeline. Examine starts a goroutine, which ends before it returns.
package whatif
