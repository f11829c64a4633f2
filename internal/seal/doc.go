// Package seal turns state into text that can be handed to a client, or kept where others
// read and write, and comes back unread and unchanged, or not at all.
//
// It owns the keys and the form of the text. It leaves what is sealed, to whom it
// is bound and until when it is good to its callers. It starts no goroutines.
package seal
