package main

import (
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// face is a client of a suite: the suite and the revision that it speaks.
type face struct {
	name     string
	suite    string         // the package's name in npm/package.json
	revision *wire.Revision // nil: the newest that the suite knows, all its scenarios
	stateful bool           // the era of its client
	tasks    bool           // only the scenarios of the tasks extension, in front of a tasker
}

// crossed ends the name of the leg in which the server is of the other era.
const crossed = "-crossed"

// standIns are scenarios that a crossed leg runs in front of our asker, by the era
// of the suite's client: the everything server asks there in a way that go-sdk has
// only for the other era.
func standIns(stateful bool) []string {
	if stateful {
		return []string{"tools-call-sampling", "tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums"}
	}
	return []string{"input-required-result-multi-round"}
}

// faces are the suites' clients: the stable line, whose client speaks one revision
// whatever it is asked for, and the next one in each revision that it knows.
func faces() []face {
	all := []face{{name: "stable", suite: "conformance-stable", stateful: true}}
	for _, r := range wire.Revisions()[1:] { // neither suite knows the oldest one
		all = append(all, face{name: "next-" + r.Name, suite: "conformance-next", revision: r, stateful: r.Stateful})
	}
	return append(all, face{name: "next-tasks", suite: "conformance-next", revision: wire.Stateless(), tasks: true})
}

// taskScenarios are those of the tasks extension, which "all" leaves out.
var taskScenarios = [...]string{
	"tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal", "tasks-mrtr-input",
	"tasks-request-headers", "tasks-dispatch-and-envelope", "tasks-status-notifications", "tasks-required-task-error", "tasks-mrtr-composition",
}

// legs are the names of the legs of a face: its own era and the other one.
func (f face) legs() []string { return []string{f.name, f.name + crossed} }

func isLeg(name string) bool {
	for _, f := range faces() {
		for _, leg := range f.legs() {
			if leg == name {
				return true
			}
		}
	}
	return false
}
