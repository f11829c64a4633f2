# Installs, upgrades, removes and purges the deb, for deploy/release/check.sh, which runs this in a throw-away layer of the system.
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
as() { setpriv --reuid gatehouse --regid gatehouse --clear-groups --no-new-privs --bounding-set=-all "$@"; }
as gatehouse check --config /etc/gatehouse/gatehouse.yaml >/dev/null || fail "its configuration is refused"

echo "# mine" >>/etc/gatehouse/gatehouse.yaml
dpkg -i /gatehouse.deb >/dev/null
grep -q "# mine" /etc/gatehouse/gatehouse.yaml || fail "an upgrade changes the configuration"
dpkg -r gatehouse >/dev/null
grep -q "# mine" /etc/gatehouse/gatehouse.yaml || fail "a removal takes the configuration"
[ -d /var/lib/gatehouse ] || fail "a removal takes the state"
dpkg -P gatehouse >/dev/null
[ ! -e /etc/gatehouse ] && [ ! -e /var/lib/gatehouse ] || fail "a purge leaves something"
