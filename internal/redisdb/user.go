package redisdb

import (
	"cmp"
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
	username, password := c.credentials()
	u.now.Store(&[2]string{username, password})
}

func (c Config) credentials() (username, password string) {
	p, _ := c.place() // it is valid
	return cmp.Or(c.Username, p.username), cmp.Or(string(c.Password), p.password)
}

// WithUserOf returns the configuration with the user and password of another one.
func (c Config) WithUserOf(other Config) Config {
	username, password := other.credentials()
	c.Username, c.Password = username, mcp.Secret(password)
	return c
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
