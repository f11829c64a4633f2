// Command bench compares the cost of the gateway with that of a bare reverse proxy (make
// bench).
//
// It starts a lean MCP server, httputil.ReverseProxy in front of it, and the real gatehouse
// in front of it, each as a process, and generates the load itself. Each round runs all
// scenarios. Within a scenario, direct, bare and gatehouse take turns, so that a busy
// machine slows down all three. The report has medians over the rounds. CPU is that of the
// proxy's process alone. Every answer is checked, and the server counts its requests: a
// wrong answer, a lost event or a second request upstream fails the run. Slowness fails it
// only with -gate.
//
// With -replicas it compares a single gateway with two replicas on one Redis: a call at the
// owner of its session, and a call that is forwarded to the owner.
//
// With -idle it measures the memory of open streams, sessions and connections that do
// nothing, each kind at a gateway of its own.
//
// It owns the server, the load and the numbers. It leaves building and processes to
// interop/rig. During a measurement each client runs in a goroutine, which the measurement
// waits for.
package main
