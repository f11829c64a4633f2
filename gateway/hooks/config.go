package hooks

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/gatehouse-mcp/gatehouse/policy"
)

// Values of Hook.On.
const (
	Arguments = "arguments"
	Results   = "results"
)

// Bounds of a configuration.
const (
	maxHooks    = 100
	maxPatterns = 100
	maxPattern  = 1000 // bytes
	maxText     = 300  // bytes of a reason or of a replacement
)

const (
	defaultWith   = "[redacted]"
	defaultReason = "it has something that must not pass"
)

// Config is the section "hooks". Hooks run in this order, each on what the one before has left.
type Config []Hook

// Hook looks at what some calls say. It has exactly one of Redact, Refuse and HTTP.
type Hook struct {
	// Name is for records, metrics and logs. Required and unique.
	Name string `yaml:"name"`
	// Who are the callers for whose calls the hook runs. Default: every caller.
	Who policy.Who `yaml:"who"`
	// What has patterns as in rules of policy. Default: every tool, resource, prompt and skill.
	What []string `yaml:"what"`
	// On is arguments, results, or both. Default: both.
	On []string `yaml:"on"`
	// Redact replaces secrets.
	Redact *Redact `yaml:"redact"`
	// Refuse refuses calls with secrets.
	Refuse *Refuse `yaml:"refuse"`
	// HTTP asks a service.
	HTTP *HTTP `yaml:"http"`
}

// Redact says what is replaced.
type Redact struct {
	// Secrets are names of known kinds of secrets. Secrets or Patterns is required.
	Secrets []string `yaml:"secrets"`
	// Patterns are regular expressions (RE2).
	Patterns []string `yaml:"patterns"`
	// With is what stands in the place of a secret. Default "[redacted]".
	With string `yaml:"with"`
}

// Refuse says what is refused.
type Refuse struct {
	// Secrets and Patterns are as in Redact.
	Secrets  []string `yaml:"secrets"`
	Patterns []string `yaml:"patterns"`
	// Reason is told to the client. Default "it has something that must not pass".
	Reason string `yaml:"reason"`
}

// Validate reports everything that is wrong, each problem with the path of its key in front.
func (c Config) Validate() error {
	if len(c) > maxHooks {
		return fmt.Errorf("%d are more than %d", len(c), maxHooks)
	}
	var errs []error
	names := make(map[string]int)
	for i, h := range c {
		for _, err := range h.problems() {
			errs = append(errs, fmt.Errorf("%s: %w", Path(i, h), err))
		}
		if first, taken := names[h.Name]; taken && h.Name != "" {
			errs = append(errs, fmt.Errorf("%s: name: hooks[%d] is called %q already: records and metrics tell them apart by their names", Path(i, h), first, h.Name))
			continue
		}
		names[h.Name] = i
	}
	return errors.Join(errs...)
}

// CheckIssuers reports issuers that are not accepted.
func (c Config) CheckIssuers(accepted []string) error {
	var errs []error
	for i, h := range c {
		if err := h.Who.CheckIssuers(accepted); err != nil {
			errs = append(errs, fmt.Errorf("%s: who: %w", Path(i, h), err))
		}
	}
	return errors.Join(errs...)
}

// Doubts reports patterns of what hooks are for that are probably a mistake, as those of limits.
func (c Config) Doubts(upstreams []string) []error {
	alike := make(policy.Limits, len(c))
	for i, h := range c {
		alike[i] = policy.Limit{Name: h.Name, What: h.What}
	}
	return alike.Doubts(upstreams)
}

// Path is the key path of a hook in the section.
func Path(i int, h Hook) string {
	if !hookName.MatchString(h.Name) {
		return fmt.Sprintf("[%d]", i)
	}
	return fmt.Sprintf("[%d] (%s)", i, h.Name)
}

// hookName matches names that are safe in labels.
var hookName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

func (h Hook) problems() (errs []error) {
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case h.Name == "":
		add("name: is needed: records and metrics have it")
	case !hookName.MatchString(h.Name):
		add("name: %q: want at most 32 letters a-z, digits, - and _", h.Name)
	}
	if err := h.Who.Validate(); err != nil {
		add("who: %w", err)
	}
	if err := policy.CheckPatterns("what", h.What); err != nil {
		errs = append(errs, err)
	}
	if h.On != nil && len(h.On) == 0 {
		add("on: is empty: want arguments, results or both")
	}
	for i, on := range h.On {
		if on != Arguments && on != Results {
			add("on[%d]: %q: want arguments or results", i, on)
		}
	}
	does := 0
	if h.Redact != nil {
		does++
		errs = append(errs, under("redact", findable(h.Redact.Secrets, h.Redact.Patterns), checkText("with", h.Redact.With))...)
	}
	if h.Refuse != nil {
		does++
		errs = append(errs, under("refuse", findable(h.Refuse.Secrets, h.Refuse.Patterns), checkText("reason", h.Refuse.Reason))...)
	}
	if h.HTTP != nil {
		does++
		errs = append(errs, under("http", h.HTTP.problems())...)
	}
	switch {
	case does == 0:
		add("does nothing: want redact, refuse or http, such as redact: {secrets: [aws_key]}")
	case does > 1:
		add("does several things: make a hook of each of redact, refuse and http")
	}
	return errs
}

// under puts a key in front of problems.
func under(key string, problems ...[]error) (errs []error) {
	for _, err := range slices.Concat(problems...) {
		errs = append(errs, fmt.Errorf("%s: %w", key, err))
	}
	return errs
}

// findable reports what is wrong with kinds of secrets and patterns.
func findable(secrets, patterns []string) (errs []error) {
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(secrets) == 0 && len(patterns) == 0 {
		add("finds nothing: want secrets, such as [aws_key], or patterns")
	}
	for i, name := range secrets {
		if _, known := builtin()[name]; !known {
			add("secrets[%d]: %q: want one of %s", i, name, strings.Join(SecretNames(), ", "))
		}
	}
	if len(patterns) > maxPatterns {
		add("patterns: %d are more than %d", len(patterns), maxPatterns)
	}
	for i, text := range patterns {
		form, err := regexp.Compile(text)
		switch {
		case len(text) > maxPattern:
			add("patterns[%d]: %d bytes are more than %d", i, len(text), maxPattern)
		case err != nil:
			add("patterns[%d]: %w", i, err)
		case form.MatchString(""):
			add("patterns[%d]: %q: fits the empty text, and so every text: say what is to be found", i, text)
		}
	}
	return errs
}

func checkText(key, text string) []error {
	if len(text) > maxText || strings.ContainsFunc(text, unicode.IsControl) {
		return []error{fmt.Errorf("%s: want at most %d bytes on one line", key, maxText)}
	}
	return nil
}

// is reports whether the hook is for arguments, or for results.
func (h Hook) is(on string) bool { return h.On == nil || slices.Contains(h.On, on) }

func (h Hook) filter() (filter, error) {
	if h.HTTP != nil {
		return newRemote(*h.HTTP)
	}
	if h.Redact != nil {
		f, err := newFinder(h.Redact.Secrets, h.Redact.Patterns)
		return redact{f, []byte(cmp.Or(h.Redact.With, defaultWith))}, err
	}
	f, err := newFinder(h.Refuse.Secrets, h.Refuse.Patterns)
	return refuse{f, cmp.Or(h.Refuse.Reason, defaultReason)}, err
}
