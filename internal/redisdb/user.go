package redisdb

import (
	"strings"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// user is as whom connections are made. What changes holds from the next one on.
type user struct{ now atomic.Pointer[[2]string] }

func (u *user) credentials() (username, password string) {
	now := u.now.Load()
	return now[0], now[1]
}

func (u *user) set(c Config) {
	p, _ := c.place() // checked
	if c.Username != "" {
		p.username = c.Username
	}
	if c.Password != "" {
		p.password = string(c.Password)
	}
	u.now.Store(&[2]string{p.username, p.password})
}

// SetUser has connections that are made from now on be those of another user, or with
// another password. Those that there are stay.
func (db *DB) SetUser(c Config) { db.user.set(c) }

// WithoutUser is the configuration without what SetUser takes.
func (c Config) WithoutUser() Config {
	c.Username, c.Password = "", ""
	if scheme, rest, found := strings.Cut(string(c.URL), "://"); found && scheme != "unix" {
		hosts, more, _ := strings.Cut(rest, "/")
		hosts, query, _ := strings.Cut(hosts, "?")
		c.URL = mcp.Secret(strings.Join([]string{scheme, hosts[strings.LastIndexByte(hosts, '@')+1:], more, query}, " "))
	}
	return c
}
