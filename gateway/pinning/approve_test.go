package pinning

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
)

// TestApprove: what was seen is approved by its digest, in place of what was approved before or beside
// it; all of a request or nothing of it.
func TestApprove(t *testing.T) {
	definition := func(text string) mcp.Raw { return pin.Canonical(item("export", text).Raw) }
	finding := func(text string) Finding {
		return Finding{Upstream: "crm", Kind: pin.Tools, Name: "export", Definition: definition(text)}
	}
	wanted := func(text string, keep bool) Wanted {
		return Wanted{"crm", pin.Tools, "export", pin.DigestOf(definition(text)).String(), keep}
	}
	seen := []Finding{finding("new"), finding("other")}
	for _, tt := range []struct {
		name   string
		wanted []Wanted
		file   string
		texts  []string // that are approved then
		err    string
	}{
		{"in place", []Wanted{wanted("new", false)}, "a.lock", []string{"new"}, ""},
		{"beside", []Wanted{wanted("new", true)}, "a.lock", []string{"new", "old"}, ""},
		{"several forms", []Wanted{wanted("new", false), wanted("other", false)}, "a.lock", []string{"new", "other"}, ""},
		{"not seen", []Wanted{wanted("new", false), wanted("gone", false)}, "a.lock", nil,
			"tools export of crm, with this digest, does not wait"},
		{"another server", []Wanted{{"wiki", pin.Tools, "export", pin.DigestOf(definition("new")).String(), false}}, "a.lock",
			nil, "does not wait"},
		{"no room for the file", []Wanted{wanted("new", false)}, "none/a.lock", nil, "cannot be written"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), filepath.FromSlash(tt.file))
			lock := pin.Lock{"crm": {{Kind: pin.Tools, Name: "export", Raw: definition("old")}}}
			err := Approve(lock, file, seen, tt.wanted)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("the error is %v", err)
			}
			text, err := os.ReadFile(file)
			if tt.err != "" {
				if err == nil {
					t.Errorf("written: %s", text)
				}
				return
			}
			written, err := pin.Read(text)
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, d := range written["crm"] {
				texts = append(texts, d.Raw.At("description").Text())
			}
			if slices.Sort(texts); !slices.Equal(texts, tt.texts) {
				t.Errorf("approved are %q, want %q", texts, tt.texts)
			}
		})
	}
	if diff := finding("new").Diff(pin.Lock{"crm": {{Kind: pin.Tools, Name: "export",
		Raw: definition("old")}}}); !strings.Contains(diff, "-  old\n+  new") {
		t.Errorf("the difference reads %s", diff)
	}
}
