// Package gateway is the process: it reads a configuration, builds everything that the
// configuration names, binds a port, serves and stops.
//
// This is the path of a request. Each part has its own package:
//
//	routes.go -> auth.Require -> front -> handover -> pipeline.go -> catalog -> upstream
//
// Requests that other replicas forward arrive through internal/cluster at front.Forwarded, and
// continue from there.
//
// It owns the configuration (config.go, config_load.go), the order of start and stop
// (lifecycle.go), what the configuration shapes (graph.go) and how a reload replaces it
// (reload.go), the order of the pipeline (pipeline.go) and the routes (routes.go). It leaves
// the meaning of keys to the packages that own them, signals and exit codes to cmd/gatehouse,
// and everything about MCP to the packages below.
//
// A Gateway runs a goroutine that serves HTTP, one for the catalog's watches, one for the keys
// of issuers, one that watches the configuration file, and one for each upstream that a reload
// has replaced and that still has calls. With an admin address, another one serves operators.
// Stop waits for all of them. Nothing is global: two gateways can run in one process.
package gateway
