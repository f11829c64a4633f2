#!/usr/bin/env bash
# Builds the release of the commit at hand twice, in two clones, and tries what it has: make release-check.
# Needs root and Linux, for the packages are installed over a throw-away layer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source=$PWD commit=$(git rev-parse HEAD)
goreleaser=${GORELEASER:?make release-check says which}
work=$(mktemp -d)
processes=()
finish() {
	[ "${#processes[@]}" -eq 0 ] || kill "${processes[@]}" 2>/dev/null || true
	rm -rf "$work"
}
trap finish EXIT
step() { echo "-- $*"; }
fail() {
	echo "release-check: $*" >&2
	exit 1
}

mkdir "$work/layer"
apart=true
if ! LAYER=$work/layer unshare --mount --pid --fork --net bash -euc '
	ip link set lo up && mount -t tmpfs layer "$LAYER" && cd "$LAYER" && mkdir upper work root
	mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work layer root && mount -t proc proc root/proc' 2>/dev/null; then
	apart=false
	echo "release-check: mounts or namespaces are not allowed here, so the deb is not installed and the image does not run"
fi

step "two builds from two directories are equal"
for clone in one another/place; do
	git clone -q --no-tags "file://$source" "$work/$clone"
	git -C "$work/$clone" -c advice.detachedHead=false checkout -q "$commit"
	git -C "$work/$clone" tag v0.0.1-check
	(cd "$work/$clone" && $goreleaser check >/dev/null && $goreleaser release --clean --skip=publish,validate >"$work/log" 2>&1 || { cat "$work/log"; exit 1; })
done
cd "$work/one"
cmp dist/checksums.txt "$work/another/place/dist/checksums.txt" || fail "two builds differ"
for system in linux_amd64 linux_arm64 darwin_amd64 darwin_arm64 windows_amd64 windows_arm64; do
	grep -q '"purl": "pkg:golang/golang.org/x/crypto@v' dist/gatehouse_*_$system.cdx.json || fail "$system has no list of its modules"
	grep -q "_$system.cdx.json\$" dist/checksums.txt || fail "the checksums lack the list of modules of $system"
done

version=$(basename dist/gatehouse_*_linux_amd64.tar.gz | cut -d_ -f2)

step "the manifests"
for repository in homebrew-tap scoop-bucket winget-pkgs; do
	git init -q --bare -b main "$work/manifests/$repository"
	git -C "$work/manifests/$repository" config uploadpack.allowFilter true
	seed=$(git -C "$work/manifests/$repository" -c user.name=a -c user.email=a commit-tree -m seed "$(git hash-object -wt tree /dev/null)")
	git -C "$work/manifests/$repository" update-ref refs/heads/main "$seed"
done
for _ in once again; do deploy/release/manifests.sh "$version" "file://$work/manifests"; done
manifest() { # REPOSITORY BRANCH FILE LOCAL FILE
	git -C "$work/manifests/$1" show "$2:$3" | cmp - "dist/$4" || fail "$1 has no $3"
	[ "$(git -C "$work/manifests/$1" rev-list --count "$2")" = 2 ] || fail "$1 has commits of nothing"
}
manifest homebrew-tap main Casks/gatehouse.rb homebrew/Casks/gatehouse.rb
for page in gatehouse gatehouse-serve; do
	grep -q "manpage \"man/$page.1.gz\"" dist/homebrew/Casks/gatehouse.rb || fail "Homebrew installs no manual page $page"
done
manifest scoop-bucket main gatehouse.json scoop/gatehouse.json
manifest winget-pkgs "gatehouse-$version" {,winget/}"manifests/g/Gatehouse/Gatehouse/$version/Gatehouse.Gatehouse.installer.yaml"

step "the program"
program=$PWD/$(echo dist/gatehouse_linux_amd64_*/gatehouse)
got=$("$program" --version)
[[ $got == "gatehouse v0.0.1-check (revision $commit, go1."* ]] || fail "the version is: $got"
! readelf -l "$program" | grep -q INTERP || fail "the program is not static"
for program_file in dist/gatehouse_*/gatehouse*; do
	[ "$(stat -c %s "$program_file")" -lt $((50 << 20)) ] || fail "$program_file has 50 MiB or more: docs/installing.md says what weighs"
done
for file in NOTICE LICENSE man/gatehouse-serve.1.gz completions/gatehouse.powershell gatehouse; do
	tar -tzf dist/gatehouse_*_linux_arm64.tar.gz "$file" >/dev/null || fail "the archive has no $file"
done
for shell in bash zsh fish; do
	"$shell" -n ".cache/release/completions/gatehouse.$shell" || fail "$shell cannot read its completions"
done

step "the unit"
systemd-analyze security --offline=true --threshold=20 deploy/systemd/gatehouse.service >/dev/null ||
	fail "the unit is exposed: systemd-analyze security --offline=true deploy/systemd/gatehouse.service"

step "the install script"
VERSION=$version BASE=file://$PWD/dist DIR=$work/bin PATH=/usr/bin:/bin sh deploy/install.sh >/dev/null 2>&1
cmp "$program" "$work/bin/gatehouse"
cp -r dist "$work/tampered" && echo more >>"$(echo "$work"/tampered/*_linux_amd64.tar.gz)"
if out=$(VERSION=$version BASE=file://$work/tampered DIR=$work/none PATH=/usr/bin:/bin sh deploy/install.sh 2>&1) ||
	[[ $out != *"does not have the checksum"* ]] || [ -e "$work/none" ]; then
	fail "the install script takes a changed archive: $out"
fi

step "the packages"
rpm -qpl dist/gatehouse_*_linux_amd64.rpm 2>/dev/null | grep -qx /usr/lib/systemd/system/gatehouse.service || fail "the rpm has no unit"
rpm -qpc dist/gatehouse_*_linux_amd64.rpm 2>/dev/null | grep -qx /etc/gatehouse/gatehouse.yaml || fail "the rpm has no configuration"
! $apart || DEB=$(echo "$PWD"/dist/gatehouse_*_linux_amd64.deb) LAYER=$work/layer unshare --mount --pid --fork --net bash -euc '
	ip link set lo up
	mount -t tmpfs layer "$LAYER" && cd "$LAYER" && mkdir upper work root
	mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work layer root
	cp "$DEB" root/gatehouse.deb && mount --bind /dev root/dev && mount -t proc proc root/proc && mount -t tmpfs run root/run
	exec chroot root bash -eu' <"$source/deploy/release/package.sh" || fail "the deb is not as it should be"

step "the image"
make -s release-tools DIR="$work"
crane=$work/crane helm=$work/helm
"$crane" registry serve --address 127.0.0.1:0 >"$work/registry" 2>&1 &
processes+=($!)
for _ in {1..300}; do
	port=$(sed -n 's/.*serving on port \([0-9]*\).*/\1/p' "$work/registry")
	[ -z "$port" ] || break
	sleep 0.1
done
# The true base cannot be pulled where only mirrors of packages are in reach: this one has what programs expect of it.
mkdir -p "$work/base"/{etc/ssl/certs,home/nonroot,tmp,usr/share} && chmod 1777 "$work/base/tmp"
echo nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin >"$work/base/etc/passwd"
cp /etc/ssl/certs/ca-certificates.crt "$work/base/etc/ssl/certs" 2>/dev/null || true
tar -C "$work/base" -cf "$work/base.tar" .
for architecture in amd64 arm64; do
	"$crane" append --oci-empty-base --new_layer "$work/base.tar" --new_tag "127.0.0.1:$port/base:$architecture" >/dev/null 2>&1
	"$crane" mutate "127.0.0.1:$port/base:$architecture" --set-platform "linux/$architecture" --tag "127.0.0.1:$port/base:$architecture" >/dev/null 2>&1
done
"$crane" index append -m "127.0.0.1:$port/base:amd64" -m "127.0.0.1:$port/base:arm64" -t "127.0.0.1:$port/base:both" >/dev/null 2>&1
image=$(CRANE=$crane deploy/release/image.sh "127.0.0.1:$port/gatehouse" "$version" "127.0.0.1:$port/base:both" 2>"$work/log") || fail "$(cat "$work/log")"
again=$(CRANE=$crane deploy/release/image.sh "127.0.0.1:$port/again" "$version" "127.0.0.1:$port/base:both" 2>/dev/null)
[ "${image#*@}" = "${again#*@}" ] || fail "two images differ"
settings=$("$crane" config --platform linux/arm64 "$image")
for want in '"architecture":"arm64"' '"User":"65532:65532"' '"Entrypoint":\["/gatehouse"\]' "org.opencontainers.image.version\":\"$version\""; do
	grep -q "$want" <<<"$settings" || fail "the image has no $want: $settings"
done
mkdir "$work/rootfs"
"$crane" export --platform linux/amd64 "$image" - | tar -x -C "$work/rootfs"
mkdir -p "$work/rootfs/etc/gatehouse" "$work/rootfs/proc"
printf '%s\n' 'listen: 127.0.0.1:0' 'admin: {listen: 127.0.0.1:19090}' 'upstreams: [{name: handbook, command: [/gatehouse, demo-handbook]}]' \
	>"$work/rootfs/etc/gatehouse/gatehouse.yaml"
# A network of its own: whatever runs beside it may have the port.
! $apart || ROOT=$work/rootfs unshare --mount --pid --fork --net bash -euc '
	ip link set lo up
	mount --bind "$ROOT" "$ROOT" && mount -t proc proc "$ROOT/proc" && mount -t tmpfs tmp "$ROOT/tmp" -o mode=1777
	mount -o remount,bind,ro "$ROOT"
	if touch "$ROOT/etc/new" 2>/dev/null; then exit 1; fi
	inside() { chroot --userspec=65532:65532 "$ROOT" /gatehouse "$@"; }
	chroot --userspec=65532:65532 "$ROOT" /gatehouse serve --config /etc/gatehouse/gatehouse.yaml 2>"$ROOT.log" & gateway=$!
	for _ in {1..600}; do
		! inside health --ready -c /etc/gatehouse/gatehouse.yaml >/dev/null 2>&1 || break
		sleep 0.1
	done
	inside health --ready -c /etc/gatehouse/gatehouse.yaml || { cat "$ROOT.log"; exit 1; }
	kill $gateway && wait $gateway
	! inside health -c /etc/gatehouse/gatehouse.yaml >/dev/null 2>&1' || fail "the image does not run on a read-only root"

step "the chart"
chart=$(HELM=$helm deploy/release/chart.sh "127.0.0.1:$port/charts" "$version" --plain-http)
[[ $chart == *@sha256:* ]] || fail "the chart is not pushed: $chart"
"$helm" template gatehouse "oci://127.0.0.1:$port/charts/gatehouse" --version "$version" --plain-http \
	--kube-version 1.35.0 -f deploy/helm/gatehouse/ci/minimal-values.yaml --set image.tag= 2>"$work/log" >"$work/objects" || fail "$(cat "$work/log")"
grep -q "image: ghcr.io/gatehouse-mcp/gatehouse:$version\$" "$work/objects" || fail "the chart does not run the image of its version"
echo "release-check: all is well"
