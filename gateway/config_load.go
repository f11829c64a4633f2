package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
)

// LoadConfig reads a configuration file. Paths in it that are not absolute begin at
// its directory. The error is a *ConfigError with everything that is wrong; warnings
// come in either case.
func LoadConfig(file string) (cfg Config, warnings []Problem, err error) {
	l, err := load(file, nil)
	return l.cfg, l.warnings, err
}

// loaded is what came of reading a configuration file.
type loaded struct {
	cfg      Config
	warnings []Problem
	files    []seen // the file, those that references in it name, and the directory of descriptions
	revision string // of the file: the first digits of its SHA-256
}

// seen is a file as it was read, or a directory as it was listed.
type seen struct {
	path    string
	limit   int64 // of a file, in bytes; 0 for a directory
	content [sha256.Size]byte
}

// again is what is there now.
func (s seen) again() seen {
	if s.limit == 0 {
		return seeDirectory(s.path)
	}
	_, _, now, _ := see(s.path, s.limit)
	return now
}

// see reads a file, and notes what was there.
func see(path string, limit int64) (data []byte, mode os.FileMode, s seen, err error) {
	data, mode, err = readBounded(path, limit)
	sum := sha256.New()
	fmt.Fprintf(sum, "%d %v\n", len(data), err)
	sum.Write(data)
	return data, mode, seen{path, limit, [sha256.Size]byte(sum.Sum(nil))}, err
}

// maxLooked is how many bytes of the files in a directory are read whenever it is looked at.
const maxLooked = 1 << 20

// seeDirectory lists a directory, and notes what its files hold. Of those beyond maxLooked
// it is sizes and times: there may be too many to read them every time.
func seeDirectory(path string) seen {
	entries, err := os.ReadDir(path)
	sum := sha256.New()
	fmt.Fprintf(sum, "%v\n", err)
	left := int64(maxLooked)
	for _, entry := range entries {
		// Behind the links of a Kubernetes ConfigMap, too.
		info, err := os.Stat(filepath.Join(path, entry.Name()))
		if err != nil {
			fmt.Fprintf(sum, "%q %v\n", entry.Name(), err)
			continue
		}
		fmt.Fprintf(sum, "%q %d %d\n", entry.Name(), info.Size(), info.ModTime().UnixNano())
		if left -= info.Size(); left >= 0 && info.Mode().IsRegular() {
			data, _, err := readBounded(filepath.Join(path, entry.Name()), maxLooked)
			fmt.Fprintf(sum, "%d %v\n", len(data), err)
			sum.Write(data)
		}
	}
	return seen{path: path, content: [sha256.Size]byte(sum.Sum(nil))}
}

// load is LoadConfig. With the configuration that holds, it is also an error to change
// what cannot be changed without a restart.
func load(file string, holds *Config) (loaded, error) {
	data, _, this, err := see(file, maxConfigBytes)
	if err != nil {
		return loaded{files: []seen{this}}, &ConfigError{[]Problem{{File: file, Message: "cannot be read: " + err.Error()}}}
	}
	l, err := parseConfig(file, data, holds)
	l.files = append(l.files, this)
	sum := sha256.Sum256(data)
	l.revision = hex.EncodeToString(sum[:6])
	return l, err
}

// ParseConfig is LoadConfig for a text that is already there. file names it in
// problems, and its directory is where relative paths begin; it need not exist.
func ParseConfig(file string, data []byte) (cfg Config, warnings []Problem, err error) {
	l, err := parseConfig(file, data, nil)
	return l.cfg, l.warnings, err
}

// Locate finds where in a file, which LoadConfig has read, stands what was found out about
// a configuration later: errors with the path of a key in front.
func Locate(file string, found []error) ([]Problem, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var cfg Config
	d, _, _ := decodeSource(source{file, data, filepath.Dir(file), os.LookupEnv}, &cfg)
	return d.report(file, d.place(errors.Join(found...), reflect.TypeFor[Config]())), nil
}

func parseConfig(file string, data []byte, holds *Config) (l loaded, err error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return l, &ConfigError{[]Problem{{File: file, Message: "its directory is not known: " + err.Error()}}}
	}
	var cfg Config
	d, problems, warnings := decodeSource(source{file, data, dir, os.LookupEnv}, &cfg)
	l.warnings, l.files = warnings, d.refs.files
	if len(problems) == 0 && holds != nil {
		problems = d.report(file, d.place(cfg.withDefaults().needsRestart(*holds), reflect.TypeFor[Config]()))
	}
	if len(problems) > 0 {
		return l, &ConfigError{problems}
	}
	cfg.resolvePaths(dir)
	l.cfg = cfg
	if cfg.Disclosure.Descriptions != "" {
		l.files = append(l.files, seeDirectory(cfg.Disclosure.Descriptions))
	}
	return l, nil
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
	_, problems, warnings = decodeSource(src, target)
	return problems, warnings
}

func decodeSource(src source, target checked) (d *decoder, problems, warnings []Problem) {
	d = newDecoder(src.env, src.dir)
	root, faults := parseDocument(src.data)
	d.problems = append(d.problems, faults...)
	if root != nil {
		value := reflect.ValueOf(target).Elem()
		d.decode(root, "", value)
		d.problems = append(d.problems, d.place(target.Validate(), value.Type())...)
		d.warnings = append(d.warnings, d.place(target.doubts(), value.Type())...)
	}
	return d, d.report(src.file, d.problems), d.report(src.file, d.warnings)
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
