package hooks

import (
	"bytes"
	"maps"
	"regexp"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/redact"
)

// secret finds one kind of secret in a text.
type secret struct {
	// hints are texts; every match has one of them. None if that is not known.
	hints []string
	form  *regexp.Regexp
	// check returns the secret parts of a match; nil for all of it.
	check func(text []byte, match []int) [][]int
}

// builtin returns the kinds of secrets that have names.
func builtin() map[string]secret {
	return map[string]secret{
		"aws_key":      {hints: []string{"AKIA", "ASIA"}, form: regexp.MustCompile(redact.AWSKey)},
		"github_token": {hints: []string{"gh", "github_pat_"}, form: regexp.MustCompile(redact.GitHubToken)},
		"slack_token":  {hints: []string{"xox"}, form: regexp.MustCompile(redact.SlackToken)},
		"google_key":   {hints: []string{"AIza"}, form: regexp.MustCompile(redact.GoogleKey)},
		"private_key":  {hints: []string{"PRIVATE KEY"}, form: regexp.MustCompile(redact.PrivateKey)},
		"jwt": {hints: []string{"eyJ"},
			form: regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`)},
		"credit_card": {form: regexp.MustCompile(`\b[0-9](?:[ -]?[0-9]){12,}\b`), check: cards},
	}
}

// SecretNames returns the names of the kinds of secrets that are known.
func SecretNames() []string { return slices.Sorted(maps.Keys(builtin())) }

// finder finds several kinds of secrets.
type finder []secret

// newFinder makes a finder of valid patterns.
func newFinder(names, patterns []string) (f finder, err error) {
	known := builtin()
	for _, name := range names {
		f = append(f, known[name])
	}
	for _, text := range patterns {
		form, err := regexp.Compile(text)
		if err != nil {
			return nil, err
		}
		f = append(f, secret{form: form})
	}
	return f, nil
}

// has reports whether there is a secret in a text.
func (f finder) has(text []byte) bool {
	return slices.ContainsFunc(f, func(s secret) bool {
		return s.possible(text) && (s.check == nil && s.form.Match(text) || s.check != nil && len(s.find(text)) > 0)
	})
}

// replace returns the text with each secret replaced, nil if it has none.
func (f finder) replace(text, with []byte) (out []byte) {
	for _, s := range f {
		if !s.possible(text) {
			continue
		}
		found := s.find(text)
		if len(found) == 0 {
			continue
		}
		fresh, done := make([]byte, 0, len(text)+len(with)), 0
		for _, at := range found {
			fresh = append(append(fresh, text[done:at[0]]...), with...)
			done = at[1]
		}
		out = append(fresh, text[done:]...)
		text = out
	}
	return out
}

// possible reports quickly whether there could be a match.
func (s secret) possible(text []byte) bool {
	if s.check != nil && !manyDigits(text) {
		return false
	}
	return s.hints == nil || slices.ContainsFunc(s.hints,
		func(hint string) bool { return bytes.Contains(text, []byte(hint)) })
}

func (s secret) find(text []byte) (found [][]int) {
	for _, at := range s.form.FindAllIndex(text, -1) {
		if s.check == nil {
			found = append(found, at)
			continue
		}
		found = append(found, s.check(text, at)...)
	}
	return found
}

// Numbers of payment cards have from 13 to 19 digits (ISO/IEC 7812).
const (
	leastDigits = 13
	mostDigits  = 19
)

// cards finds the numbers of cards in a run of digits with single spaces and dashes between
// them. A number has whole groups: digits in the middle of others are none, nor are decimals.
func cards(text []byte, run []int) (found [][]int) {
	if begin := text[:run[0]]; len(begin) > 1 && begin[len(begin)-1] == '.' && isDigit(begin[len(begin)-2]) {
		return nil
	}
	if end := text[run[1]:]; len(end) > 1 && end[0] == '.' && isDigit(end[1]) {
		return nil
	}
	var groups [][]int
	for i := run[0]; i < run[1]; i++ {
		start := i
		for i < run[1] && isDigit(text[i]) {
			i++
		}
		groups = append(groups, []int{start, i})
	}
	for i := 0; i < len(groups); i++ {
		digits := make([]byte, 0, mostDigits)
		for j := i; j < len(groups); j++ {
			part := text[groups[j][0]:groups[j][1]]
			if len(digits)+len(part) > mostDigits {
				break
			}
			if digits = append(digits, part...); len(digits) >= leastDigits && isCard(digits) {
				found = append(found, []int{groups[i][0], groups[j][1]})
				i = j
				break
			}
		}
	}
	return found
}

// manyDigits reports whether a text has enough digits in a row, but for spaces and dashes.
func manyDigits(text []byte) bool {
	digits := 0
	for _, c := range text {
		switch {
		case isDigit(c):
			if digits++; digits == leastDigits {
				return true
			}
		case c != ' ' && c != '-':
			digits = 0
		}
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isCard reports whether digits begin as those of an issuer of cards and have its check digit
// (Luhn, ISO/IEC 7812-1 annex B).
func isCard(digits []byte) bool {
	if digits[0] < '2' || digits[0] > '6' {
		return false
	}
	sum := 0
	for i := range digits {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}
