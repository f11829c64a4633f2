// Package demo provides three MCP servers worth talking to, users with different rights,
// and the texts of `gatehouse demo`.
//
// It owns the servers (notes: stateless over HTTP; ops: stateful over HTTP; handbook:
// stdio, this program started again), the configuration and policy of a gateway in front of
// them, and the welcome text. It leaves sign-in to gateway/demo/issuer and running the
// gateway to cmd/gatehouse. It is not used by gateways in production.
//
// Start runs the HTTP servers, and the issuer, on loopback ports, with a goroutine for
// each; Close ends them and removes the files that were written.
package demo
