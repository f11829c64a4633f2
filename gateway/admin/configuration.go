package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// Settings are how operators see and change the configuration. All fields are required.
type Settings struct {
	// Text returns the file as it stands. The error is ErrNoFile, or that it cannot be read.
	Text func() (ConfigText, error)
	// Effective returns the configuration that holds. The error is ErrNoFile.
	Effective func() (EffectiveConfig, error)
	History   func() []ConfigChange
	// Check says what is wrong with a text, and what it would change. With blind, its references are
	// not looked up.
	Check func(text string, blind bool) ConfigCheck
	// Save writes a text into the file and reloads it, if the file still has a revision. The error
	// is a *BadDraft, ErrNoFile, ErrNoSaving, ErrFileChanged, or why it cannot be written.
	Save func(text, revision string) (Reload, error)
	// Probe tries servers, until ctx ends. The error is a *BadDraft, or of the gateway.
	Probe func(ctx context.Context, p Attempt) (Probed, error)
	// Saves reports whether operators may change the file now.
	Saves func() bool
}

// Errors of Settings.
var (
	ErrNoSaving    = errors.New("this gateway does not let operators change its file: download the text and put it there, or set admin.console.save: true in the file")
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
	// InForce says that it is the configuration that holds.
	InForce bool `json:"in_force"`
	// Save says that operators may change it.
	Save bool `json:"save"`
}

// EffectiveConfig is the configuration that holds, with its defaults.
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

// ConfigCheck is what is wrong with a text, and what a reload of it would change.
type ConfigCheck struct {
	// Problems are why a reload would refuse it. Warnings are what is probably not meant.
	Problems []Problem `json:"problems"`
	Warnings []Problem `json:"warnings"`
	// Changed are sections, the others servers. All are empty if there are problems.
	Changed  []string `json:"changed"`
	Added    []string `json:"added"`
	Replaced []string `json:"replaced"`
	Removed  []string `json:"removed"`
	// Notes say what was not looked at.
	Notes []string `json:"notes,omitempty"`
}

type configChanges struct {
	History []ConfigChange `json:"history"`
}

func configText(a *API, x *exchange) error {
	text, err := a.deps.Settings.Text()
	if err != nil {
		return refusedSetting(err)
	}
	return x.answer(text)
}

func effectiveConfig(a *API, x *exchange) error {
	effective, err := a.deps.Settings.Effective()
	if err != nil {
		return refusedSetting(err)
	}
	return x.answer(effective)
}

func configHistory(a *API, x *exchange) error {
	return x.answer(configChanges{some(a.deps.Settings.History())})
}

const (
	// mostChecks bounds how many texts are checked at a time: compiling the conditions of their rules
	// takes time, which calls need. Others wait.
	mostChecks = 1
	// longestWait bounds that wait.
	longestWait = 20 * time.Second
)

// checkConfig looks references up only for operators who may change the file: others would learn
// which variables and files there are, and what is in them.
func checkConfig(a *API, x *exchange) error {
	var d ConfigDraft
	if err := x.read(mostDraft, &d); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), longestWait)
	defer cancel()
	select {
	case a.checks <- struct{}{}:
		defer func() { <-a.checks }()
	case <-ctx.Done():
		return refusal(http.StatusServiceUnavailable, failure.AdminBusy, "others check texts: try again later")
	}
	c := a.deps.Settings.Check(d.Text, !x.who.May(RoleOperator) || !a.deps.Settings.Saves())
	c.Problems, c.Warnings = some(c.Problems), some(c.Warnings)
	c.Changed, c.Added, c.Replaced, c.Removed = some(c.Changed), some(c.Added), some(c.Replaced), some(c.Removed)
	return x.answer(c)
}

// saveConfig changes the file. A refused text is an answer with 422, and is not written.
func saveConfig(a *API, x *exchange) error {
	var d ConfigDraft
	if err := x.read(mostDraft, &d); err != nil {
		return err
	}
	if d.Revision == "" {
		return refusal(http.StatusBadRequest, failure.AdminRequest, "revision: say which text was edited: /api/v1/config/text has its revision")
	}
	outcome, err := a.deps.Settings.Save(d.Text, d.Revision)
	if bad, ok := errors.AsType[*BadDraft](err); ok {
		return x.answerWith(http.StatusUnprocessableEntity, bad)
	}
	if err != nil {
		return refusedSetting(err)
	}
	a.acted(x, "configuration saved", "", "revision "+outcome.Revision)
	return x.answer(outcome)
}

// refusedSetting says why the configuration cannot be seen or changed.
func refusedSetting(err error) error {
	switch {
	case errors.Is(err, ErrNoSaving):
		return refusal(http.StatusForbidden, failure.AdminRole, err.Error())
	case errors.Is(err, ErrNoFile):
		return refusal(http.StatusNotFound, failure.AdminNotFound, "this gateway has no configuration file")
	case errors.Is(err, context.DeadlineExceeded):
		return refusal(http.StatusServiceUnavailable, failure.AdminBusy, "it takes too long")
	}
	return refusal(http.StatusConflict, failure.AdminRequest, err.Error())
}
