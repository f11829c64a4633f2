package hooks

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/gatehouse-mcp/gatehouse/internal/problems"
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

// Hook inspects the content of some calls. It has exactly one of Redact, Refuse and HTTP.
type Hook struct {
	// Name is the hook's name in records, metrics and logs. Required and unique.
	Name string `yaml:"name"`
	// Who selects the callers for which the hook runs. Default: every caller.
	Who policy.Who `yaml:"who"`
	// What has patterns as in rules of policy. Default: every tool, resource, prompt and skill.
	What []string `yaml:"what"`
	// On is arguments, results, or both. Default: both.
	On []string `yaml:"on"`
	// Redact replaces secrets. A hook has one of redact, refuse and http.
	Redact *Redact `yaml:"redact"`
	// Refuse refuses calls in which it finds secrets.
	Refuse *Refuse `yaml:"refuse"`
	// HTTP asks a service of yours, which lets content pass, changes it or refuses it
	// (docs/hooks.md#a-service).
	HTTP *HTTP `yaml:"http"`
}

// Redact selects the secrets to replace.
type Redact struct {
	// Secrets are known kinds of secrets: aws_key, credit_card, github_token, google_key, jwt, private_key
	// and slack_token. They or Patterns are required.
	Secrets []string `yaml:"secrets"`
	// Patterns are other secrets, as regular expressions (RE2).
	Patterns []string `yaml:"patterns"`
	// With is the text in the place of a secret. Default "[redacted]".
	With string `yaml:"with"`
}

// Refuse selects the secrets to refuse.
type Refuse struct {
	// Secrets and Patterns are as in redact.
	Secrets  []string `yaml:"secrets"`
	Patterns []string `yaml:"patterns"`
	// Reason is the text for the client. Default "it has something that must not pass".
	Reason string `yaml:"reason"`
}

// Validate reports all mistakes, each with the path of its key in front.
func (c Config) Validate() error {
	if len(c) > maxHooks {
		return fmt.Errorf("%d are more than %d", len(c), maxHooks)
	}
	var found problems.List
	names := make(map[string]int)
	for i, h := range c {
		found.At(Path(i, h), h.problems()...)
		if first, taken := names[h.Name]; taken && h.Name != "" {
			found.Add("%s: name: hooks[%d] is called %q already: records and metrics tell them apart by their names",
				Path(i, h), first, h.Name)
			continue
		}
		names[h.Name] = i
	}
	return found.Err()
}

// CheckIssuers reports issuers that are not accepted.
func (c Config) CheckIssuers(accepted []string) error {
	var found problems.List
	for i, h := range c {
		found.At(Path(i, h)+": who", h.Who.CheckIssuers(accepted))
	}
	return found.Err()
}

// Doubts reports patterns in hooks that are probably mistakes, as for limits.
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

func (h Hook) problems() (found problems.List) {
	switch {
	case h.Name == "":
		found.Add("name: is needed: records and metrics have it")
	case !hookName.MatchString(h.Name):
		found.Add("name: %q: want at most 32 letters a-z, digits, - and _", h.Name)
	}
	found.At("who", h.Who.Validate())
	found.Join(policy.CheckPatterns("what", h.What))
	found.When(h.On != nil && len(h.On) == 0, "on: is empty: want arguments, results or both")
	for i, on := range h.On {
		found.When(on != Arguments && on != Results, "on[%d]: %q: want arguments or results", i, on)
	}
	does := 0
	if h.Redact != nil {
		does++
		found.At("redact", findable(h.Redact.Secrets, h.Redact.Patterns)...)
		found.At("redact: with", checkText(h.Redact.With))
	}
	if h.Refuse != nil {
		does++
		found.At("refuse", findable(h.Refuse.Secrets, h.Refuse.Patterns)...)
		found.At("refuse: reason", checkText(h.Refuse.Reason))
	}
	if h.HTTP != nil {
		does++
		found.At("http", h.HTTP.problems()...)
	}
	switch {
	case does == 0:
		found.Add("does nothing: want redact, refuse or http, such as redact: {secrets: [aws_key]}")
	case does > 1:
		found.Add("does several things: make a hook of each of redact, refuse and http")
	}
	return found
}

// findable reports mistakes in kinds of secrets and patterns.
func findable(secrets, patterns []string) (found problems.List) {
	found.When(len(secrets) == 0 && len(patterns) == 0, "finds nothing: want secrets, such as [aws_key], or patterns")
	for i, name := range secrets {
		if _, known := builtin()[name]; !known {
			found.Add("secrets[%d]: %q: want one of %s", i, name, strings.Join(SecretNames(), ", "))
		}
	}
	found.When(len(patterns) > maxPatterns, "patterns: %d are more than %d", len(patterns), maxPatterns)
	for i, text := range patterns {
		form, err := regexp.Compile(text)
		switch {
		case len(text) > maxPattern:
			found.Add("patterns[%d]: %d bytes are more than %d", i, len(text), maxPattern)
		case err != nil:
			found.Add("patterns[%d]: %w", i, err)
		case form.MatchString(""):
			found.Add("patterns[%d]: %q: fits the empty text, and so every text: say what is to be found", i, text)
		}
	}
	return found
}

func checkText(text string) error {
	if len(text) > maxText || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("want at most %d bytes on one line", maxText)
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
		return redaction{f, []byte(cmp.Or(h.Redact.With, defaultWith))}, err
	}
	f, err := newFinder(h.Refuse.Secrets, h.Refuse.Patterns)
	return refuse{f, cmp.Or(h.Refuse.Reason, defaultReason)}, err
}
