// Package problems collects what is wrong with a configuration.
//
// It owns the form in which validators report it. It starts no goroutines.
package problems

import (
	"errors"
	"fmt"
)

// List holds what is wrong with a configuration. The zero value is empty. No error in it is nil.
type List []error

// Add adds a problem: the path of a key, if it is that of one, and what is wrong there.
func (l *List) Add(format string, args ...any) { *l = append(*l, fmt.Errorf(format, args...)) }

// When adds a problem if it is one.
func (l *List) When(wrong bool, format string, args ...any) {
	if wrong {
		l.Add(format, args...)
	}
}

// At adds what is wrong with the value of a key, each error with the path of the key in front. It
// ignores nil.
func (l *List) At(key string, errs ...error) {
	for _, err := range errs {
		l.When(err != nil, "%s: %w", key, err)
	}
}

// Join adds errors that say themselves what they are about. It ignores nil.
func (l *List) Join(errs ...error) {
	for _, err := range errs {
		if err != nil {
			*l = append(*l, err)
		}
	}
}

// Err returns all problems joined, nil for none.
func (l List) Err() error { return errors.Join(l...) }

// Negative returns that a value is negative, or nil.
func Negative[N ~int | ~int64](value N) error {
	if value < 0 {
		return fmt.Errorf("%v is negative", value)
	}
	return nil
}
