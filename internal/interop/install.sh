#!/bin/sh
# Installs the balancers, the forward proxies and the authority for ACME of the tests where they are not in PATH
# (apt, as root). Their services are not started: each test runs programs of its own.
set -eu

missing=
for of in nginx:nginx-light haproxy:haproxy caddy:caddy pebble:pebble tinyproxy:tinyproxy squid:squid openssl:openssl; do
  command -v "${of%%:*}" >/dev/null || missing="$missing ${of##*:}"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "make interop needs$missing in PATH, and only root can install them here, with apt. Their services need not run." >&2
  exit 1
fi
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy" # what is installed does not start
  chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || echo "apt-get update failed: trying with the lists that are there" >&2
apt-get install -y -qq --no-install-recommends $missing >/dev/null
