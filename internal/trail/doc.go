// Package trail keeps where the time of recent calls went, and their messages at both edges of the
// gateway.
//
// It owns the trail of a call that runs, those of the last calls, the bounds of both, and what goes first
// of all that operators can look at. It leaves to the stages of a call what they note, to internal/shape
// what of a message may be shown, and to gateway/admin to whom. It keeps everything in the memory of this
// process, and starts no goroutine.
//
//	trail.go    the steps of a call
//	message.go  its messages
//	trails.go   the trails of the last calls
//	trim.go     what makes room for others
package trail
