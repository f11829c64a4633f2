// Package demo is three MCP servers worth talking to, and what `gatehouse demo`
// says about them.
//
// It owns the servers (notes: stateless over HTTP; ops: stateful over HTTP;
// handbook: stdio, the program itself started again), the config text that puts
// a gateway in front of them and the welcome text. It leaves running the gateway
// to cmd/gatehouse, and is no part of a gateway in production.
//
// Start runs two HTTP servers on loopback ports; Close ends them.
package demo
