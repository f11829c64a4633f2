// Package auth says who is calling.
//
// It owns the proof of identity on a request and what is refused without one. It
// leaves what a caller may do to policy, and what is kept under a caller's name to
// session. So far there is one mode, none, which trusts everybody who can reach the
// listener, and therefore serves loopback listeners only. It starts no goroutines.
package auth
