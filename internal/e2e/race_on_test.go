//go:build race

package e2e

// leakWarmUp is how many calls TestNothingIsLeft abandons before the first count, which the
// last count must not exceed; leaks is how many it abandons then.
const (
	leakWarmUp = 300
	leaks      = 600
)

// raceEnabled says whether the race detector runs.
const raceEnabled = true
