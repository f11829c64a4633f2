#!/bin/sh
# Installs what drives Chromium in make browser into .cache/browser, from npm.
set -eu
cd "$(dirname "$0")/../.."
chromium --version
mkdir -p .cache/browser
cp internal/browser/npm/package.json internal/browser/npm/package-lock.json .cache/browser/
npm ci --prefix .cache/browser --no-audit --no-fund --ignore-scripts --loglevel=error
