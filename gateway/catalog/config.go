package catalog

import (
	"errors"
	"fmt"
)

const (
	defaultSeparator = "__"
	defaultMaxLength = 48
	minMaxLength     = 24
	maxMaxLength     = 128
	maxSeparator     = 8
	// maxInstructions bounds the instructions of all in bytes, maxUpstreamInstructions those
	// of one upstream.
	maxInstructions         = 8 << 10
	maxUpstreamInstructions = 2 << 10
	// maxOwnInstructions leaves the upstreams half of maxInstructions.
	maxOwnInstructions = maxInstructions / 2
)

// Config says how names of different upstreams are told apart. The zero Config is
// the default. A reload with other values renames: clients are told that the lists
// changed.
type Config struct {
	// Separator stands between an upstream's name and the name of a tool or prompt,
	// where the upstream has no prefix of its own. At most 8 of A-Z a-z 0-9 _ -.
	// Default "__".
	Separator string `yaml:"separator"`
	// MaxLength is the length of the longest public name of a tool or prompt, 24 to
	// 128; longer ones are cut and closed by a hash. Many clients put a prefix of
	// their own in front, and models stop at 64. Default 48.
	MaxLength int `yaml:"max_length"`
	// Instructions is the text for models that comes before the instructions of the
	// upstreams, at most 4096 bytes. Default "".
	Instructions string `yaml:"instructions"`
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if len(c.Separator) > maxSeparator || !nameSafe(c.Separator) {
		errs = append(errs, fmt.Errorf("separator: %q: want at most %d of A-Z a-z 0-9 _ -", c.Separator, maxSeparator))
	}
	if c.MaxLength != 0 && (c.MaxLength < minMaxLength || c.MaxLength > maxMaxLength) {
		errs = append(errs, fmt.Errorf("max_length: %d: want %d to %d", c.MaxLength, minMaxLength, maxMaxLength))
	}
	if len(c.Instructions) > maxOwnInstructions {
		errs = append(errs, fmt.Errorf("instructions: %d bytes: want at most %d", len(c.Instructions), maxOwnInstructions))
	}
	return errors.Join(errs...)
}

// WithDefaults fills in what was left out.
func (c Config) WithDefaults() Config {
	if c.Separator == "" {
		c.Separator = defaultSeparator
	}
	if c.MaxLength == 0 {
		c.MaxLength = defaultMaxLength
	}
	return c
}

// Prefix is what the names of an upstream's tools and prompts begin with: its own prefix,
// or for nil the default one. The error says why names with it are not usable.
func (c Config) Prefix(upstream string, own *string) (string, error) {
	n, err := newNaming(c.WithDefaults(), upstream, own)
	return n.prefix, err
}
