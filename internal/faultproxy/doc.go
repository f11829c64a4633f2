// Package faultproxy is a TCP proxy for tests that does to connections what networks do:
// it delays, drips, holds back, ends and resets them, and heals. It listens on the loopback
// address and connects to nothing else.
//
// It owns its connections and the goroutines that serve them, two for each connection and
// one that accepts; Close ends them all and waits. What the bytes mean it does not know.
package faultproxy
