//go:build !amd64 || purego

package jsonstring

// long passes text of a string in large steps. It returns an index up to which everything is right,
// short of the string's end or of what it cannot judge, and at which no escape is cut in two. At
// least three bytes stand before i.
func long(b []byte, i int) int { return plain(b, i) }
