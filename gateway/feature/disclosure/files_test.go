package disclosure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReadDescriptions(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"everything", `{"name":"a","summary":"s","description":"d","examples":[{"input":{}}],"usage_guidance":{"a":1},"error_guidance":{}}`, ""},
		{"nothing", `{}`, ""},
		{"another name", `{"name":"b"}`, `a.json: name: "b": the file is for "a"`},
		{"a schema", `{"inputSchema":{}}`, `a.json: json: unknown field "inputSchema"`},
		{"no JSON", `{`, "a.json: unexpected EOF"},
		{"two objects", `{}{}`, "a.json: there is something behind the object"},
		{"examples of another kind", `{"examples":{}}`, "a.json: examples: want an array"},
		{"guidance of another kind", `{"usage_guidance":"a"}`, "a.json: usage_guidance: want an object"},
		{"a long summary", `{"summary":"` + strings.Repeat("a", 401) + `"}`, "a.json: summary: 401 bytes"},
		{"too large", `{"description":"` + strings.Repeat("a", maxFileBytes) + `"}`, "a.json: is larger than 65536 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "a.json", tt.text)
			write(t, dir, "notes.txt", "{")
			if err := os.Mkdir(filepath.Join(dir, "b.json"), 0o700); err != nil {
				t.Fatal(err)
			}
			all, err := ReadDescriptions(dir)
			switch {
			case tt.want == "" && (err != nil || len(all) != 1):
				t.Errorf("%v, %v", all, err)
			case tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)):
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	if _, err := ReadDescriptions(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a directory that is not there was read")
	}
}

// TestDescriptionsStayInTheirDirectory: a link in the directory does not give access to
// other files.
func TestDescriptionsStayInTheirDirectory(t *testing.T) {
	dir := t.TempDir()
	outside := t.TempDir()
	write(t, outside, "secret.json", `{"description":"secret"}`)
	if err := os.Symlink(filepath.Join(outside, "secret.json"), filepath.Join(dir, "a.json")); err != nil {
		t.Fatal(err)
	}
	if all, err := ReadDescriptions(dir); err == nil {
		t.Errorf("read %v", all)
	}
}

// TestChangedFileRevokes: the operator's texts are part of the definition that was shown.
func TestChangedFileRevokes(t *testing.T) {
	item := mcp.Item{Name: "a", Raw: mcp.Raw(`{}`)}
	one, err := parseDescription([]byte(`{"description":"one"}`))
	if err != nil {
		t.Fatal(err)
	}
	with, without := &Disclosure{files: map[string]Description{"a": one}}, &Disclosure{}
	if with.digest(item) == without.digest(item) {
		t.Error("the digests are equal")
	}
}

func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]Config{
		"a mode":      {Mode: "some"},
		"a grant":     {Grant: -1},
		"a long one":  {Grant: maxGrant + 1},
		"a directory": {Descriptions: "none"},
	} {
		if _, err := New(cfg, Deps{Grants: broken{}, Log: discard}); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if _, err := New(Config{}, Deps{}); err == nil {
		t.Error("made of nothing")
	}
}
