// Command conformance runs the official suite, @modelcontextprotocol/conformance, against a
// gateway (make conformance).
//
// The gateway has one upstream without a prefix, the go-sdk's conformance server, so the
// suite finds the fixed names that it looks for. For each revision that the suite's clients
// speak, the suite runs three times: directly against that server in the client's own era,
// through the gateway with the same server behind it, and through the gateway with a server
// of the other era ("-crossed"). Whatever passes directly must pass through the gateway as
// well. For the same era nothing excuses a loss. Between eras baseline.yml can excuse one,
// by saying why the server's revision cannot express it. What fails directly may fail
// through the gateway too, if baseline.yml says why. That includes checks that the suite
// itself says do not apply to us.
//
// It owns the legs, the comparison, the baseline and two servers: the asker, for scenarios
// in which the conformance server can ask in the words of one era only, and the tasker, for
// the tasks extension, which the conformance server lacks. It leaves installation and
// processes to interop/rig. It starts one goroutine for each client, and the tasker starts
// some; all of them, and all processes, end before the run does.
package main
