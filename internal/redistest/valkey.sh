#!/bin/sh
# Prints the path of a valkey-server for the tests. The libraries that it needs are those of redis-server.
set -eu
BACKPORTS=bookworm exec "$(dirname "$0")/debian.sh" valkey-server valkey-server valkey-tools # Debian 12 itself is older than Valkey
