package disclosure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// Bounds on a directory of descriptions.
const (
	maxFiles     = 10_000
	maxFileBytes = 64 << 10
)

// Description is a file about a tool, in JSON. Its members replace what the upstream says.
// The schema of the parameters is always the upstream's.
type Description struct {
	// Name, if present, repeats the name of the file, which is the tool's.
	Name string `json:"name"`
	// Summary is the short description, for tools/list.
	Summary string `json:"summary"`
	// Description is the full description.
	Description string `json:"description"`
	// Examples is an array of examples of calls, such as {"description": "Last month",
	// "input": {"month": "2026-10"}}.
	Examples json.RawMessage `json:"examples"`
	// UsageGuidance and ErrorGuidance are objects of any content.
	UsageGuidance json.RawMessage `json:"usage_guidance"`
	ErrorGuidance json.RawMessage `json:"error_guidance"`

	text []byte // the text of the file
}

// ReadDescriptions reads all files NAME.json of a directory, and returns them by NAME. It ignores
// other files and subdirectories, and follows no link out of the directory. The error reports all
// mistakes.
func ReadDescriptions(dir string) (map[string]Description, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	all := make(map[string]Description)
	var errs []error
	for _, entry := range entries {
		tool, ok := strings.CutSuffix(entry.Name(), ".json")
		if !ok || tool == "" || strings.HasPrefix(tool, ".") || entry.IsDir() {
			continue
		}
		if len(all) == maxFiles {
			errs = append(errs, fmt.Errorf("%s has more than %d files", dir, maxFiles))
			break
		}
		one, err := readDescription(root, entry.Name())
		if err == nil && one.Name != "" && one.Name != tool {
			err = fmt.Errorf("name: %q: the file is for %q", one.Name, tool)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", entry.Name(), err))
			continue
		}
		all[tool] = one
	}
	return all, errors.Join(errs...)
}

func readDescription(root *os.Root, name string) (d Description, err error) {
	file, err := root.Open(name)
	if err != nil {
		return d, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return d, errors.Join(err, errors.New("is no regular file"))
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return d, err
	}
	if len(text) > maxFileBytes {
		return d, fmt.Errorf("is larger than %d bytes", maxFileBytes)
	}
	return parseDescription(text)
}

// parseDescription parses the text of a file.
func parseDescription(text []byte) (d Description, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return d, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return d, errors.New("there is something behind the object")
	}
	if d.Summary != "" {
		if err := CheckSummary(d.Summary); err != nil {
			return d, fmt.Errorf("summary: %w", err)
		}
	}
	for _, member := range []struct {
		name  string
		value *json.RawMessage
		begin byte
		want  string
	}{{"examples", &d.Examples, '[', "an array"}, {"usage_guidance", &d.UsageGuidance, '{', "an object"},
		{"error_guidance", &d.ErrorGuidance, '{', "an object"}} {
		if *member.value == nil {
			continue
		}
		if (*member.value)[0] != member.begin {
			return d, fmt.Errorf("%s: want %s", member.name, member.want)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, *member.value); err != nil {
			return d, fmt.Errorf("%s: %w", member.name, err)
		}
		*member.value = compact.Bytes()
	}
	d.text = text
	return d, nil
}
