// Package redistest runs a real Redis for tests. It takes the program from the environment
// variable GATEHOUSE_TEST_REDIS, or redis-server or valkey-server from PATH. The server
// listens on a free port of the loopback address and stores nothing on disk.
//
// It owns the process, and lets tests move its time forward. Without the program it fails
// the tests that need it and says what to do: "make redis" installs it. "make valkey" runs
// those tests with Valkey. It leaves clients and keys to the tests. For each server it
// starts one goroutine, which Kill waits for.
package redistest
