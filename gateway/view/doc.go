// Package view is the section "views": further endpoints, each of which shows a selection of
// what policy allows.
//
// It owns the configuration of a view, and how a list looks there: what is in it, under which
// names, with which descriptions, in which order. It leaves to policy what a caller may do there, to auth
// which tokens are good there, and to gateway/front that sessions end at its border. It starts
// no goroutines.
package view
