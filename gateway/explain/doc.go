// Package explain says what a configuration decides, without a gateway that runs: on a call that
// somebody thinks of, on calls that were recorded, on a token, and for a user.
//
// It owns how a name in a question is taken without asking servers, and who its caller is. It leaves
// the decision itself to policy and gateway/replay, and judging tokens to auth. Examine starts a
// goroutine, which ends before it returns.
package explain
