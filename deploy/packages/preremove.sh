#!/bin/sh
# Before the files of a deb or rpm go: the service ends. An upgrade leaves it running until the new version is there.
set -e
case "$1" in
upgrade | failed-upgrade | deconfigure | 1) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl --no-reload disable --now gatehouse.service gatehouse.socket || true
fi
