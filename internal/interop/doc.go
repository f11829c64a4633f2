// Package interop runs other people's MCP clients and servers through a real
// gateway (make interop), without OAuth and with it.
//
// Its test stands behind the build tag interop, because it installs pinned
// packages from npm and PyPI below .cache; what needs none of them, such as the
// settings that docs/identity-providers.md shows, is tested without the tag. It owns
// what is run and what has to come out; it leaves installing and processes to
// interop/rig, the specification's own suite to internal/conformance, and the pairs
// of revisions that need no foreign software to internal/e2e. Every process it starts
// ends with the test.
package interop
