package policy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxRate bounds the number in a rate, and a burst.
const maxRate = 1_000_000

// Rate is a number of calls per time. Its text is a number, a slash and s, m, h or d, such as
// 60/m.
type Rate struct {
	Count int
	Per   time.Duration
}

// UnmarshalText parses a rate of 1 to 1,000,000 calls.
func (r *Rate) UnmarshalText(text []byte) error {
	number, unit, _ := strings.Cut(string(text), "/")
	count, err := strconv.Atoi(number)
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[unit]
	if err != nil || per == 0 || strconv.Itoa(count) != number {
		return fmt.Errorf("%q: want a number and s, m, h or d, such as 60/m", text)
	}
	if count < 1 || count > maxRate {
		return fmt.Errorf("%q: want 1 to %d calls", text, maxRate)
	}
	*r = Rate{Count: count, Per: per}
	return nil
}

// MarshalText writes the rate in the format of UnmarshalText. It fails for the zero Rate.
func (r Rate) MarshalText() ([]byte, error) {
	for unit, per := range map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour,
		"d": 24 * time.Hour} {
		if r.Per == per {
			return fmt.Appendf(nil, "%d/%s", r.Count, unit), nil
		}
	}
	return nil, errors.New("no rate")
}

func (r Rate) String() string {
	text, err := r.MarshalText()
	if err != nil {
		return ""
	}
	return string(text)
}
