#!/bin/sh
# Installs what make browser needs into .cache/browser: Chromium where it is missing (apt, as
# root), and what drives it, from npm.
set -eu
cd "$(dirname "$0")/../.."

if ! command -v chromium >/dev/null; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "make browser needs chromium in PATH, and only root can install it here, with apt." >&2
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq || echo "apt-get update failed: trying with the lists that are there" >&2
  apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
fi
chromium --version

mkdir -p .cache/browser
cp internal/browser/npm/package.json internal/browser/npm/package-lock.json .cache/browser/
npm ci --prefix .cache/browser --no-audit --no-fund --ignore-scripts --loglevel=error
