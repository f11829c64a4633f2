package session

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/largeresults"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// Values of Config.Store.
const (
	StoreMemory = "memory"
	StoreRedis  = "redis"
)

// Defaults of Config.
const (
	DefaultIdleTimeout = 30 * time.Minute
	DefaultMaxPerUser  = 100
	DefaultMax         = 100_000
)

// Config is the section "sessions". Its zero value means the defaults. It is read only at
// start; a reload does not change it.
type Config struct {
	// Store says where sessions are kept: "memory", the default, where they end with the only process, or
	// "redis", where replicas share them, sessions at servers over Streamable HTTP, limits and approvals.
	Store string `yaml:"store"`
	// Redis is the server of the store "redis": version 7 or newer, or Valkey.
	Redis redisdb.Config `yaml:"redis"`
	// Key is the secret that seals what clients bring back, what is in the store, and what replicas tell each
	// other: at least 32 random bytes, such as the output of openssl rand -base64 32. Required for the store
	// "redis", the same for all replicas. Default: a random key that is valid until the process ends.
	Key mcp.Secret `yaml:"key"`
	// PreviousKeys only open what they have sealed: the next key, before all replicas have it as Key, and the
	// last one, until nothing sealed with it is left (docs/operations.md#rotating-secrets). Default none.
	PreviousKeys []mcp.Secret `yaml:"previous_keys"`
	// IdleTimeout is how long a session lives without a request, a running call or an open stream.
	// Default 30m.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// MaxPerUser is how many sessions one user may have at a time. A new one takes the place of one that was
	// unused for a minute. With redis it bounds, at each replica, the user's clients without sessions as
	// well. Default 100; without authentication, Max.
	MaxPerUser int `yaml:"max_per_user"`
	// Max is how many sessions there may be in all. With Redis, it is how many one replica
	// serves. Default 100000.
	Max int `yaml:"max"`
	// Results bounds what is kept of large tool results (upstreams[].results). A result without room is sent
	// whole.
	Results largeresults.Bounds `yaml:"results"`
}

// Validate returns everything that is wrong.
func (c Config) Validate() error {
	var found problems.List
	switch c.Store {
	case "", StoreMemory:
		found.When(!c.Redis.IsZero(), "redis: store is memory: write store: redis, or leave redis out")
	case StoreRedis:
		found.At("redis", c.Redis.Validate())
		found.When(c.Key == "",
			"key: needed with store: redis, the same for all replicas: write a reference to a secret, such as ${env:GATEHOUSE_KEY}, of what openssl rand -base64 32 prints")
	default:
		found.Add("store: %q does not exist: want memory or redis", c.Store)
	}
	if c.Key != "" {
		found.At("key", seal.Check([]byte(string(c.Key))))
	} else if len(c.PreviousKeys) > 0 {
		found.Add("previous_keys: they are of use beside key only")
	}
	for i, key := range c.PreviousKeys {
		found.At(fmt.Sprintf("previous_keys[%d]", i), seal.Check([]byte(string(key))))
	}
	found.At("idle_timeout", problems.Negative(c.IdleTimeout))
	found.At("max_per_user", problems.Negative(c.MaxPerUser))
	found.At("max", problems.Negative(c.Max))
	found.At("results", c.Results.Validate())
	return found.Err()
}

// withDefaults fills in the defaults.
func (c Config) withDefaults() Config {
	c.IdleTimeout = cmp.Or(c.IdleTimeout, DefaultIdleTimeout)
	c.Max = cmp.Or(c.Max, DefaultMax)
	return c
}

// Kept is how long Redis keeps a session after its last use. Redis learns of a use late, so a
// session without its owner may last a little longer than IdleTimeout, but never less.
func (c Config) Kept() time.Duration {
	idle := c.withDefaults().IdleTimeout
	return idle + idle/4
}

// Most is how many sessions a user may have.
func (c Config) Most(user string) int {
	if user == (mcp.Caller{}).User() { // without authentication
		return cmp.Or(c.MaxPerUser, c.withDefaults().Max)
	}
	return cmp.Or(c.MaxPerUser, DefaultMaxPerUser)
}
