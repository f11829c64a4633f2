package largeresults

import (
	"cmp"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

// Defaults of Bounds.
const (
	defaultMaxPerUser   = 500
	defaultMax          = 10_000
	defaultMaxUserBytes = 32 << 20
	defaultMaxBytes     = 256 << 20
)

// Bounds are how much is kept. A result for which there is no room is sent whole. Their zero value
// means the defaults.
type Bounds struct {
	// MaxPerUser is how many results of one user are kept. Default 500; without authentication, Max.
	MaxPerUser int `yaml:"max_per_user"`
	// Max is how many are kept in all; with Redis, by all replicas together. Default 10000.
	Max int `yaml:"max"`
	// MaxUserBytes is how many bytes those of one user may have. Default 32MiB; without authentication,
	// MaxBytes.
	MaxUserBytes int64 `yaml:"max_user_bytes"`
	// MaxBytes is how many bytes all of them may have; with Redis, those of all replicas together. Default
	// 256MiB.
	MaxBytes int64 `yaml:"max_bytes"`
}

// Validate returns everything that is wrong.
func (b Bounds) Validate() error {
	var found problems.List
	found.At("max_per_user", problems.Negative(b.MaxPerUser))
	found.At("max", problems.Negative(b.Max))
	found.At("max_user_bytes", problems.Negative(b.MaxUserBytes))
	found.At("max_bytes", problems.Negative(b.MaxBytes))
	return found.Err()
}

func (b Bounds) withDefaults() Bounds {
	b.Max = cmp.Or(b.Max, defaultMax)
	b.MaxBytes = cmp.Or(b.MaxBytes, defaultMaxBytes)
	return b
}

// of returns the bounds for a user.
func (b Bounds) of(user string) usage {
	if user == (mcp.Caller{}).User() { // without authentication
		return usage{cmp.Or(b.MaxPerUser, b.Max), cmp.Or(b.MaxUserBytes, b.MaxBytes)}
	}
	return usage{cmp.Or(b.MaxPerUser, defaultMaxPerUser), cmp.Or(b.MaxUserBytes, defaultMaxUserBytes)}
}

// usage is a number of results and their bytes.
type usage struct {
	count int
	bytes int64
}

func (u usage) plus(count int, bytes int64) usage { return usage{u.count + count, u.bytes + bytes} }

func (u usage) within(most usage) bool { return u.count <= most.count && u.bytes <= most.bytes }
