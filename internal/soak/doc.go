// Command soak runs clients of all revisions against three replicas of the gateway while
// everything around them fails in turn (make soak).
//
// It starts three gatehouse processes, a real Redis, an issuer, and servers of every
// revision and transport, with a round-robin balancer in front. Clients call, cancel,
// answer questions, drop and resume streams, subscribe and list, each from its own random
// source. Meanwhile faults are injected one after another. At the end the books must
// balance. Each call got its own answer, or failed in a way that a fault of that time
// explains. No call was answered or run twice, and no client got what belongs to another.
// Every subscriber heard of changes. All healed within a minute. The replicas hold no more
// goroutines, files and memory than before, and the servers hold nothing. The command
// prints what does not balance, and its exit code is then 1. docs/failure-modes.md explains
// the report.
//
// -seed repeats the actions and their order; how they interleave is up to the machine.
//
// It starts one goroutine for each client, one for each GET stream, and one that watches
// whether the machine is overloaded. The run waits for all of them. Whoever starts a
// process ends it. It needs Linux: replicas listen at loopback addresses of their own (from
// 127.0.0.2 on), which nothing else takes while they are down.
package main
