// Package faultproxy is a TCP proxy for tests that simulates faulty networks. It delays,
// drips, holds back, closes and resets connections, and heals. It listens on the loopback
// address and connects to nothing else.
//
// It owns its connections and goroutines: two for each connection, and one that accepts.
// Close ends them all and waits for them. It leaves the meaning of the bytes to the test.
package faultproxy
