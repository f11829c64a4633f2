package strictyaml

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sample has a field of every kind that can be decoded.
type sample struct {
	Name    string            `yaml:"name"`
	Wait    time.Duration     `yaml:"wait"`
	Count   int               `yaml:"count" zero:"none"`
	Bytes   int64             `yaml:"max_bytes"`
	On      bool              `yaml:"on"`
	Maybe   *bool             `yaml:"maybe"`
	Prefix  *string           `yaml:"prefix"`
	Secret  hidden            `yaml:"secret"`
	Level   slog.Level        `yaml:"level"`
	Tags    []string          `yaml:"tags"`
	Headers map[string]hidden `yaml:"headers"`
	Parts   []part            `yaml:"parts"`
	Inner   `yaml:",inline"`
	//lint:ignore U1000 it is here to be no key
	ignored string
}

type Inner struct {
	Inlined string `yaml:"inlined"`
}

type part struct {
	Name    string  `yaml:"name"`
	Timeout timeout `yaml:"timeout"`
}

type timeout struct {
	Call time.Duration `yaml:"call"`
}

type hidden string

func (hidden) LogValue() slog.Value { return slog.StringValue("<secret>") }

func (s sample) Validate() error {
	var errs []error
	if s.Name == "" {
		errs = append(errs, errors.New("name: is needed"))
	}
	if s.Count < 0 {
		errs = append(errs, fmt.Errorf("count: %d is negative", s.Count))
	}
	if s.Count == 77 {
		errs = append(errs, errors.New("something: is odd"))
	}
	for i, p := range s.Parts {
		var inner []error
		if p.Timeout.Call < 0 {
			inner = append(inner, fmt.Errorf("timeout.call: %s is negative", p.Timeout.Call))
		}
		if strings.Contains(p.Name, "_") {
			inner = append(inner, fmt.Errorf("name: %q has a separator", p.Name))
		}
		if err := errors.Join(inner...); err != nil {
			errs = append(errs, fmt.Errorf("parts[%d] (%s): %w", i, p.Name, err))
		}
	}
	if s.Headers["bad"] != "" {
		errs = append(errs, fmt.Errorf("headers[bad]: %s is not allowed", string(s.Headers["bad"])))
	}
	return errors.Join(errs...)
}

func decodeSample(t *testing.T, text string, env map[string]string) (sample, []string, []string) {
	t.Helper()
	var s sample
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	d := decodeChecked(text, t.TempDir(), lookup, &s)
	return s, texts(d.Problems()), texts(d.Warnings())
}

func decodeChecked(text, dir string, env func(string) (string, bool), s *sample) *Document {
	d := Decode(Source{File: "c.yaml", Data: []byte(text), Dir: dir, Env: env, Least: "a name", Example: "name: a"}, s)
	d.Check(s.Validate())
	return d
}

func texts(problems []Problem) []string {
	var lines []string
	for _, p := range problems {
		lines = append(lines, p.String())
	}
	return lines
}

func TestDecodeValues(t *testing.T) {
	yes, empty := true, ""
	got, problems, warnings := decodeSample(t, `
# every kind
name: 0123
wait: 1m30s
count: 7
max_bytes: 16MiB
on: true
maybe: true
prefix: ""
secret: a${env:S}c$${x}
level: debug
tags: [yes, "on", 'null', 1.5]
headers: {X-Team: "${env:S}", null: "${env:S}"}
parts:
  - name: crm
    timeout: {call: 2s}
inlined: |
  two
  lines
`, map[string]string{"S": "x\"\nadmin: true"})
	want := sample{
		Name: "0123", Wait: 90 * time.Second, Count: 7, Bytes: 16 << 20, On: true, Maybe: &yes, Prefix: &empty,
		Secret: "ax\"\nadmin: truec${x}", Level: slog.LevelDebug, Tags: []string{"yes", "on", "null", "1.5"},
		Headers: map[string]hidden{"X-Team": "x\"\nadmin: true", "null": "x\"\nadmin: true"},
		Parts:   []part{{Name: "crm", Timeout: timeout{Call: 2 * time.Second}}},
		Inner:   Inner{Inlined: "two\nlines\n"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(sample{})); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
	if len(problems)+len(warnings) != 0 {
		t.Errorf("problems %q, warnings %q; want none", problems, warnings)
	}
}

func TestDecodeProblems(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"unknown key with a near one", "name: a\ntaqs: []\n",
			[]string{`c.yaml:2: unknown key "taqs" (did you mean "tags"?)`}},
		{"swapped letters", "naem: a\n",
			[]string{`c.yaml:1: unknown key "naem" (did you mean "name"?)`}},
		{"upper case", "Name: a\n",
			[]string{`c.yaml:1: unknown key "Name" (did you mean "name"?)`}},
		{"unknown key far from all", "name: a\nparts:\n  - name: crm\n    zebra: 1\n",
			[]string{`c.yaml:4: parts[0] (crm): unknown key "zebra"; the keys here are name, timeout`}},
		{"a Go field without a tag is no key", "name: a\nignored: b\n",
			[]string{`c.yaml:2: unknown key "ignored"; the keys here are count, headers, inlined, level, max_bytes, maybe, name, on, parts, prefix, secret, tags, wait`}},
		{"all at once, sorted",
			"name: a\nparts:\n- name: crm\n  timeout: {call: -1s}\n- name: x_y\non: yes\nwait: 30\ncount: -3\n",
			[]string{
				`c.yaml:4: parts[0] (crm): timeout.call: -1s is negative`,
				`c.yaml:5: parts[1] (x_y): name: "x_y" has a separator`,
				`c.yaml:6: on: want true or false, not "yes"`,
				`c.yaml:7: wait: duration "30" has no unit: write 30s, 30ms, 30m or 30h`,
				`c.yaml:8: count: -3 is negative`,
			}},
		{"duplicate key", "name: a\non: true\nname: b\n",
			[]string{`c.yaml:3: key "name" is given twice, in lines 1 and 3`}},
		{"duplicate key below", "name: a\nparts:\n- timeout: {call: 1s, call: 2s}\n  name: crm\n",
			[]string{`c.yaml:3: parts[0] (crm): timeout: key "call" is given twice, in lines 3 and 3`}},
		{"second document", "name: a\n---\nname: b\n",
			[]string{`c.yaml:2: a second document begins here: a configuration is exactly one`}},
		{"rubbish behind the document", "name: a\n---\n[\n",
			[]string{`c.yaml:3: not valid YAML: did not find expected node content`}},
		{"empty", "", []string{`c.yaml:1: the file is empty: it needs at least a name`}},
		{"only comments", "# nothing\n", []string{`c.yaml:1: the file is empty: it needs at least a name`}},
		{"only a document mark", "---\n", []string{`c.yaml:1: the file is empty: it needs at least a name`}},
		{"scalar root", "hello\n", []string{`c.yaml:1: the file has to consist of keys and their values, such as name: a`}},
		{"list root", "- a\n", []string{`c.yaml:1: the file has to consist of keys and their values, such as name: a`}},
		{"null value", "name: a\ntags:\n", []string{`c.yaml:2: tags: has no value: give it one or take the key out`}},
		{"a name without a value", "name: a\nheaders: {Authorization:hunter2, X-Team: b}\n",
			[]string{`c.yaml:2: headers: a name here has no value: want name: value, with a space behind the colon`}},
		{"an unknown key without a value", "name: a\nparts: [{token:hunter2, naem: }]\n", []string{
			`c.yaml:2: parts[0]: a key without a value: want key: value, with a space behind the colon; the keys here are name, timeout`,
			`c.yaml:2: parts[0]: unknown key "naem" (did you mean "name"?)`,
		}},
		{"a key that is none, with a value",
			"name: a\n\"token:hunter2\": b\nheaders: {\"a:hunter2\": 1, \"a:hunter2\": &c 2}\n", []string{
				`c.yaml:2: unknown key …; the keys here are count, headers, inlined, level, max_bytes, maybe, name, on, parts, prefix, secret, tags, wait`,
				`c.yaml:3: headers: key … is given twice, in lines 3 and 3`,
				`c.yaml:3: headers.…: anchors (&name) are not supported; text that begins with & needs quotes`,
			}},
		{"a password in a URL", "name: a\nwait: https://user:hunter2@host/\n",
			[]string{`c.yaml:2: wait: "https://…@host/" is not a duration: want a number with a unit, such as 500ms, 30s, 5m, 1h30m`}},
		{"what is missing is named", "on: true\n", []string{`c.yaml:1: name: is needed`}},
		{"alias", "name: &n a\nsecret: *n\n", []string{
			`c.yaml:1: name: anchors (&name) are not supported; text that begins with & needs quotes`,
			`c.yaml:2: secret: aliases (*name) are not supported; text that begins with * needs quotes`,
		}},
		{"a secret that looks like an alias", "name: a\nsecret: *hunter2\n",
			[]string{`c.yaml:2: aliases (*name) are not supported; text that begins with * needs quotes`}},
		{"merge key", "name: a\n<<: {on: true}\n", []string{
			`c.yaml:2: merge keys (<<) are not supported; write the keys out`,
		}},
		{"tag", "name: !!binary aGk=\n",
			[]string{`c.yaml:1: name: tags (!name) are not supported; text that begins with ! needs quotes`}},
		{"key that is no text", "name: a\n? [x]\n: 1\n", []string{
			`c.yaml:2: a key has to be text`,
		}},
		{"duration without unit", "name: a\nwait: 0\n",
			[]string{`c.yaml:2: wait: duration "0" has no unit: write 0s, 0ms, 0m or 0h`}},
		{"duration in strange units", "name: a\nwait: 3 parsecs\n",
			[]string{`c.yaml:2: wait: "3 parsecs" is not a duration: want a number with a unit, such as 500ms, 30s, 5m, 1h30m`}},
		{"endless duration", "name: a\nwait: 1000000000h\n",
			[]string{`c.yaml:2: wait: "1000000000h" is not a duration: want a number with a unit, such as 500ms, 30s, 5m, 1h30m`}},
		{"yes", "name: a\non: yes\n", []string{`c.yaml:2: on: want true or false, not "yes"`}},
		{"True", "name: a\non: True\n", []string{`c.yaml:2: on: want true or false, not "True"`}},
		{"boolean in quotes", "name: a\non: \"true\"\n", []string{`c.yaml:2: on: want true or false, not text in quotes`}},
		{"0 is not the default", "name: a\nwait: 0s\nmax_bytes: 0KiB\n", []string{
			`c.yaml:2: wait: 0 is not allowed here: write a value above 0, or leave the key out for the default`,
			`c.yaml:3: max_bytes: 0 is not allowed here: write a value above 0, or leave the key out for the default`}},
		{"0 that means something", "name: a\ncount: 0\n", nil},
		{"octal", "name: a\ncount: 0123\n", []string{`c.yaml:2: count: want a whole number, not "0123"`}},
		{"hexadecimal", "name: a\ncount: 0x10\n", []string{`c.yaml:2: count: want a whole number, not "0x10"`}},
		{"unit where there is none", "name: a\ncount: 1KiB\n", []string{`c.yaml:2: count: want a whole number, not "1KiB"`}},
		{"unknown unit", "name: a\nmax_bytes: 1MB\n",
			[]string{`c.yaml:2: max_bytes: want a number of bytes, such as 65536, 64KiB, 16MiB or 1GiB, not "1MB"`}},
		{"too many bytes", "name: a\nmax_bytes: 9999999999GiB\n",
			[]string{`c.yaml:2: max_bytes: 9999999999GiB is too large`}},
		{"too large a number", "name: a\ncount: 99999999999999999999\n",
			[]string{`c.yaml:2: count: 99999999999999999999 is too large`}},
		{"wrong kinds", "name: [a]\ntags: a\nparts: {}\nheaders: 1\n", []string{
			`c.yaml:1: name: want text, not a list`,
			`c.yaml:2: tags: want a list, such as [a, b], not a single value`,
			`c.yaml:3: parts: want a list, such as [a, b], not keys and values`,
			`c.yaml:4: headers: want names and their values, not a single value`,
		}},
		{"list of wrong elements", "name: a\nparts: [1]\n",
			[]string{`c.yaml:2: parts[0]: want keys and their values, not a single value`}},
		{"text type that refuses", "name: a\nlevel: loud\n",
			[]string{`c.yaml:2: level: slog: level string "loud": unknown name`}},
		{"error without a key", "name: a\ncount: 77\n", []string{`c.yaml:1: something: is odd`}},
		{"control character", "name: a\nsecret: \"b\x01\"\n", []string{`c.yaml:2: control character U+0001`}},
		{"not UTF-8", "name: a\nsecret: \"b\xff\"\n", []string{`c.yaml:2: not UTF-8 text`}},
		{"syntax", "name: a\n  wait: 1s\n",
			[]string{`c.yaml:2: not valid YAML: mapping values are not allowed in this context`}},
		{"indentation of a list", "name: a\nparts:\n  - name: b\n  - name: c\n - name: d\n  - name: e\n",
			[]string{`c.yaml:5: not valid YAML: did not find expected key`}},
		{"indentation of a list, behind text over several lines",
			"name: a\nheaders: {a: b,\n  c: \"d\n\n  e\"}\nparts:\n  - name: b\n # no\n - name: d\n",
			[]string{`c.yaml:9: not valid YAML: did not find expected key`}},
		{"indentation below a list", "name: a\nparts:\n  - {name: a}\n  - {name: b}\n  wait: 1s\n",
			[]string{`c.yaml:5: not valid YAML: did not find expected '-' indicator`}},
		{"indentation of a mapping", "headers:\n  a: b\n c: d\n  e: f\n",
			[]string{`c.yaml:3: not valid YAML: did not find expected key`}},
		{"tab", "name: a\nparts:\n\t- name: b\n",
			[]string{"c.yaml:3: not valid YAML: found character that cannot start any token (tabs cannot indent; text that begins with @, ` or % needs quotes)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, got, _ := decodeSample(t, tt.text, nil)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReferences(t *testing.T) {
	env := map[string]string{"SET": "hunter2-long", "EMPTY": "", "N": "12", "ON": "true", "BAD": "a\x00b",
		"WAIT": "hunter2-long"}
	tests := []struct {
		name, text string
		want       []string
	}{
		{"numbers and booleans may be references", "name: a\ncount: ${env:N}\non: ${env:ON}\nmaybe: \"${env:ON}\"\n", nil},
		{"missing", "name: ${env:NOPE}\n", []string{`c.yaml:1: name: ${env:NOPE}: the environment variable is not set`}},
		{"empty", "name: ${env:EMPTY}\n", []string{`c.yaml:1: name: ${env:EMPTY}: the value is empty`}},
		{"not text", "name: ${env:BAD}\n", []string{`c.yaml:1: name: ${env:BAD}: the value is not UTF-8 text`}},
		{"two problems in one scalar", "name: ${env:NOPE}-${env:EMPTY}\n", []string{
			`c.yaml:1: name: ${env:EMPTY}: the value is empty`,
			`c.yaml:1: name: ${env:NOPE}: the environment variable is not set`,
		}},
		{"unknown kind", "name: ${HOME}\n",
			[]string{`c.yaml:1: name: unknown reference ${…}: want ${env:NAME} or ${file:/path}; write $${ for a plain ${`}},
		{"a part of a password", "name: a\nsecret: 'pass${hunter2}word'\n",
			[]string{`c.yaml:2: secret: unknown reference ${…}: want ${env:NAME} or ${file:/path}; write $${ for a plain ${`}},
		{"no name", "name: \"${env:}\"\n",
			[]string{`c.yaml:1: name: reference ${env:} names nothing: want ${env:NAME} or ${file:/path}`}},
		{"not closed", "name: ${env:SET\n",
			[]string{`c.yaml:1: name: a reference ${ has no closing }; write $${ for a plain ${`}},
		{"the value is not quoted", "name: a\nwait: ${env:WAIT}\n",
			[]string{`c.yaml:2: wait: "${env:SET}" is not a duration: want a number with a unit, such as 500ms, 30s, 5m, 1h30m`}},
		{"nor by the checks", "name: a\nheaders: {bad: \"Bearer ${env:SET}\"}\n",
			[]string{`c.yaml:2: headers.bad: Bearer ${env:SET} is not allowed`}},
		{"file missing", "name: ${file:nope}\n", []string{`c.yaml:1: name: ${file:nope}: no such file or directory`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, got, _ := decodeSample(t, tt.text, env)
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], "${env:WAIT}", "${env:SET}") // equal values
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFileReferences(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("plain", "hunter2", 0o600)
	write("newline", "hunter2\n", 0o600)
	write("newlines", "hunter2\n\n", 0o600)
	write("windows", "hunter2\r\n", 0o600)
	write("open", "hunter2\n", 0o644)
	write("large", strings.Repeat("x", maxReferenceBytes+1), 0o600)
	write("largest", strings.Repeat("x", maxReferenceBytes), 0o600)
	write("blank", "\n", 0o600)
	if err := os.Symlink("plain", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, reference, want, problem, warning string
	}{
		{name: "relative to the file", reference: "plain", want: "hunter2"},
		{name: "absolute", reference: filepath.Join(dir, "plain"), want: "hunter2"},
		{name: "link is followed", reference: "link", want: "hunter2"},
		{name: "one newline goes", reference: "newline", want: "hunter2"},
		{name: "only one", reference: "newlines", want: "hunter2\n"},
		{name: "as Windows writes it", reference: "windows", want: "hunter2"},
		{name: "world-readable", reference: "open", want: "hunter2",
			warning: "c.yaml:1: secret: ${file:open}: every user of this machine can read the file (mode 0644); chmod 600 it"},
		{name: "too large", reference: "large", problem: "c.yaml:1: secret: ${file:large}: larger than 65536 bytes"},
		{name: "just not too large", reference: "largest", want: strings.Repeat("x", maxReferenceBytes)},
		{name: "empty", reference: "blank", problem: "c.yaml:1: secret: ${file:blank}: the value is empty"},
		{name: "directory", reference: ".", problem: "c.yaml:1: secret: ${file:.}: not a regular file"},
		{name: "device", reference: "/dev/zero", problem: "c.yaml:1: secret: ${file:/dev/zero}: not a regular file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s sample
			text := "secret: ${file:" + tt.reference + "}\nname: a\n"
			d := decodeChecked(text, dir, nil, &s)
			if string(s.Secret) != tt.want {
				t.Errorf("secret is %q, want %q", string(s.Secret), tt.want)
			}
			if got := strings.Join(texts(d.Problems()), "\n"); got != tt.problem {
				t.Errorf("problem %q, want %q", got, tt.problem)
			}
			if got := strings.Join(texts(d.Warnings()), "\n"); got != tt.warning {
				t.Errorf("warning %q, want %q", got, tt.warning)
			}
		})
	}
}

func TestInlineSecretIsWarned(t *testing.T) {
	_, problems, warnings := decodeSample(t, "name: a\nheaders:\n  Authorization: Bearer hunter2\n  X-Team: crm\n", nil)
	// A warning, which check prints. A key that makes it an error would stand in the
	// same file, beside the secret.
	want := []string{"c.yaml:3: headers.Authorization: a secret stands in the file: ${env:NAME} or ${file:/path} keep it out"}
	if diff := cmp.Diff(want, warnings); diff != "" || problems != nil {
		t.Errorf("problems %q, warnings (-want +got):\n%s", problems, diff)
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"name: a\nparts: [{name: crm, timeout: {call: 2s}}]\n",
		"name: &a x\nsecret: *a\n<<: {on: true}\n",
		"a: {b: [c, *d]}\n---\n{",
		"name: ${env:SET}${file:x}$${\nheaders: {bad: x}\n",
		"? [x]\n: !!binary y\n",
		"\ufeffname: 'x\n\t y'\nmax_bytes: 3GiB\nmaybe: ~\n",
	} {
		f.Add(seed)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		var s sample
		lookup := func(name string) (string, bool) { return "value of it", name == "SET" }
		d := decodeChecked(text, dir, lookup, &s)
		for _, p := range slices.Concat(d.Problems(), d.Warnings()) {
			if p.Line < 1 || p.Column < 1 || p.Message == "" {
				t.Errorf("%+v has no line, column or message", p)
			}
		}
	})
}
