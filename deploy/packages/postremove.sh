#!/bin/sh
# After the files of a deb or rpm are gone. Only dpkg --purge takes the state and the secrets, too.
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
if [ "$1" = purge ]; then
	rm -rf /var/lib/gatehouse /etc/gatehouse
fi
