//go:build !race

package e2e

// leaks is how many calls TestNothingIsLeft abandons.
const leaks = 10_000

// raceEnabled says whether the race detector runs.
const raceEnabled = false
