package disclosure

import (
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

// Modes of a tool in tools/list.
const (
	// ModeFull lists everything that the upstream says.
	ModeFull = "full"
	// ModeProgressive lists a short description; the rest must be fetched before a call.
	ModeProgressive = "progressive"
)

const (
	defaultGrant = time.Hour
	maxGrant     = 24 * time.Hour
	// maxSummary is the length of the longest summary of an operator, in bytes.
	maxSummary = 400
)

// Config is the section "disclosure", for all upstreams. The zero Config is mode full.
type Config struct {
	// Mode is "full", the default, which describes tools as their servers do, or "progressive", in short: a
	// model fetches the full description before it calls a tool.
	Mode string `yaml:"mode"`
	// Grant is the time for which a client without sessions may call a tool after fetching its
	// description. With a session, the grant lasts as long as the session. At most 24h, default 1h.
	Grant time.Duration `yaml:"grant"`
	// Descriptions is a directory with files TOOL.json, by public name, such as crm__export.json, that add to
	// the description of a tool: summary, description, examples, usage_guidance, error_guidance. It is read
	// at start and at each reload. Default none.
	Descriptions string `yaml:"descriptions"`
}

// Validate reports all mistakes in the configuration. It does not read the directory of
// descriptions.
func (c Config) Validate() error {
	var found problems.List
	found.At("mode", CheckMode(c.Mode))
	found.At("grant", problems.Negative(c.Grant))
	found.When(c.Grant > maxGrant, "grant: %s is longer than %s", c.Grant, maxGrant)
	return found.Err()
}

// CheckMode refuses an unknown mode; "" means none is set.
func CheckMode(mode string) error {
	switch mode {
	case "", ModeFull, ModeProgressive:
		return nil
	}
	return fmt.Errorf("%q: want full or progressive", mode)
}

// CheckSummary reports a mistake in an operator's summary of a tool.
func CheckSummary(text string) error {
	switch {
	case text == "":
		return errors.New("is empty: say what the tool is for or take the key out")
	case len(text) > maxSummary:
		return fmt.Errorf("%d bytes: want at most %d, since every client reads it", len(text), maxSummary)
	}
	return nil
}

// Upstream is the configuration for the tools of one upstream.
type Upstream struct {
	// Mode is "" for the global mode.
	Mode string
	// Summaries are the operator's short descriptions, keyed by the tools' original names.
	Summaries map[string]string
}
