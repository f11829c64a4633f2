package archtest

import (
	"go/ast"
	"regexp"
	"slices"
	"testing"
)

// proven lists the pages that name a test for each statement.
var proven = []string{"docs/failure-modes.md", "docs/hazards.md"}

var testName = regexp.MustCompile("`(Test[A-Za-z0-9_]+)[`/]")

// checkProofs refuses names of tests that do not exist. It ignores the name of a subtest,
// after a slash.
func checkProofs(m *module) (problems []string) {
	tests := make(map[string]bool)
	m.each(func(_ *pkg, f *file) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test && fn.Recv == nil {
				tests[fn.Name.Name] = true
			}
		}
	})
	for _, page := range proven {
		if !slices.Contains(m.files, page) {
			continue
		}
		text, err := m.read(page)
		if err != nil {
			problems = append(problems, m.problem(page, "cannot be read: %v", err))
			continue
		}
		for _, name := range testName.FindAllSubmatch(text, -1) {
			if !tests[string(name[1])] {
				problems = append(problems, m.problem(page, "names %s, which no test is called", name[1]))
			}
		}
	}
	return problems
}

func TestCheckProofs(t *testing.T) {
	code := "package auth\n\nfunc TestA(t *testing.T) {}\n\nfunc (x y) TestMethod() {}\n"
	runRule(t, checkProofs, []ruleTest{
		{"allowed", map[string]string{"auth/a_test.go": code, "docs/failure-modes.md": "| x | `TestA`, `TestA/sub` |",
			"docs/other.md": "`TestB`"}, nil},
		{"found", map[string]string{"auth/a_test.go": code, "auth/b.go": "package auth\n\nfunc TestC() {}\n",
			"docs/failure-modes.md": "`TestB/sub`, `TestC`\n`TestMethod`"},
			[]string{"docs/failure-modes.md: names TestB", "names TestC", "names TestMethod"}},
	})
}
