#!/usr/bin/env bash
# Makes what archives and packages have beside the program, in .cache/release: notices, manual pages and completions.
# They depend on the commit alone, so that two builds are equal.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=.cache/release
rm -rf "$out" && mkdir -p "$out/man" "$out/completions"
deploy/release/notices.sh >"$out/NOTICE"
CGO_ENABLED=0 GOOS='' GOARCH='' go build -trimpath -ldflags '-s -w' -o "$out/gatehouse" ./cmd/gatehouse
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) "$out/gatehouse" man "$out/man"
gzip -n9 "$out"/man/*.1
for shell in bash zsh fish powershell; do
	"$out/gatehouse" completion "$shell" >"$out/completions/gatehouse.$shell"
done
