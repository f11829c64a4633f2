// Package gateway is the process: it reads a configuration, builds everything that
// the configuration names, binds it to a port, serves and stops.
//
// The way of a request is this, and each part has its own package:
//
//	routes.go -> auth.Require -> front -> pipeline.go -> catalog -> upstream
//
// It owns the configuration file (the loader in config_*.go is strict: every
// problem is found at once, with its line), the order of start and stop
// (lifecycle.go), what the configuration shapes (graph.go), the order of the
// pipeline (pipeline.go) and the routes (routes.go). It leaves what keys mean to
// the packages that own them, signals and exit codes to cmd/gatehouse, and
// everything about MCP to the packages below.
//
// A Gateway runs two goroutines of its own, one that serves HTTP and one for the
// catalog's watches; Stop waits for both. Nothing is global: two gateways live side
// by side in one process.
package gateway
