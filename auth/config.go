package auth

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// ModeNone is the mode without authentication: all requests come from one user.
const ModeNone = "none"

// Config is the section "auth". Its zero value means mode none.
type Config struct {
	// Mode is how callers prove who they are: "none", the default and the only one
	// there is. It needs a loopback listener. Read at start.
	Mode string `yaml:"mode"`
}

// Validate reports what is wrong.
func (c Config) Validate() error {
	if c.Mode != "" && c.Mode != ModeNone {
		return fmt.Errorf("mode: %q does not exist: the only mode is none, for a listener on a loopback address; write none or leave it out", c.Mode)
	}
	return nil
}

// CheckListener refuses an address (host:port) on which the endpoint must not listen
// with this configuration: without authentication, any that another machine might
// reach. A name other than localhost is refused too: what it resolves to may change.
func (c Config) CheckListener(listen string) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("%q is not host:port, such as 127.0.0.1:8080", listen)
	}
	if strings.EqualFold(host, "localhost") {
		return nil
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.Unmap().IsLoopback() {
		return nil
	}
	where := listen
	if host == "" {
		where = listen + " (all interfaces)"
	}
	return fmt.Errorf("without authentication anyone who reaches %s could use every upstream; listen on %s or on another loopback address",
		where, net.JoinHostPort("127.0.0.1", port))
}
