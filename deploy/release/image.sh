#!/usr/bin/env bash
# Makes the image of a release from the archives in dist, for both architectures, and pushes it:
#
#   deploy/release/image.sh ghcr.io/gatehouse-mcp/gatehouse 1.2.3 [BASE]
#
# Nothing in it depends on the time. deploy/Dockerfile has the base by its digest, and puts the same files on it from
# the source, built with the Go of its own build image. Prints the reference of the image, with its digest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
name=$1 version=$2
base=${3:-$(sed -n 's/^FROM \(gcr[^ ]*\)$/\1/p' deploy/Dockerfile)}
crane=${CRANE:-go run github.com/google/go-containerregistry/cmd/crane@v0.22.1}
created=$(TZ=UTC0 git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

manifests=()
for architecture in amd64 arm64; do
	root=$work/$architecture
	mkdir "$root"
	tar --extract --file "dist/gatehouse_${version}_linux_$architecture.tar.gz" --directory "$root" LICENSE NOTICE gatehouse
	tar --create --file "$root.tar" --directory "$root" --format=gnu --sort=name --owner=0 --group=0 --numeric-owner \
		--mtime="$created" LICENSE NOTICE gatehouse
	$crane append --platform "linux/$architecture" --base "$base" --new_layer "$root.tar" \
		--new_tag "$name:$version-$architecture" >/dev/null
	$crane mutate "$name:$version-$architecture" --tag "$name:$version-$architecture" --user 65532:65532 \
		--entrypoint /gatehouse --cmd serve,--config,/etc/gatehouse/gatehouse.yaml --workdir / \
		--exposed-ports 8080/tcp,8082/tcp,9090/tcp \
		--label org.opencontainers.image.title=Gatehouse \
		--label "org.opencontainers.image.description=One MCP endpoint in front of many MCP servers" \
		--label org.opencontainers.image.source=https://github.com/gatehouse-mcp/gatehouse \
		--label org.opencontainers.image.licenses=Apache-2.0 \
		--label "org.opencontainers.image.version=$version" \
		--label "org.opencontainers.image.revision=$(git rev-parse HEAD)" \
		--label "org.opencontainers.image.created=$created" >/dev/null
	manifests+=(--manifest "$name:$version-$architecture")
done
$crane index append "${manifests[@]}" --tag "$name:$version" >/dev/null
echo "$name@$($crane digest "$name:$version")"
