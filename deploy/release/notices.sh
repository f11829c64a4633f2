#!/usr/bin/env bash
# Prints the licences and notices of Go and of every module in the program, for all systems that there are releases for.
# A module without a licence is an error. Needs the modules, no network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
shopt -s nocasematch

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
for system in linux darwin windows; do # the modules, and the directories of the packages in them
	CGO_ENABLED=0 GOOS=$system GOARCH=amd64 go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}	{{.Dir}}
{{.Path}} {{.Version}}	{{.Dir}}	{{$.Dir}}{{end}}{{end}}' ./cmd/gatehouse
done | LC_ALL=C sort -u | {
	notices "Go $(go env GOVERSION)" "$(go env GOROOT)"
	while IFS=$'\t' read -r name module package; do
		if [ -z "$package" ]; then
			notices "$name" "$module" || { echo "$name has no licence in $module" >&2; exit 1; }
		elif [ "$package" != "$module" ]; then
			notices "$name ${package#"$module"/}" "$package" || true
		fi
	done
}
