package interop

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// TestDependenciesAreExplained compares docs/dependencies.md with go.mod: each module that
// we require directly has a row, and each row has a module.
func TestDependenciesAreExplained(t *testing.T) {
	checkout, err := rig.FindCheckout()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(checkout.Path("docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+/[^`]+)` \\|").FindAllSubmatch(page, -1) {
		explained[string(row[1])] = true
	}
	required := requirements(t, checkout)
	for module := range required {
		if !explained[module] {
			t.Errorf("%s is required in go.mod and has no row in docs/dependencies.md: what is it for, and why not the standard library?", module)
		}
	}
	for module := range explained {
		if !required[module] {
			t.Errorf("%s has a row in docs/dependencies.md, but go.mod does not require it directly", module)
		}
	}
}

// requirements returns the modules that go.mod requires directly or as tools.
func requirements(t *testing.T, checkout rig.Checkout) map[string]bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	cmd.Dir = string(checkout)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
		Tool []struct{ Path string }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	required := map[string]bool{}
	for _, r := range mod.Require {
		isTool := false
		for _, tool := range mod.Tool {
			isTool = isTool || strings.HasPrefix(tool.Path, r.Path+"/")
		}
		if !r.Indirect || isTool {
			required[r.Path] = true
		}
	}
	if len(required) == 0 {
		t.Fatal("no requirements found")
	}
	return required
}
