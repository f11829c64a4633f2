package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// Settings let operators see and change the configuration.
type Settings interface {
	// Text returns the file as it stands. The error is ErrNoFile, or that it cannot be read.
	Text() (ConfigText, error)
	// Effective returns the configuration in force. The error is ErrNoFile.
	Effective() (EffectiveConfig, error)
	Changes() []ConfigChange
	// Check returns the mistakes in a text, and what it would change. With blind, its references are
	// not looked up.
	Check(text string, blind bool) ConfigCheck
	// Save writes a text into the file and reloads it, if the file still has a revision. The error
	// is a *BadDraft, ErrNoFile, ErrNoSaving, ErrFileChanged, or why it cannot be written.
	Save(text, revision string) (Reload, error)
	// Saves reports whether operators may change the file now.
	Saves() bool
}

// Errors of Settings.
var (
	ErrNoSaving = refusal(http.StatusForbidden, failure.AdminRole,
		"this gateway does not let operators change its file: download the text and put it there, or set admin.console.save: true in the file")
	ErrFileChanged = errors.New("the file has changed since: load it again, and make your change in what it says now")
)

// ConfigText is the configuration file as it stands.
type ConfigText struct {
	File string `json:"file"`
	// Text has Mask in place of each secret that stands in the file literally. If that cannot be
	// done, it is "" and Hidden says why.
	Text     string `json:"text"`
	Hidden   string `json:"hidden,omitempty"`
	Masked   bool   `json:"masked"` // there are secrets in the file
	Revision string `json:"revision"`
	// InForce says that it is the configuration in force.
	InForce bool `json:"in_force"`
	// Save says that operators may change it.
	Save bool `json:"save"`
}

// EffectiveConfig is the configuration in force, with its defaults.
type EffectiveConfig struct {
	Text     string `json:"text"`
	Hidden   string `json:"hidden,omitempty"`
	Revision string `json:"revision"`
}

// ConfigDraft is a text to check or to save. Revision is that of the file that was edited; it is
// needed to save.
type ConfigDraft struct {
	Text     string `json:"text"`
	Revision string `json:"revision,omitempty"`
}

// ConfigCheck has the mistakes in a text, and the changes that a reload of it would make.
type ConfigCheck struct {
	// Problems are the reasons why a reload would refuse it. Warnings are probable mistakes.
	Problems []Problem `json:"problems"`
	Warnings []Problem `json:"warnings"`
	// Changed names sections, the others name servers. All are empty if there are problems.
	Changed  []string `json:"changed"`
	Added    []string `json:"added"`
	Replaced []string `json:"replaced"`
	Removed  []string `json:"removed"`
	// Notes tell what was not checked.
	Notes []string `json:"notes,omitempty"`
}

// ConfigChanges are the last readings of the configuration, newest first.
type ConfigChanges struct {
	History []ConfigChange `json:"history"`
}

func state(_ context.Context, a *API, _ Operator, _ None) (State, error) {
	return a.deps.Configuration.State(), nil
}

func configText(_ context.Context, a *API, _ Operator, _ None) (ConfigText, error) {
	text, err := a.deps.Settings.Text()
	return text, refusedSetting(err)
}

func effectiveConfig(_ context.Context, a *API, _ Operator, _ None) (EffectiveConfig, error) {
	effective, err := a.deps.Settings.Effective()
	return effective, refusedSetting(err)
}

func configHistory(_ context.Context, a *API, _ Operator, _ None) (ConfigChanges, error) {
	return ConfigChanges{some(a.deps.Settings.Changes())}, nil
}

const (
	// mostChecks bounds the texts that are checked at a time: compiling the conditions of their rules
	// slows calls down. Others wait.
	mostChecks = 1
	// longestWait bounds that wait.
	longestWait = 20 * time.Second
)

// checkConfig looks references up only for operators who may change the file. Others would learn
// which variables and files there are, and their contents.
func checkConfig(ctx context.Context, a *API, who Operator, d ConfigDraft) (c ConfigCheck, err error) {
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	select {
	case a.checks <- struct{}{}:
		defer func() { <-a.checks }()
	case <-ctx.Done():
		return c, busy("others check texts: try again later")
	}
	c = a.deps.Settings.Check(d.Text, !who.May(RoleOperator) || !a.deps.Settings.Saves())
	c.Problems, c.Warnings = some(c.Problems), some(c.Warnings)
	c.Changed, c.Added, c.Replaced, c.Removed = some(c.Changed), some(c.Added), some(c.Replaced), some(c.Removed)
	return c, nil
}

// saveConfig changes the file. A refused text is not written: its error is a *BadDraft.
func saveConfig(_ context.Context, a *API, who Operator, d ConfigDraft) (outcome Reload, err error) {
	if d.Revision == "" {
		return outcome, BadRequest("revision: say which text was edited: /api/v1/config/text has its revision")
	}
	if outcome, err = a.deps.Settings.Save(d.Text, d.Revision); err != nil {
		return outcome, refusedSetting(err)
	}
	a.acted(who, &record.Record{Event: "configuration saved", Reason: "revision " + outcome.Revision})
	return outcome, nil
}

// refusedSetting returns the refusal to show or change the configuration.
func refusedSetting(err error) error {
	_, bad := errors.AsType[*BadDraft](err)
	_, known := errors.AsType[*Refusal](err)
	switch {
	case err == nil, bad, known:
		return err
	case errors.Is(err, ErrNoFile):
		return refusal(http.StatusNotFound, failure.AdminNotFound, "this gateway has no configuration file")
	case errors.Is(err, context.DeadlineExceeded):
		return busy("it takes too long")
	}
	return refusal(http.StatusConflict, failure.AdminRequest, err.Error())
}
