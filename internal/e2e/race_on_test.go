//go:build race

package e2e

// leaks is how many calls TestNothingIsLeft leaves.
const leaks = 2_500

// raceEnabled says that the race detector runs.
const raceEnabled = true
