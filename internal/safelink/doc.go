// Package safelink decides which URLs a user may be asked to open.
//
// A server that asks a user to open a page chooses the URL, and the user sees it in a
// client that they trust. So only web pages pass, written in a way that browsers, libraries
// and people read alike. Check judges all of them: those in questions of servers and the
// links on the gateway's own pages. It leaves trust in the host to browsers and users. It
// starts no goroutine.
package safelink
