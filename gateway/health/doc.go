// Package health says whether a replica takes new sessions, and how what it depends on is.
//
// It owns the answer to /readyz, and how much of it a stranger learns. What operators read at leisure
// is up to gateway/servers and gateway/diagnosis. It starts no goroutines.
package health
