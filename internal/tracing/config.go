package tracing

import (
	"fmt"
	"strconv"

	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

// Config is the section "tracing". Its zero value traces nothing. A reload applies every
// change.
type Config struct {
	Collector `yaml:",inline"`
	// Sample is which share of the calls is traced, from 0 to 1; of 0, those that a client has chosen
	// (TrustParent). Default 1.
	Sample string `yaml:"sample"`
	// TrustParent leaves the decision to clients that have made it: the flag "sampled" of their
	// traceparent. Default false.
	TrustParent bool `yaml:"trust_parent"`
}

// IsZero reports whether nothing is traced.
func (c Config) IsZero() bool { return c.Collector.IsZero() && c.Sample == "" && !c.TrustParent }

// Validate reports everything that is wrong, each problem with the path of its key in front.
func (c Config) Validate() error {
	if c.IsZero() {
		return nil
	}
	var found problems.List
	found.Join(c.Collector.Validate())
	_, err := c.share()
	found.Join(err)
	return found.Err()
}

// share is which share of the calls is traced.
func (c Config) share() (float64, error) {
	if c.Sample == "" {
		return 1, nil
	}
	share, err := strconv.ParseFloat(c.Sample, 64)
	if err != nil || !(share >= 0 && share <= 1) {
		return 0, fmt.Errorf("sample: %q: want a number from 0 to 1, such as 0.01 for one call in a hundred", c.Sample)
	}
	return share, nil
}
