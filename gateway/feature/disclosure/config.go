package disclosure

import (
	"errors"
	"fmt"
	"time"
)

// What is told of tools in tools/list.
const (
	// ModeFull is all that the upstream says.
	ModeFull = "full"
	// ModeProgressive is a short description; the rest has to be fetched before a call.
	ModeProgressive = "progressive"
)

const (
	defaultGrant = time.Hour
	maxGrant     = 24 * time.Hour
	// maxSummary is the length of the longest summary that an operator may give, in bytes.
	maxSummary = 400
)

// Config is what the section "disclosure" says for all. The zero Config is mode full.
type Config struct {
	// Mode is "full", the default, or "progressive".
	Mode string `yaml:"mode"`
	// Grant is how long a client without sessions may call a tool after it has fetched
	// its description; with a session it is as long as that lasts. At most 24h, default
	// 1h.
	Grant time.Duration `yaml:"grant"`
	// Descriptions is a directory with a file TOOL.json, by the public name, for each
	// tool of which there is more to say: see Description. Read at start and with each reload. Default none.
	Descriptions string `yaml:"descriptions"`
}

// Validate reports everything that is wrong with the configuration. The directory of
// descriptions is not read.
func (c Config) Validate() error {
	var errs []error
	if err := CheckMode(c.Mode); err != nil {
		errs = append(errs, fmt.Errorf("mode: %w", err))
	}
	switch {
	case c.Grant < 0:
		errs = append(errs, fmt.Errorf("grant: %s is negative", c.Grant))
	case c.Grant > maxGrant:
		errs = append(errs, fmt.Errorf("grant: %s is longer than %s", c.Grant, maxGrant))
	}
	return errors.Join(errs...)
}

// CheckMode reports what is wrong with a mode; "" is none.
func CheckMode(mode string) error {
	switch mode {
	case "", ModeFull, ModeProgressive:
		return nil
	}
	return fmt.Errorf("%q: want full or progressive", mode)
}

// CheckSummary reports what is wrong with an operator's summary of a tool.
func CheckSummary(text string) error {
	switch {
	case text == "":
		return errors.New("is empty: say what the tool is for or take the key out")
	case len(text) > maxSummary:
		return fmt.Errorf("%d bytes: want at most %d, since every client reads it", len(text), maxSummary)
	}
	return nil
}

// Upstream is what the configuration says for the tools of one upstream.
type Upstream struct {
	// Mode is "" for that of all.
	Mode string
	// Summaries are the operator's short descriptions, by the tool's original name.
	Summaries map[string]string
}
