// Package interop runs third-party MCP clients and servers through a real gateway (make
// interop), with and without OAuth, at an issuer and at the gateway's own authorization server.
//
// Most of its tests have the build tag interop, because they install pinned packages from
// npm, PyPI and the Go module proxy below .cache. What needs no such package, such as the settings in
// docs/identity-providers.md, is tested without the tag. It also builds deploy/kubernetes with
// Kustomize and deploy/helm with Helm, holds the outcome to the schemas of Kubernetes, and has Prometheus run what
// deploy has for it. It owns the programs to run and
// their expected results. It leaves installation and processes to interop/rig, the
// specification's own suite to internal/conformance, and pairs of revisions without
// third-party software to internal/e2e. Every process that it starts ends with the test.
package interop
