#!/usr/bin/env bash
# Packs the Helm chart with the version of a release, and pushes it:
#
#   deploy/release/chart.sh ghcr.io/gatehouse-mcp/charts 1.2.3 [FLAG...]
#
# It runs the image of that version. FLAGs are those of helm push. Prints the reference of the chart, with its digest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
registry=$1 version=$2
shift 2
helm=${HELM:-helm}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$helm" package deploy/helm/gatehouse --version "$version" --app-version "$version" --destination "$work" >/dev/null
pushed=$("$helm" push "$work/gatehouse-$version.tgz" "oci://$registry" "$@" 2>&1) || {
	echo "$pushed" >&2
	exit 1
}
echo "$registry/gatehouse@$(sed -n 's/^Digest: //p' <<<"$pushed")"
