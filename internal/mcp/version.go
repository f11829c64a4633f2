package mcp

import (
	_ "embed"
	"runtime/debug"
	"strings"
)

// archived is the version in an archive of the source, such as GitHub's, which has no repository: git archive writes it
// into the file, as .gitattributes here says.
//
//go:embed archived.txt
var archived string

// Version returns the version of the module that the program was built from, "dev" if neither the build nor an archive
// of the source has recorded one.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	if version := strings.TrimSpace(archived); version != "" && !strings.HasPrefix(version, "$") {
		return version
	}
	return "dev"
}

// UserAgent is the gateway's name in all requests that it sends.
func UserAgent() string { return "gatehouse/" + Version() }
