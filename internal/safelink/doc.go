// Package safelink says which URLs may be shown to a user to be opened.
//
// A server that asks a user to open a page chooses the URL, and the user sees it in a
// client that they trust. So only pages of the web pass, written in a way that browsers,
// libraries and people read alike. Check is the one judge of that: for the questions of
// servers and for the links on the gateway's own pages. It leaves to browsers and users
// whether they trust the host. It starts no goroutine.
package safelink
