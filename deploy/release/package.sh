# Installs, starts, upgrades, removes and purges the deb, for deploy/release/check.sh, which runs this in a throw-away layer.
export DEBIAN_FRONTEND=noninteractive
fail() {
	echo "the deb: $*" >&2
	exit 1
}
dpkg -i /gatehouse.deb >/dev/null
[ "$(stat -c '%U:%G %a' /etc/gatehouse/gatehouse.yaml)" = "root:gatehouse 640" ] || fail "$(stat -c '%U:%G %a' /etc/gatehouse/gatehouse.yaml)"
[ "$(stat -c '%U:%G %a' /etc/gatehouse/secrets)" = "root:root 700" ] || fail "who reads the secrets"
dpkg-query -W -f '${Conffiles}' gatehouse | grep -q /etc/gatehouse/gatehouse.yaml || fail "the configuration is no conffile"
install -d -o gatehouse -g gatehouse -m 700 /var/lib/gatehouse
as=(setpriv --reuid gatehouse --regid gatehouse --clear-groups --no-new-privs --bounding-set=-all)
"${as[@]}" gatehouse check --config /etc/gatehouse/gatehouse.yaml >/dev/null || fail "its configuration is refused"

# The service, by hand as the unit says: there is no systemd in this layer.
of() { sed -n "s/^$1=//p" /usr/lib/systemd/system/gatehouse.service; }
cd "$(of WorkingDirectory)"
(umask "$(of UMask)" && exec "${as[@]}" $(of ExecStart) >/service.log 2>&1) & MAINPID=$!
healthy() { "${as[@]}" gatehouse health --ready -c /etc/gatehouse/gatehouse.yaml >/dev/null 2>&1; }
for _ in {1..600}; do
	! healthy || break
	sleep 0.1
done
healthy || fail "the service does not start: $(cat /service.log)"
[ "$(stat -c '%U %a' /var/lib/gatehouse/state.db)" = "gatehouse 600" ] || fail "who reads the state"
export MAINPID
eval "$(of ExecReload)" && kill "$MAINPID" && wait "$MAINPID" || fail "the service does not stop well: $(cat /service.log)"
cd /

echo "# mine" >>/etc/gatehouse/gatehouse.yaml
dpkg -i /gatehouse.deb >/dev/null
grep -q "# mine" /etc/gatehouse/gatehouse.yaml || fail "an upgrade changes the configuration"
dpkg -r gatehouse >/dev/null
grep -q "# mine" /etc/gatehouse/gatehouse.yaml || fail "a removal takes the configuration"
[ -d /var/lib/gatehouse ] || fail "a removal takes the state"
dpkg -P gatehouse >/dev/null
[ ! -e /etc/gatehouse ] && [ ! -e /var/lib/gatehouse ] || fail "a purge leaves something"
