#!/bin/sh
# Installs redis-server for the tests where neither it nor valkey-server is in PATH.
# Its service is not started: each test runs a server of its own.
set -eu

for program in redis-server valkey-server; do
  if command -v "$program" >/dev/null; then exit 0; fi
done
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "The tests need redis-server (Redis 7) or valkey-server in PATH, and only root can install it here, with apt." >&2
  echo "Install it with your system's packages, such as: sudo apt-get install redis-server. Its service need not run." >&2
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
apt-get install -y -qq --no-install-recommends redis-server >/dev/null
redis-server --version
