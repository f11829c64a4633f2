// Package gateway is the process: it reads a configuration, builds everything that
// the configuration names, binds it to a port, serves and stops.
//
// The way of a request is this, and each part has its own package:
//
//	routes.go -> auth.Require -> front -> handover -> pipeline.go -> catalog -> upstream
//
// What other replicas forward comes by internal/cluster to front.Forwarded, and goes on
// from there.
//
// It owns the configuration (config.go, config_load.go), the order of start and stop
// (lifecycle.go), what the configuration shapes (graph.go) and how a reload replaces it
// (reload.go), the order of the pipeline (pipeline.go) and the routes (routes.go). It
// leaves what keys mean to the packages that own them, signals and exit codes to
// cmd/gatehouse, and everything about MCP to the packages below.
//
// A Gateway runs a goroutine that serves HTTP, one for the catalog's watches, one for
// the keys of issuers, one that watches the configuration file, and one for each
// upstream that a reload replaced and that still has calls; Stop waits for all. Nothing
// is global: two gateways can live in one process.
package gateway
