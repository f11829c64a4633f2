// Package view is the section "views": further endpoints, each with a selection of what policy
// allows.
//
// It owns the configuration of a view, and its lists: their items, names, descriptions and order. It
// leaves to policy what a caller may do there, to auth which tokens are valid there, and to
// gateway/front that sessions end at its border. It starts no goroutines.
package view
