#!/bin/sh
# Installs the newest release of Gatehouse, or the one that VERSION says, for the user who runs it:
#
#   curl -fsSLO https://raw.githubusercontent.com/gatehouse-mcp/gatehouse/main/deploy/install.sh
#   less install.sh && sh install.sh
#
# VERSION=1.2.3       another version than the newest
# DIR=/usr/local/bin  where the program goes; default: ~/.local/bin
# BASE=URL            a mirror with the files of the release, for example file:///mnt/gatehouse
#
# It compares the checksum of what it downloads. If cosign is installed, it verifies the signature of the checksums, too.
set -eu

repository=gatehouse-mcp/gatehouse
identity="^https://github\.com/$repository/\.github/workflows/release\.yml@refs/tags/v"
issuer=https://token.actions.githubusercontent.com

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

get() { # URL FILE
	curl -fsSL --proto '=https,file' --retry 3 -o "$2" "$1" || fail "cannot download $1"
}

digest() {
	if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1
}

main() {
	case $(uname -s) in
	Linux) system=linux ;;
	Darwin) system=darwin ;;
	*) fail "there is no release for $(uname -s) here; for Windows see docs/installing.md" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) machine=amd64 ;;
	aarch64 | arm64) machine=arm64 ;;
	*) fail "there is no release for $(uname -m); build it with go install" ;;
	esac
	command -v curl >/dev/null || fail "curl is needed"

	version=${VERSION:-}
	if [ -z "$version" ]; then
		[ -z "${BASE:-}" ] || fail "a mirror needs VERSION=1.2.3"
		latest=$(curl -fsSLI --proto '=https' -o /dev/null -w '%{url_effective}' \
			"https://github.com/$repository/releases/latest") || fail "cannot find the newest release"
		version=${latest##*/}
	fi
	version=${version#v}
	case $version in
	[0-9]*) ;;
	*) fail "\"$version\" is no version such as 1.2.3" ;;
	esac
	base=${BASE:-https://github.com/$repository/releases/download/v$version}
	archive=gatehouse_${version}_${system}_${machine}.tar.gz

	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	get "$base/checksums.txt" "$work/checksums.txt"
	if command -v cosign >/dev/null; then
		get "$base/checksums.txt.sigstore.json" "$work/bundle"
		cosign verify-blob --bundle "$work/bundle" --certificate-identity-regexp "$identity" \
			--certificate-oidc-issuer "$issuer" "$work/checksums.txt" >&2 ||
			fail "the signature of the checksums is not that of a release"
	else
		echo "install.sh: cosign is not installed, so the signature is not verified" >&2
	fi
	get "$base/$archive" "$work/$archive"
	want=$(awk -v file="$archive" '$2 == file { print $1 }' "$work/checksums.txt")
	[ -n "$want" ] || fail "checksums.txt does not have $archive"
	[ "$(digest "$work/$archive")" = "$want" ] || fail "$archive does not have the checksum of the release"

	directory=${DIR:-$HOME/.local/bin}
	tar -xzf "$work/$archive" -C "$work" gatehouse
	mkdir -p "$directory"
	# A program that runs cannot be written to, but its name can be given to another.
	cp "$work/gatehouse" "$directory/.gatehouse.$$"
	chmod 755 "$directory/.gatehouse.$$"
	mv -f "$directory/.gatehouse.$$" "$directory/gatehouse"
	"$directory/gatehouse" --version
	case ":$PATH:" in
	*":$directory:"*) ;;
	*) echo "$directory is not in PATH" ;;
	esac
}

main
