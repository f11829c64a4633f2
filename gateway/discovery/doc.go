// Package discovery writes included files of a configuration with the MCP servers of a Kubernetes cluster.
//
// It owns which Services are servers, their names and URLs, and the files that it writes, one for each
// namespace. It leaves what they may name to the section teams of the configuration, and taking them up to a
// reload. Watch runs in the goroutine of its caller and starts none.
package discovery
