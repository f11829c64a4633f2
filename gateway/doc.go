// Package gateway is the process. It reads a configuration, builds everything that the
// configuration names, binds a port, serves and stops.
//
// This is the path of a request. Each part has its own package:
//
//	routes.go -> auth.Require -> front -> handover -> pipeline.go -> catalog -> upstream
//
// Requests that other replicas forward arrive through internal/cluster at front.Forwarded, and
// continue from there.
//
// Three structs are made one after the other, and end in reverse: shared, which outlives graphs and
// has what replicas share (stores.go), the graph that the configuration shapes (graph.go), and
// serving (gateway.go). Parts that are older than a graph ask for the one in force (current.go).
//
// It owns the order of start and stop (gateway.go), how a reload replaces the graph (reload.go), the
// order of the pipeline (pipeline.go), the routes (routes.go), the sources of answers to operators
// (operators.go), and connecting to servers without serving clients (inspect.go). It leaves the
// configuration to gateway/config, records to gateway/observe, the answers themselves to the packages
// that gateway/admin is made of, what a trial finds to gateway/trial, readiness to gateway/diagnose,
// the time that each step of a stop gets to gateway/lifecycle, signals and exit codes to
// cmd/gatehouse, and everything about MCP to the packages below.
//
// A Gateway runs a goroutine that serves HTTP, one for the catalog's watches, one for the keys
// of issuers, one that watches the configuration file, and one for each upstream that a reload
// has replaced and that still has calls. With an admin address, another one serves operators.
// Stop waits for all of them. Nothing is global: two gateways can run in one process.
package gateway
