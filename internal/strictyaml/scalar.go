package strictyaml

import (
	"encoding"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

func (d *Document) scalar(n *yaml.Node, address string, v reflect.Value) {
	if n.Kind != yaml.ScalarNode {
		d.say(n, address, "want %s, not %s", wanted(v.Type()), kindName(n))
		return
	}
	text, warnings, errs := d.refs.expand(n.Value)
	for _, warning := range warnings {
		d.warnings = append(d.warnings, placed{placeOf(n), address, warning})
	}
	for _, err := range errs {
		d.say(n, address, "%s", err)
	}
	if len(errs) > 0 {
		return
	}
	if shellVariable.MatchString(text) {
		d.warnings = append(d.warnings, placed{placeOf(n), address,
			"$ and a name stand for themselves here: write ${env:NAME} for a variable of the environment"})
	}
	referred := text != n.Value
	if referred {
		d.written[address] = n.Value
	}
	secret := isSecret(v, address)
	if secret && strings.Contains(n.Value, "${env:") {
		d.borrowed = append(d.borrowed, address)
	}
	if secret && !referred && text != "" {
		d.warnings = append(d.warnings, placed{placeOf(n), address,
			"a secret stands in the file: ${env:NAME} or ${file:/path} keep it out"})
	}
	// Numbers and booleans in quotes are text; the value of a reference has no quotes of
	// its own.
	plain := referred || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	if err := setScalar(v, text, plain, strings.HasSuffix(address, "_bytes")); err != nil {
		d.say(n, address, "%s", err)
	}
}

// setScalar stores text in v. Its errors quote text; values of references are hidden later.
func setScalar(v reflect.Value, text string, plain, bytes bool) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	if v.Type() == durationType {
		duration, err := parseDuration(text)
		v.SetInt(int64(duration))
		return err
	}
	if v.Kind() == reflect.String {
		v.SetString(text)
		return nil
	}
	if !plain {
		return fmt.Errorf("want %s, not text in quotes", wanted(v.Type()))
	}
	switch {
	case v.Kind() == reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("want true or false, not %q", text)
		}
		v.SetBool(text == "true")
		return nil
	case v.CanInt():
		number, err := parseInt(text, bytes)
		if err == nil && v.OverflowInt(number) {
			return fmt.Errorf("%s is too large", text)
		}
		v.SetInt(number)
		return err
	}
	return fmt.Errorf("internal error: a configuration cannot hold a %s", v.Type())
}

// parseDuration wants a unit, even for zero: people guess the unit of a bare number rather than
// look it up.
func parseDuration(text string) (time.Duration, error) {
	duration, err := time.ParseDuration(text)
	if _, bare := strconv.ParseFloat(text, 64); bare == nil && text != "" {
		return 0, fmt.Errorf("duration %q has no unit: write %ss, %sms, %sm or %sh", text, text, text, text, text)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: want a number with a unit, such as 500ms, 30s, 5m, 1h30m", text)
	}
	return duration, nil
}

var integer = regexp.MustCompile(`^(-?(?:0|[1-9][0-9]*))(KiB|MiB|GiB)?$`)

// parseInt reads a decimal number, for byte sizes also with a unit.
func parseInt(text string, bytes bool) (int64, error) {
	want := "a whole number"
	if bytes {
		want = "a number of bytes, such as 65536, 64KiB, 16MiB or 1GiB"
	}
	m := integer.FindStringSubmatch(text)
	if m == nil || m[2] != "" && !bytes {
		return 0, fmt.Errorf("want %s, not %q", want, text)
	}
	number, err := strconv.ParseInt(m[1], 10, 64)
	unit := map[string]int64{"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[m[2]]
	if err != nil || number > math.MaxInt64/unit || number < math.MinInt64/unit {
		return 0, fmt.Errorf("%s is too large", text)
	}
	return number * unit, nil
}

// shellVariable matches what a shell would replace.
var shellVariable = regexp.MustCompile(`(?:^| )\$[A-Z][A-Z0-9_]+$`)

var secretKey = regexp.MustCompile(`(?i)auth|token|secret|passw|key|credential|cookie`)

// isSecret reports whether v should not stand in the file: its type hides itself from logs, and
// its key sounds like a secret. It takes both, since headers and environments hold plain
// values too.
func isSecret(v reflect.Value, address string) bool {
	key := address[strings.LastIndexByte(address, '.')+1:]
	return v.Type().Implements(reflect.TypeFor[slog.LogValuer]()) && secretKey.MatchString(key)
}

func wanted(t reflect.Type) string {
	switch {
	case t == durationType:
		return "a duration, such as 30s"
	case reflect.PointerTo(t).Implements(textType):
		return "text"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String:
		return "text"
	}
	return "a whole number"
}
