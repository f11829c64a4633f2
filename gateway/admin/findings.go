package admin

import (
	"context"
	"time"
)

// Severities of findings.
const (
	Critical = "critical" // something does not work
	Warning  = "warning"  // something works in part, will end soon, or has changed for the worse
	Notice   = "notice"   // worth knowing
)

// Findings are the problems that this replica sees, worst first.
type Findings struct {
	Replica  string    `json:"replica"`
	At       time.Time `json:"at"`
	Findings []Finding `json:"findings"`
}

// Finding is a problem of the gateway or its servers.
type Finding struct {
	// Severity is critical, warning or notice.
	Severity string `json:"severity"`
	// Kind is the kind of thing, such as server or certificate; Subject names it, "" if there is
	// only one.
	Kind    string `json:"kind"`
	Subject string `json:"subject,omitempty"`
	// What, Cause and Next are sentences: the problem, its cause, and the one next step.
	What  string `json:"what"`
	Cause string `json:"cause"`
	Next  string `json:"next"`
	// Look is the path of a request that tells more.
	Look  string     `json:"look"`
	Since *time.Time `json:"since,omitempty"`
	// Code is the name of the failure, as in docs/errors.md.
	Code string `json:"error_code,omitempty"`
	// Excerpt is the line of the configuration with the mistake, and a second line with a caret
	// under it. What may be a secret is left out.
	Excerpt string `json:"excerpt,omitempty"`
}

// findings returns the problems that this replica sees.
func findings(ctx context.Context, a *API, _ Operator, _ None) (Findings, error) {
	all, err := a.deps.Finder.Findings(ctx)
	if err != nil {
		return Findings{}, busy("what is not well could not be found out in time: try again")
	}
	return Findings{a.deps.Self, time.Now().UTC(), some(all)}, nil
}
