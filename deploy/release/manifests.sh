#!/usr/bin/env bash
# Commits the manifests of a release in dist to the Homebrew tap and the Scoop bucket, and to a branch of the fork of
# winget-pkgs, from which it makes a pull request:
#
#   deploy/release/manifests.sh 1.2.3 [BASE]
#
# BASE has the three repositories; default: https://github.com/gatehouse-mcp. There is a pull request only from there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=$1 base=${2:-https://github.com/gatehouse-mcp}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

put() { # FILES REPOSITORY DIRECTORY [BRANCH]
	local clone=$work/$2
	git clone -q --depth 1 --filter=blob:none --sparse "$base/$2" "$clone" # winget-pkgs is large
	mkdir -p "$clone/$3"
	cp -r dist/"$1" "$clone/$3"
	git -C "$clone" add --sparse --all
	git -C "$clone" diff --cached --quiet && return # it was there
	git -C "$clone" -c user.name=Gatehouse -c user.email=gatehouse-mcp@users.noreply.github.com commit -qm "gatehouse $version"
	git -C "$clone" push -q ${4:+--force} origin "HEAD:refs/heads/${4:-$(git -C "$clone" symbolic-ref --short HEAD)}"
}
put homebrew/Casks/gatehouse.rb homebrew-tap Casks
put scoop/gatehouse.json scoop-bucket .
put winget/manifests/. winget-pkgs manifests "gatehouse-$version"
[ $# = 2 ] || gh pr view --repo microsoft/winget-pkgs "gatehouse-mcp:gatehouse-$version" >/dev/null 2>&1 || gh pr create --repo microsoft/winget-pkgs --head "gatehouse-mcp:gatehouse-$version" \
	--title "New version: Gatehouse.Gatehouse version $version" --body "The release: https://github.com/gatehouse-mcp/gatehouse/releases/tag/v$version"
