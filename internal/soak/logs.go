package main

import (
	"bufio"
	"os"
	"slices"
	"strings"
)

// maxLine bounds, in bytes, a line of a log.
const maxLine = 1 << 20

// expectedErrors are errors that faults cause: a configuration that is invalid on purpose.
var expectedErrors = []string{`msg="configuration not reloaded`,
	"msg=configuration error_code=GH-CONFIG-INVALID problem="}

// readLogs looks in the replicas' logs for panics, races and errors that nothing explains.
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
