// Package seal encrypts and authenticates state that a client carries or that others can read and
// write. Changed state is refused when it comes back.
//
// It owns the keys and the format of the text. It leaves to its callers what is sealed,
// what it is bound to and when it expires. It starts no goroutines.
package seal
