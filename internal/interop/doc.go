// Package interop runs other people's MCP clients and servers through a real
// gateway (make interop).
//
// Its test stands behind the build tag interop, because it installs pinned
// packages from npm and PyPI below .cache. It owns what is run and what has to
// come out, with and without OAuth; it leaves installing and processes to interop/rig, the specification's
// own suite to internal/conformance, and the pairs of revisions that need no
// foreign software to internal/e2e. Every process it starts ends with the test.
package interop
