// Command bench measures what the gateway costs beside a bare reverse proxy (make
// bench).
//
// It starts a lean MCP server, httputil.ReverseProxy in front of it, and the real
// gatehouse in front of it, each a process of its own, and is the load generator
// itself. Each round goes through all scenarios and, within one, through direct,
// bare and gatehouse one after the other, so that a busy machine weighs on all
// three; what is printed are medians over the rounds. CPU is the proxy's process
// alone. Every answer is checked, and the server counts what reaches it: a wrong
// answer, a lost event or a second request upstream fails the run, slowness does
// only with -gate.
//
// With -replicas it compares a gateway alone with two replicas over a Redis: a call at the
// owner of its session, and one that is forwarded to it.
//
// With -idle it measures what streams, sessions and connections cost that are only open,
// in memory, each kind at a gateway of its own.
//
// It owns the server, the load and the numbers; it leaves building and processes to
// interop/rig. One goroutine per client runs during a measurement and is waited for.
package main
