package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// What Config.Store can be.
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

// Config is the section "sessions". Its zero value means the defaults. All of it is
// read at start; a reload does not change it.
type Config struct {
	// Store is where sessions are kept: "memory", the default, where they end with the
	// process, or "redis", where several replicas of the gateway share them.
	Store string `yaml:"store"`
	// Redis is where the store "redis" is.
	Redis redisdb.Config `yaml:"redis"`
	// Key is what the replicas seal with, at least 32 random bytes, such as those of openssl
	// rand -base64 32: what clients bring back, what stands in Redis, and what replicas tell
	// each other. Needed for the store "redis", and the same for all replicas. Default: a
	// random one, that is good until the process ends.
	Key mcp.Secret `yaml:"key"`
	// PreviousKeys open what was sealed with them, and nothing is sealed with them: the next
	// key before all replicas have it as Key, and the last one until nothing is left of it
	// (docs/operations.md#rotating-secrets). Default none.
	PreviousKeys []mcp.Secret `yaml:"previous_keys"`
	// IdleTimeout is how long a session lives without a request, such as 30m, the
	// default.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// MaxPerUser is how many sessions one user may have at a time. One that was not used
	// for a minute makes room for a new one. Default 100; without authentication there is
	// one user, who may have as many as Max.
	MaxPerUser int `yaml:"max_per_user"`
	// Max is how many sessions there may be in all, 100000 by default; with Redis, how
	// many of them one replica serves.
	Max int `yaml:"max"`
}

// Validate reports everything that is wrong.
func (c Config) Validate() error {
	var errs []error
	switch c.Store {
	case "", StoreMemory:
		if !c.Redis.IsZero() {
			errs = append(errs, errors.New("redis: store is memory: write store: redis, or leave redis out"))
		}
	case StoreRedis:
		errs = append(errs, under("redis", c.Redis.Validate())...)
		if c.Key == "" {
			errs = append(errs, errors.New("key: needed with store: redis, the same for all replicas: write a reference to a secret, such as ${env:GATEHOUSE_KEY}, of what openssl rand -base64 32 prints"))
		}
	default:
		errs = append(errs, fmt.Errorf("store: %q does not exist: want memory or redis", c.Store))
	}
	if c.Key != "" {
		if err := seal.Check([]byte(string(c.Key))); err != nil {
			errs = append(errs, fmt.Errorf("key: %w", err))
		}
	} else if len(c.PreviousKeys) > 0 {
		errs = append(errs, errors.New("previous_keys: they are of use beside key only"))
	}
	for i, key := range c.PreviousKeys {
		if err := seal.Check([]byte(string(key))); err != nil {
			errs = append(errs, fmt.Errorf("previous_keys[%d]: %w", i, err))
		}
	}
	if c.IdleTimeout < 0 {
		errs = append(errs, fmt.Errorf("idle_timeout: %s is negative", c.IdleTimeout))
	}
	if c.MaxPerUser < 0 {
		errs = append(errs, fmt.Errorf("max_per_user: %d is negative", c.MaxPerUser))
	}
	if c.Max < 0 {
		errs = append(errs, fmt.Errorf("max: %d is negative", c.Max))
	}
	return errors.Join(errs...)
}

// under puts a key in front of each problem of a section.
func under(key string, err error) (errs []error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	return errs
}

// withDefaults fills in what was left out.
func (c Config) withDefaults() Config {
	if c.Store == "" {
		c.Store = StoreMemory
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = DefaultIdleTimeout
	}
	if c.Max == 0 {
		c.Max = DefaultMax
	}
	return c
}

// Kept is how long Redis keeps a session after its last use. It hears of that late, so that a
// session whose owner is gone may last a little longer than IdleTimeout, never shorter.
func (c Config) Kept() time.Duration {
	idle := c.withDefaults().IdleTimeout
	return idle + idle/4
}

// most is how many sessions a user may have.
func (c Config) most(user string) int {
	switch {
	case c.MaxPerUser > 0:
		return c.MaxPerUser
	case user == mcp.Caller{}.User(): // without authentication
		return c.Max
	}
	return DefaultMaxPerUser
}
