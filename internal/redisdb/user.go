package redisdb

import (
	"strings"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// user holds the name and password for new connections.
type user struct{ now atomic.Pointer[[2]string] }

func (u *user) credentials() (username, password string) {
	now := u.now.Load()
	return now[0], now[1]
}

func (u *user) set(c Config) {
	p, _ := c.place() // Open has validated it
	if c.Username != "" {
		p.username = c.Username
	}
	if c.Password != "" {
		p.password = string(c.Password)
	}
	u.now.Store(&[2]string{p.username, p.password})
}

// SetUser sets the user and password for new connections. Open connections keep theirs.
func (db *DB) SetUser(c Config) { db.user.set(c) }

// WithoutUser returns the configuration without the parts that SetUser can change.
func (c Config) WithoutUser() Config {
	c.Username, c.Password = "", ""
	if scheme, rest, found := strings.Cut(string(c.URL), "://"); found && scheme != "unix" {
		hosts, more, _ := strings.Cut(rest, "/")
		hosts, query, _ := strings.Cut(hosts, "?")
		c.URL = mcp.Secret(strings.Join([]string{scheme, hosts[strings.LastIndexByte(hosts, '@')+1:], more, query}, " "))
	}
	return c
}
