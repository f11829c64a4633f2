package main

import (
	"bufio"
	"os"
	"slices"
	"strings"
)

// maxLine bounds a line of a log that is looked at, in bytes.
const maxLine = 1 << 20

// expectedErrors are errors that faults are: a configuration that is broken on purpose.
var expectedErrors = []string{`msg="configuration not reloaded`, "msg=configuration problem="}

// readLogs looks for what must not be in the replicas' logs: panics, races, and what they
// take for an error of their own.
func (s *site) readLogs() {
	for _, r := range s.replicas {
		f, err := os.Open(r.log)
		if err != nil {
			s.l.violation("%v", err)
			continue
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, maxLine)
		for lines.Scan() {
			line := lines.Text()
			if slices.ContainsFunc(expectedErrors, func(text string) bool { return strings.Contains(line, text) }) {
				continue
			}
			if strings.Contains(line, "panic") || strings.Contains(line, "DATA RACE") || strings.Contains(line, "level=ERROR") {
				s.l.violation("replica %d logged: %.500s", r.number, line)
			}
		}
		if err := lines.Err(); err != nil {
			s.l.violation("the log of replica %d: %v", r.number, err)
		}
		f.Close()
	}
}
