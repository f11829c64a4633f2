package mcp

import (
	"fmt"
	"log/slog"
)

const redacted = "<secret>"

// Secret is a string that does not show itself: printed, logged or marshalled it is
// "<secret>". Convert it to a string where its value is needed.
type Secret string

// UnmarshalText takes the value as it is.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = Secret(text)
	return nil
}

// String returns "<secret>".
func (Secret) String() string { return redacted }

// GoString returns "<secret>".
func (Secret) GoString() string { return redacted }

// Format writes "<secret>" for every verb.
func (Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// MarshalJSON writes "<secret>".
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalYAML writes "<secret>".
func (Secret) MarshalYAML() (any, error) { return redacted, nil }

// LogValue is "<secret>".
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
