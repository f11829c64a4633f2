// Package redistest runs a real Redis for tests: the program whose path is in the
// environment variable GATEHOUSE_TEST_REDIS, or redis-server or valkey-server from PATH,
// on a free port of the loopback address, with nothing on disk.
//
// It owns the process, and how tests make time pass in it. A machine without the program
// fails the tests that need it, with what to do: "make redis" installs it. "make valkey"
// runs the tests that need it over Valkey.
package redistest
