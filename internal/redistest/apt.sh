#!/bin/sh
# apt.sh PROGRAM:PACKAGE...: installs with apt, as root, the packages of the programs that PATH lacks. A program may have
# alternatives, such as redis-server,valkey-server:redis-server. Services are not started: each test runs its own.
set -eu

missing=
for pair; do
  found=
  for program in $(echo "${pair%%:*}" | tr , ' '); do
    if command -v "$program" >/dev/null; then found=yes; fi
  done
  [ -n "$found" ] || missing="$missing ${pair##*:}"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "These tests need$missing, and only root can install that here, with apt." >&2
  echo "Install it with your system's packages, such as: sudo apt-get install$missing. Services need not run." >&2
  exit 1
fi
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy" # what is installed does not start
  chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
patient='-o DPkg::Lock::Timeout=300 -o Acquire::Retries=3' # waits for other installations
apt-get $patient update -qq || echo "apt-get update failed: trying with the lists that are there" >&2
apt-get $patient install -y -qq --no-install-recommends $missing >/dev/null
