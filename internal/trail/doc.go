// Package trail notes where the time of a call went, and its messages at both edges of the gateway.
//
// It owns the trail of a call, and the memory that the messages of all trails may have. It leaves to the
// stages of a call what they note, to internal/recent which trails stay when their calls have ended, to
// internal/shape what of a message may be shown, and to gateway/admin to whom. It keeps everything in the
// memory of this process, and starts no goroutine.
//
//	trail.go    the steps of a call
//	message.go  its messages
//	trails.go   the memory of all messages
package trail
