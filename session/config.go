package session

import (
	"errors"
	"fmt"
	"time"
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
	// Store is where sessions are kept; "memory", the default, is the only one:
	// they end with the process.
	Store string `yaml:"store"`
	// IdleTimeout is how long a session lives without a request, such as 30m, the
	// default.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// MaxPerUser is how many sessions one user may have at a time, 100 by default. One
	// that was not used for a minute makes room for a new one.
	MaxPerUser int `yaml:"max_per_user"`
	// Max is how many sessions there may be in all, 100000 by default.
	Max int `yaml:"max"`
}

// Validate reports everything that is wrong.
func (c Config) Validate() error {
	var errs []error
	if c.Store != "" && c.Store != "memory" {
		errs = append(errs, fmt.Errorf("store: %q does not exist: sessions are kept in memory only; write memory or leave it out", c.Store))
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

// withDefaults fills in what was left out.
func (c Config) withDefaults() Config {
	if c.Store == "" {
		c.Store = "memory"
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = DefaultIdleTimeout
	}
	if c.MaxPerUser == 0 {
		c.MaxPerUser = DefaultMaxPerUser
	}
	if c.Max == 0 {
		c.Max = DefaultMax
	}
	return c
}
