package mcp

import (
	"fmt"
	"log/slog"
)

const redacted = "<secret>"

// Secret is a string that hides itself: it is printed, logged and marshalled as "<secret>".
// Convert it to a string to get its value.
type Secret string

// UnmarshalText stores the text.
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
