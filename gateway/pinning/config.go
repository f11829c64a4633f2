package pinning

import "fmt"

// Modes of pinning.
const (
	// Off: definitions are not checked.
	Off = "off"
	// Warn: definitions that are not approved are reported, and shown.
	Warn = "warn"
	// Block: definitions that are not approved are reported, and hidden until they are.
	Block = "block"
)

// DefaultFile is the lock file, beside the configuration file.
const DefaultFile = "gatehouse.lock"

// Config is the section pinning.
type Config struct {
	// Mode decides on tools, prompts, resource templates, skills and instructions that differ from
	// the lock file: off, warn (they are reported) or block (they are reported and hidden until
	// they are approved). Upstreams may have another mode. Default off.
	Mode string `yaml:"mode"`
	// File is the lock file, which "gatehouse lock" writes. Default gatehouse.lock, beside the
	// configuration file.
	File string `yaml:"file"`
}

// Validate reports the mistakes in the section.
func (c Config) Validate() error { return CheckMode(c.Mode) }

// CheckMode refuses an unknown mode; "" is allowed.
func CheckMode(mode string) error {
	switch mode {
	case "", Off, Warn, Block:
		return nil
	}
	return fmt.Errorf("mode: %q: want off, warn or block", mode)
}
