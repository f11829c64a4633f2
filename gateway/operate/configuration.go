package operate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/configtext"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// Configuration answers operators who look at the configuration, change it, or try a draft of it.
type Configuration struct {
	File    *config.File         // nil for none
	History *admin.ConfigHistory // nil for none, as without a file
	Now     func() Now
	// Read reads the file again, and Apply applies a text and writes it into the file, which must still
	// have a revision.
	Read  func() error
	Apply func(text []byte, revision string) error
}

// ErrNotRunning is the error of Read for a gateway that has not begun to serve, or has stopped.
var ErrNotRunning = errors.New("the gateway does not run")

// ConfigStatus is the state of the configuration file, also as /readyz shows it.
type ConfigStatus struct {
	// Revision is the first 12 hex digits of the SHA-256 of the current file, the same for all
	// replicas if all is well; "" without a file.
	Revision string `json:"revision,omitempty"`
	// Loaded is the time when the current configuration was read.
	Loaded time.Time `json:"loaded"`
	// Tried is the time when the file was last read. Err is why it was not applied; nil if it was.
	Tried time.Time `json:"tried"`
	Err   error     `json:"-"`
	// Pending are the keys of the current file that wait for a restart.
	Pending []config.Problem `json:"-"`
	// Warnings are probable mistakes in the current configuration.
	Warnings []config.Problem `json:"-"`
	// Refused are the teams with mistakes in their files. They have what they had before.
	Refused []string `json:"refused_teams,omitempty"`
}

// State describes the configuration in force.
func (s Configuration) State() admin.State {
	now := s.Now()
	status, state := now.Status, now.Config.Summary().State
	state.Revision, state.Loaded, state.Tried, state.Problems = status.Revision, status.Loaded, status.Tried,
		Problems(status.Err)
	state.Pending = Problems(&config.Error{Problems: status.Pending})
	state.Warnings = Problems(&config.Error{Problems: status.Warnings})
	return state
}

// Policy returns the rules in force.
func (s Configuration) Policy() admin.Policy {
	now := s.Now()
	cfg := now.Config.Policy
	if cfg.IsZero() {
		return admin.Policy{Open: true, Default: policy.DefaultAllow}
	}
	p := admin.Policy{Default: cmp.Or(cfg.Default, policy.DefaultDeny)}
	for _, r := range cfg.Rules {
		rule := admin.Rule{
			Name:  r.Name,
			At:    now.Places[r.Name],
			Who:   r.Who.String(),
			Allow: r.Allow,
			Deny:  r.Deny,
			Ask:   r.Ask,
			When:  r.When,
		}
		if r.Approvers != nil {
			rule.Approvers = r.Approvers.Who.String()
		}
		p.Rules = append(p.Rules, rule)
	}
	return p
}

// RuleAt returns the place of a rule, file:line; "" if it is not known.
func (s Configuration) RuleAt(rule string) string { return s.Now().Places[rule] }

// Reload reads the file again. Errors: admin.ErrNoFile, ErrNotRunning.
func (s Configuration) Reload() (admin.Reload, error) {
	err := s.Read()
	if errors.Is(err, admin.ErrNoFile) || errors.Is(err, ErrNotRunning) {
		return admin.Reload{}, err
	}
	state := s.State()
	return admin.Reload{Applied: err == nil, Revision: state.Revision, Problems: Problems(err), Pending: state.Pending},
		nil
}

// Line returns the line of a problem, if it is in the file.
func (s Configuration) Line(p admin.Problem) string {
	if s.File == nil || p.File != s.File.Path || p.Line < 1 {
		return ""
	}
	text, _, _, err := strictyaml.SeeFile(p.File, config.MaxBytes)
	lines := bytes.Split(text, []byte("\n"))
	if err != nil || p.Line > len(lines) {
		return ""
	}
	return string(bytes.TrimRight(lines[p.Line-1], "\r"))
}

// Changes returns the readings of the file, nil if none are kept.
func (s Configuration) Changes() []admin.ConfigChange {
	if s.History == nil {
		return nil
	}
	return s.History.All()
}

// Saves reports whether operators may change the file.
func (s Configuration) Saves() bool { return s.Now().Config.Admin.Console.Save }

// maskedText returns a text of a configuration without its secrets, or why it is not shown.
func maskedText(text []byte) (masked, hidden string) {
	if text == nil {
		return "", "the file cannot be read"
	}
	masked, err := configtext.Masked(text, reflect.TypeFor[config.Config]())
	if err != nil {
		return "", err.Error()
	}
	return masked, ""
}

// NoteRead adds a reading of the file to the history.
func (s Configuration) NoteRead(l config.Loaded, changed []string, err error) {
	if s.History == nil {
		return
	}
	masked, hidden := maskedText(l.Text)
	s.History.Add(admin.ConfigChange{At: time.Now(), Revision: l.Revision, Applied: err == nil, Problems: Problems(err),
		Changed: changed}, masked, hidden)
}

// Text returns the text of the file, without its secrets.
func (s Configuration) Text() (admin.ConfigText, error) {
	if s.File == nil {
		return admin.ConfigText{}, admin.ErrNoFile
	}
	data, _, _, err := strictyaml.SeeFile(s.File.Path, config.MaxBytes)
	if err != nil {
		return admin.ConfigText{}, fmt.Errorf("%s: cannot be read: %w", s.File.Path, err)
	}
	t := admin.ConfigText{File: s.File.Path, Revision: config.RevisionOf(data), Save: s.Now().Config.Admin.Console.Save}
	t.Text, t.Hidden = maskedText(data)
	t.Masked = t.Hidden == "" && t.Text != string(data)
	t.InForce = t.Revision == s.Now().Status.Revision
	return t, nil
}

// Effective returns the configuration in force, with its defaults.
func (s Configuration) Effective() (admin.EffectiveConfig, error) {
	if s.History == nil {
		return admin.EffectiveConfig{}, admin.ErrNoFile
	}
	e := admin.EffectiveConfig{Revision: s.Now().Status.Revision}
	masked, hidden := s.History.Holds()
	cfg := s.Now().Config
	cfg.Upstreams = slices.Clone(cfg.Upstreams)
	for i, u := range cfg.Upstreams {
		if u.Skills == "" {
			cfg.Upstreams[i] = u.WithDefaults()
			cfg.Upstreams[i].Transport = u.Transport // its default shows when it is tried
		}
	}
	if e.Hidden = hidden; hidden == "" {
		var err error
		if e.Text, err = configtext.Effective(masked, cfg); err != nil {
			return e, err
		}
	}
	return e, nil
}

// Check returns the mistakes in a text, and the changes that a reload of it would make. With blind,
// its references are not looked up.
func (s Configuration) Check(draft string, blind bool) (c admin.ConfigCheck) {
	text := []byte(draft)
	before := s.Now().Config
	next, err := config.Loaded{}, error(nil)
	switch {
	case MaskProblem(text) != nil:
		c.Problems = MaskProblem(text)
		return c
	case len(text) > config.MaxBytes:
		err = fmt.Errorf("it has more than %d bytes", config.MaxBytes)
	case blind:
		c.Notes = append(c.Notes, "References are not looked up for you: problems on lines that have one are not reported.")
		if now := s.InForce(); now.Text != nil {
			before = now.Config.WithDefaults()
		} else {
			c.Notes = append(c.Notes,
				"The file is not the one that holds, so what the text would change cannot be told where it has references.")
		}
		next, err = config.ReadBlindly("", text, nil)
		if err == nil {
			var pending error
			next.Config, pending = config.UntilRestart(next.Config, before)
			next.Warnings = append(next.Warnings, strictyaml.Unplaced(pending).Problems...)
		}
	case s.File == nil:
		next, err = config.ReadText("", text, &before, os.LookupEnv)
	default:
		next, err = config.ReadText(s.File.Path, text, &before, os.LookupEnv)
	}
	if c.Problems = Problems(err); err != nil {
		return c
	}
	c.Warnings = Problems(&config.Error{Problems: next.Warnings})
	c.Changed = config.ChangedSections(before, next.Config.WithDefaults())
	c.Added, c.Replaced, c.Removed = config.ChangedServers(before, next.Config.WithDefaults())
	slices.Sort(c.Removed)
	return c
}

// MaskProblem returns the place of a mask that replaces a secret.
func MaskProblem(text []byte) []admin.Problem {
	line, column := configtext.FindMask(text)
	if line == 0 {
		return nil
	}
	return []admin.Problem{{Line: line, Column: column,
		Message: configtext.Mask +
			" stands in place of a secret of the file, which is not shown: write a reference, such as ${env:NAME}, and put the secret there; if it is none, end its line with # public, in the file"}}
}

// Save writes a text into the file and applies it.
func (s Configuration) Save(draft, revision string) (admin.Reload, error) {
	text := []byte(draft)
	switch {
	case s.File == nil:
		return admin.Reload{}, admin.ErrNoFile
	case !s.Now().Config.Admin.Console.Save:
		return admin.Reload{}, admin.ErrNoSaving
	case len(text) > config.MaxBytes:
		return admin.Reload{}, &admin.BadDraft{Problems: []admin.Problem{{Message: fmt.Sprintf("it has more than %d bytes",
			config.MaxBytes)}}}
	case MaskProblem(text) != nil:
		return admin.Reload{}, &admin.BadDraft{Problems: MaskProblem(text)}
	}
	err := s.File.Still(revision)
	if err == nil {
		err = s.Apply(text, revision)
	}
	if bad, ok := errors.AsType[*config.Error](err); ok {
		return admin.Reload{}, &admin.BadDraft{Problems: Problems(bad)}
	}
	if err != nil && !errors.Is(err, admin.ErrFileChanged) {
		err = fmt.Errorf("nothing was changed: %w", err)
	}
	state := s.State()
	return admin.Reload{Applied: err == nil, Revision: state.Revision, Pending: state.Pending}, err
}

// InForce returns the configuration in force. If it is still in its file, references in it are read
// as in a draft, so that both can be compared.
func (s Configuration) InForce() *config.Loaded {
	now := s.Now()
	if s.File != nil {
		if data, _, _, err := strictyaml.SeeFile(s.File.Path, config.MaxBytes); err == nil &&
			config.RevisionOf(data) == now.Status.Revision {
			if l, err := config.ReadBlindly(s.File.Path, data, nil); err == nil && config.DecidesBlindly(l) == nil {
				l.Text = data
				return &l
			}
		}
	}
	return &config.Loaded{Config: now.Config, Places: now.Places}
}

// Problems returns the problems in an error, one for each line of a configuration.
func Problems(err error) (all []admin.Problem) {
	if err == nil {
		return nil
	}
	bad, ok := errors.AsType[*config.Error](err)
	if !ok {
		return []admin.Problem{{Message: err.Error()}}
	}
	for _, p := range bad.Problems {
		message := p.Message
		if p.Path != "" {
			message = p.Path + ": " + message
		}
		all = append(all, admin.Problem{File: p.File, Line: p.Line, Column: p.Column, Message: message})
	}
	return all
}
