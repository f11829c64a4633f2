#!/usr/bin/env bash
# Prints the licences and notices of Go and of every module in the program, for all systems that there are releases for.
# A module without a licence is an error. With "check", it prints nothing and finds licences that licences.json does not
# allow. Both need the modules, and no network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
shopt -s nocasematch

modules() { # FORMAT of a module
	local system
	for system in linux darwin windows; do
		CGO_ENABLED=0 GOOS=$system GOARCH=amd64 go list -deps -f "{{with .Module}}{{if not .Main}}$1{{end}}{{end}}" ./cmd/gatehouse
	done | LC_ALL=C sort -u
}
if [ "${1:-}" = check ]; then
	mapfile -t all < <(modules '{{.Path}}')
	go list -m -json "${all[@]}" | go run go.elastic.co/go-licence-detector@v0.11.1 -includeIndirect \
		-rules deploy/release/licences.json
	exit
fi

echo "Gatehouse contains the following software, each under its own terms."
notices() { # NAME DIRECTORY
	local file found=false
	for file in "$2"/*; do
		[[ ${file##*/} =~ ^(licen[cs]e|copying|notice|patents)([-._].*)?$ && -f $file && $file != *.go ]] || continue
		found=true
		printf '\n%s\n%s: %s\n\n' "$(printf '=%.0s' {1..100})" "$1" "${file##*/}"
		cat "$file"
	done
	$found
}
# The modules, and the directories of their packages.
modules '{{.Path}} {{.Version}}	{{.Dir}}{{"\n"}}{{.Path}} {{.Version}}	{{.Dir}}	{{$.Dir}}' | {
	notices "Go $(go env GOVERSION)" "$(go env GOROOT)"
	while IFS=$'\t' read -r name module package; do
		if [ -z "$package" ]; then
			notices "$name" "$module" || { echo "$name has no licence in $module" >&2; exit 1; }
		elif [ "$package" != "$module" ]; then
			notices "$name ${package#"$module"/}" "$package" || true
		fi
	done
}
