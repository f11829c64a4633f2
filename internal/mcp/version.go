package mcp

import "runtime/debug"

// Version returns the version of the module that the program was built from, "dev" for a checkout.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}

// UserAgent is the gateway's name in all requests that it sends.
func UserAgent() string { return "gatehouse/" + Version() }
