package mcptest

import (
	"encoding/json"
	"os"
	"strings"
)

// Records reads the records of one kind from a file of the gateway's audit. It leaves out members that
// differ from run to run. Errors are those of the file, and of lines that are not JSON.
func Records(path, kind string) (all []map[string]any, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, err
		}
		if r["kind"] != kind {
			continue
		}
		for _, name := range []string{"seq", "prev", "chain", "time", "kind", "hash", "duration_ms"} {
			delete(r, name)
		}
		all = append(all, r)
	}
	return all, nil
}
