// Package demo is three MCP servers worth talking to, users who may do different
// things with them, and what `gatehouse demo` says about all of it.
//
// It owns the servers (notes: stateless over HTTP; ops: stateful over HTTP;
// handbook: stdio, the program itself started again), the configuration that puts a
// gateway in front of them, with its policy, and the welcome text. It leaves signing
// in to gateway/demo/issuer and running the gateway to cmd/gatehouse, and is no part of
// a gateway in production.
//
// Start runs the HTTP servers, and the issuer, on loopback ports; Close ends them and
// removes the files that were written.
package demo
