// Command conformance runs the official suite, @modelcontextprotocol/conformance,
// against a gateway (make conformance).
//
// Behind the gateway stands one upstream without a prefix, the go-sdk's conformance
// server, so the suite finds the fixed names that it looks for. Each leg runs the
// suite twice: straight at that server, and through the gateway. What a server
// passes it has to pass through us as well; that is never excused. What it fails
// itself may fail through us too, if baseline.yml says why, and so it must say why
// where the suite itself finds that a check does not apply to us.
//
// It owns the legs, the comparison and the baseline; it leaves installing and
// processes to interop/rig. It starts no goroutines of its own, and every process
// that it starts has ended when it does.
package main
