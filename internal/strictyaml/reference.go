package strictyaml

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxReferenceBytes bounds a file that is read by ${file:...}.
const maxReferenceBytes = 64 << 10

// references resolves ${env:NAME} and ${file:/path} inside the scalars of a configuration. It
// works on parsed text, so a value cannot add structure. $${ stands for a plain ${.
type references struct {
	env   func(string) (string, bool)
	dir   string // of relative paths
	blind bool   // nothing is looked up
	// permit reports whether a reference may be used; nil for all.
	permit func(reference string) bool

	// values maps the values of references to the references, so that no message of a later check
	// shows one.
	values map[string]string
	files  []Seen // that references name
}

// expand returns text with its references replaced. warnings are things to tell
// the operator; every error is one problem.
func (r *references) expand(text string) (expanded string, warnings []string, errs []error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), warnings, errs
		}
		if strings.HasSuffix(before, "$") {
			b.WriteString("{")
			text = rest
			continue
		}
		reference, after, closed := strings.Cut(rest, "}")
		if !closed {
			errs = append(errs, errors.New("a reference ${ has no closing }; write $${ for a plain ${"))
			return b.String(), warnings, errs
		}
		value, warning, err := r.resolve(reference)
		if err != nil {
			errs = append(errs, err)
		}
		if warning != "" {
			warnings = append(warnings, warning)
		}
		b.WriteString(value)
		text = after
	}
}

func (r *references) resolve(reference string) (value, warning string, err error) {
	kind, name, _ := strings.Cut(reference, ":")
	switch {
	case kind != "env" && kind != "file":
		// it may be a part of a password
		return "", "", errors.New("unknown reference ${" + leftOut +
			"}: want ${env:NAME} or ${file:/path}; write $${ for a plain ${")
	case name == "":
		return "", "", fmt.Errorf("reference ${%s} names nothing: want ${env:NAME} or ${file:/path}", reference)
	case r.permit != nil && !r.permit(kind+":"+r.absolute(kind, name)):
		return "", "", fmt.Errorf("${%s}: this file may not use it", reference)
	case r.blind:
		known := false
		if kind == "env" && r.env != nil {
			value, known = r.env(name)
		}
		if !known {
			sum := sha256.Sum256([]byte(reference))
			value = StandIn + hex.EncodeToString(sum[:16])
		}
	case kind == "env":
		var set bool
		value, set = r.env(name)
		if !set {
			return "", "", fmt.Errorf("${env:%s}: the environment variable is not set", name)
		}
	default:
		if value, warning, err = r.readFile(name); err != nil {
			return "", "", fmt.Errorf("${file:%s}: %w", name, err)
		}
	}
	if value == "" {
		return "", "", fmt.Errorf("${%s}: the value is empty", reference)
	}
	if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
		return "", "", fmt.Errorf("${%s}: the value is not UTF-8 text", reference)
	}
	if warning != "" {
		warning = fmt.Sprintf("${%s}: %s", reference, warning)
	}
	r.values[value] = "${" + reference + "}"
	return value, warning, nil
}

// absolute returns what a reference names: of a file, the path without steps up and down.
func (r *references) absolute(kind, name string) string {
	switch {
	case kind != "file":
		return name
	case filepath.IsAbs(name):
		return filepath.Clean(name)
	}
	return filepath.Join(r.dir, name)
}

// readFile reads a file without the one newline that editors put at its end.
func (r *references) readFile(path string) (value, warning string, err error) {
	path = r.absolute("file", path)
	data, mode, this, err := SeeFile(path, maxReferenceBytes)
	r.files = append(r.files, this)
	if err != nil {
		return "", "", err
	}
	if mode.Perm()&0o004 != 0 {
		warning = fmt.Sprintf("every user of this machine can read the file (mode %04o); chmod 600 it", mode.Perm())
	}
	data = bytes.TrimSuffix(data, []byte("\n"))
	data = bytes.TrimSuffix(data, []byte("\r"))
	return string(data), warning, nil
}

// userinfo is where a URL, or a path that was made of one, has its password.
var userinfo = regexp.MustCompile(`:/+[^\s"]*@`)

// hide replaces every value of a reference in a message by the reference, and leaves out user and
// password of URLs, which checks quote. Values of up to three bytes stay: they are no secrets, and
// may occur in any word.
func (r *references) hide(message string) string {
	// Longest first: one value may be a part of another.
	longest := slices.SortedFunc(maps.Keys(r.values), func(a, b string) int {
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	})
	for _, value := range longest {
		if len(value) > 3 {
			message = strings.ReplaceAll(message, value, r.values[value])
			message = strings.ReplaceAll(message, quoted(value), r.values[value])
		}
	}
	return userinfo.ReplaceAllString(message, "://"+leftOut+"@")
}

// quoted is value as %q writes it, without the quotes.
func quoted(value string) string {
	q := fmt.Sprintf("%q", value)
	return q[1 : len(q)-1]
}
