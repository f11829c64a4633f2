// Command soak has clients of all revisions work through three replicas of the gateway
// while everything around them fails in turn (make soak).
//
// It starts three gatehouse serve, each a process of its own, a real Redis, an issuer and
// servers of every revision and transport; a round-robin balancer stands in front. Clients
// call, cancel, answer questions, drop streams and come back, subscribe and list, each by
// a random source of its own, while faults are injected one after the other. Afterwards the
// books have to balance: each call was answered with what it asked for or failed in a way
// that a fault of that time explains, none was answered or run twice, none got what
// another's is, whoever subscribes hears of changes, all heals within a minute, the replicas
// hold no more goroutines, files and memory than before, and nothing is left at the servers.
// What does not balance is printed, and the exit code is 1. How to read the report is in
// docs/failure-modes.md.
//
// -seed repeats what is done and in which order; how it interleaves is up to the machine.
//
// One goroutine per client, one for its standing stream and one that watches whether the
// machine has time for all that run and are waited for.
// Processes are ended by those who started them. It needs Linux: replicas listen at
// addresses of their own (127.0.0.2 and on), which nothing takes while they are away.
package main
