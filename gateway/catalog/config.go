package catalog

import "github.com/gatehouse-mcp/gatehouse/internal/problems"

const (
	defaultSeparator = "__"
	defaultMaxLength = 48
	minMaxLength     = 24
	maxMaxLength     = 128
	maxSeparator     = 8
	// maxOwnInstructions bounds the operator's text, in bytes.
	maxOwnInstructions = 4 << 10
)

// Config says how names of different upstreams are told apart. The zero Config is the
// default. A reload with other values renames: clients are told that the lists changed.
type Config struct {
	// Separator stands between an upstream's name and the name of a tool or prompt, if the
	// upstream has no prefix of its own. At most 8 of A-Z a-z 0-9 _ -. Default "__".
	Separator string `yaml:"separator"`
	// MaxLength is the length of the longest public name of a tool or prompt, from 24 to
	// 128. Longer names are cut and end with a hash. Many clients add a prefix of their
	// own, and models allow at most 64 characters. Default 48.
	MaxLength int `yaml:"max_length"`
	// Instructions is a text for models that precedes the instructions of the upstreams, at
	// most 4096 bytes. Default "".
	Instructions string `yaml:"instructions"`
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	var found problems.List
	found.When(len(c.Separator) > maxSeparator || !nameSafe(c.Separator),
		"separator: %q: want at most %d of A-Z a-z 0-9 _ -", c.Separator, maxSeparator)
	found.When(c.MaxLength != 0 && (c.MaxLength < minMaxLength || c.MaxLength > maxMaxLength),
		"max_length: %d: want %d to %d", c.MaxLength, minMaxLength, maxMaxLength)
	found.When(len(c.Instructions) > maxOwnInstructions,
		"instructions: %d bytes: want at most %d", len(c.Instructions), maxOwnInstructions)
	return found.Err()
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

// Prefix returns the prefix of the names of an upstream's tools and prompts: own or, if
// that is nil, the default. The error says why names with it are invalid.
func (c Config) Prefix(upstream string, own *string) (string, error) {
	n, err := newNaming(c.WithDefaults(), upstream, own)
	return n.prefix, err
}
