package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/gatehouse-mcp/gatehouse/gateway/doorway"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

const (
	defaultListen   = "127.0.0.1:8080"
	defaultEndpoint = "/mcp"
)

// checkListen accepts a host and a port number, the path of a socket, and the name of one that is passed.
func checkListen(listen string) error {
	switch kind, name := doorway.Kind(listen); kind {
	case doorway.Unix:
		return doorway.CheckSocket(name)
	case doorway.Systemd:
		return nil
	}
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("%q is not host:port, such as %s", listen, defaultListen)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("port %q: want a number from 0 to 65535", port)
	}
	return nil
}

// checkAddresses reports listeners that would be at one address, and wrong addresses for proofs.
func checkAddresses(endpoint, replicas, operators string, proofs ...*tlsfiles.ACME) (found problems.List) {
	type listener struct{ key, host, port string }
	type address struct{ key, at string }
	var others []listener
	all := []address{{"listen", endpoint}, {"replicas.listen", replicas}, {"admin.listen", operators}}
	for i, acme := range proofs {
		if acme != nil && acme.HTTPListen != "" {
			all = append(all, address{[]string{"tls", "admin.tls"}[i] + ".acme.http_listen", acme.HTTPListen})
			found.At(all[len(all)-1].key, checkListen(acme.HTTPListen))
		}
	}
	for _, l := range all {
		host, port, err := net.SplitHostPort(l.at)
		if err != nil || port == "0" {
			continue
		}
		for _, o := range others {
			found.When(o.port == port && (o.host == host || everyHost(o.host) || everyHost(host)), "%s: %s: %s is there already",
				l.key, l.at, o.key)
		}
		others = append(others, listener{l.key, host, port})
	}
	return found
}

// everyHost reports whether a host stands for all addresses of the machine.
func everyHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// ownURL returns the URL of the endpoint at its listener.
func ownURL(certificates tlsfiles.Server, host string) string {
	if kind, _ := doorway.Kind(host); kind != doorway.TCP {
		host = "localhost"
	}
	return certificates.Scheme() + "://" + host + defaultEndpoint
}
