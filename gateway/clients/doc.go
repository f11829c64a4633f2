// Package clients describes what known clients read, cut or refuse, and how they sign in.
//
// It owns the table of their limits, the warnings about what exceeds them, and the merging of
// instructions, with the important parts where every client reads. It leaves names and lists to
// gateway/catalog. It does no I/O and starts no goroutines.
package clients
