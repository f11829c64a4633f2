package gateway

import (
	"os"
	"path/filepath"
	"reflect"
)

// LoadConfig reads a configuration file. Paths in it that are not absolute begin at
// its directory. The error is a *ConfigError with everything that is wrong; warnings
// come in either case.
func LoadConfig(file string) (cfg Config, warnings []Problem, err error) {
	data, _, err := readBounded(file, maxConfigBytes)
	if err != nil {
		return Config{}, nil, &ConfigError{[]Problem{{File: file, Message: "cannot be read: " + err.Error()}}}
	}
	return ParseConfig(file, data)
}

// ParseConfig is LoadConfig for a text that is already there. file names it in
// problems, and its directory is where relative paths begin; it need not exist.
func ParseConfig(file string, data []byte) (cfg Config, warnings []Problem, err error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return Config{}, nil, &ConfigError{[]Problem{{File: file, Message: "its directory is not known: " + err.Error()}}}
	}
	problems, warnings := decodeConfig(source{file, data, dir, os.LookupEnv}, &cfg)
	if len(problems) > 0 {
		return Config{}, warnings, &ConfigError{problems}
	}
	cfg.resolvePaths(dir)
	return cfg, warnings, nil
}

// source is where a configuration comes from: its text, and what references in it
// may reach.
type source struct {
	file string // for messages
	data []byte
	dir  string
	env  func(string) (string, bool)
}

// checked is a configuration that finds its own faults: joined errors, each with the
// path of its key in front.
type checked interface {
	Validate() error
	doubts() error // what is allowed, and probably not meant
}

// decodeConfig fills target, a pointer to a struct, from src and checks it.
func decodeConfig(src source, target checked) (problems, warnings []Problem) {
	d := newDecoder(src.env, src.dir)
	root, faults := parseDocument(src.data)
	d.problems = append(d.problems, faults...)
	if root != nil {
		value := reflect.ValueOf(target).Elem()
		d.decode(root, "", value)
		d.problems = append(d.problems, d.place(target.Validate(), value.Type())...)
		d.warnings = append(d.warnings, d.place(target.doubts(), value.Type())...)
	}
	return d.report(src.file, d.problems), d.report(src.file, d.warnings)
}

// report turns what was found into what is shown.
func (d *decoder) report(file string, found []placed) []Problem {
	problems := make([]Problem, len(found))
	for i, f := range found {
		problems[i] = Problem{
			File:    file,
			Line:    f.line,
			Column:  f.column,
			Path:    d.refs.hide(d.display(f.address)),
			Message: d.refs.hide(f.message),
		}
	}
	return sortProblems(problems)
}
