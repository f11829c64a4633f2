// Package webpage shows pages to people who use the gateway: where they consent, what went wrong.
// The pages need no script.
//
// It owns the frame of a page, its style, the headers that protect it, and how what others wrote
// is made fit to be looked at. It leaves what a page says to its callers, and the console's pages
// for operators to gateway/console. It starts no goroutines.
package webpage
