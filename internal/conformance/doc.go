// Command conformance runs the official suite, @modelcontextprotocol/conformance,
// against a gateway (make conformance).
//
// Behind the gateway stands one upstream without a prefix, the go-sdk's conformance
// server, so the suite finds the fixed names that it looks for. Each of the suite's
// clients, one a revision that it speaks, runs three times: straight at that server in
// the client's own era, through the gateway with the same server behind it, and
// through the gateway with the server in the other era ("-crossed"). What the first
// passes the other two have to pass as well. For the same era nothing excuses a loss;
// between eras baseline.yml can, by saying why the server's revision cannot express
// it. What fails directly may fail through us too, if baseline.yml says why, and so it
// must say why where the suite itself finds that a check does not apply to us.
//
// It owns the legs, the comparison, the baseline, the asker, a server for the
// scenarios in which the conformance server asks in the words of one era only, and the
// tasker, one for those of the tasks extension, of which the conformance server has
// none; it leaves installing and processes to interop/rig. A goroutine for each client,
// and those of the tasker, end before the run does, as does every process that it starts.
package main
