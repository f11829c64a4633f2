// Package demo provides three MCP servers worth talking to, users with different rights,
// and the texts of `gatehouse demo`.
//
// It owns the servers (notes: stateless over HTTP; ops: stateful over HTTP; handbook:
// stdio, this program started again), the configuration and policy of a gateway in front of
// them, a page of users that stands in for the identity provider behind its authorization server, and
// the welcome text. It leaves running the gateway to cmd/gatehouse. It is not used by gateways in
// production.
//
// Start runs the HTTP servers, and the page, on loopback ports, with a goroutine for
// each; Close ends them and removes the files that were written.
package demo
