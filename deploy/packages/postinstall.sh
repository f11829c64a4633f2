#!/bin/sh
# After the files of a deb or rpm are in place: the user, the files that it reads, and a restart after an upgrade.
set -e
case "$1" in
abort-upgrade | abort-remove | abort-deconfigure) exit 0 ;;
esac

if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers gatehouse.conf
elif ! getent passwd gatehouse >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/gatehouse --shell /usr/sbin/nologin gatehouse
fi
for file in /etc/gatehouse /etc/gatehouse/gatehouse.yaml; do
	# The group is left alone where an administrator has set another.
	if [ -e "$file" ] && [ "$(stat -c %G "$file")" = root ]; then chgrp gatehouse "$file"; fi
done

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	# A configuration that does not hold any more must not leave the package half configured.
	systemctl try-restart gatehouse.service || echo "gatehouse does not start: see journalctl -u gatehouse" >&2
fi
