package main

import (
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// face is a suite and the revision that its client speaks.
type face struct {
	name     string
	suite    string         // package name in npm/package.json
	revision *wire.Revision // nil: the newest revision of the suite, all its scenarios
	stateful bool           // era of the client
	tasks    bool           // only the scenarios of the tasks extension, against a tasker
}

// crossed is the suffix of a leg in which the server has the other era.
const crossed = "-crossed"

// standIns returns the scenarios that a crossed leg runs against our asker, by the era of
// the suite's client. In these the everything server asks in a way that go-sdk supports
// only for the other era.
func standIns(stateful bool) []string {
	if stateful {
		return []string{"tools-call-sampling", "tools-call-elicitation", "elicitation-sep1034-defaults",
			"elicitation-sep1330-enums"}
	}
	return []string{"input-required-result-multi-round"}
}

// faces returns all faces: the stable suite, which speaks one revision whatever the flag says, and
// the next suite with each revision that it knows.
func faces() []face {
	all := []face{{name: "stable", suite: "conformance-stable", stateful: true}}
	for _, r := range wire.Revisions()[1:] { // no suite knows the oldest one
		all = append(all, face{name: "next-" + r.Name, suite: "conformance-next", revision: r, stateful: r.Stateful})
	}
	return append(all, face{name: "next-tasks", suite: "conformance-next", revision: wire.Stateless(), tasks: true})
}

// taskScenarios are the scenarios of the tasks extension, which "all" leaves out.
var taskScenarios = [...]string{
	"tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal",
	"tasks-mrtr-input",
	"tasks-request-headers", "tasks-dispatch-and-envelope", "tasks-status-notifications", "tasks-required-task-error",
	"tasks-mrtr-composition",
}

// legs returns the names of the legs of a face: its own era and the other one.
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
