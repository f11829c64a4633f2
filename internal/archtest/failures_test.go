package archtest

import (
	"go/ast"
	"regexp"
	"slices"
	"testing"
)

// proven lists the pages that name a test for each statement.
var proven = []string{"docs/failure-modes.md", "docs/hazards.md", "docs/security.md"}

// testName is the name of a test, after its directory if that is given.
var testName = regexp.MustCompile("([a-z0-9/]*) ?`(Test[A-Za-z0-9_]+)[`/]")

// checkProofs refuses names of tests that do not exist, or not in the directory that stands before
// them. It ignores the name of a subtest, after a slash.
func checkProofs(m *module) (problems []string) {
	tests, dirs := make(map[string]bool), make(map[string]bool)
	m.each(func(p *pkg, f *file) {
		dirs[p.dir] = true
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test && fn.Recv == nil {
				tests[fn.Name.Name], tests[p.dir+" "+fn.Name.Name] = true, true
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
			dir, test := string(name[1]), string(name[2])
			switch {
			case !tests[test]:
				problems = append(problems, m.problem(page, "names %s, which no test is called", test))
			case dirs[dir] && !tests[dir+" "+test]:
				problems = append(problems, m.problem(page, "names %s of %s, which is elsewhere", test, dir))
			}
		}
	}
	return problems
}

func TestCheckProofs(t *testing.T) {
	code := "package auth\n\nfunc TestA(t *testing.T) {}\n\nfunc (x y) TestMethod() {}\n"
	runRule(t, checkProofs, []ruleTest{
		{"allowed", map[string]string{"auth/a_test.go": code, "docs/failure-modes.md": "| x | auth `TestA`, `TestA/sub` |",
			"docs/other.md": "`TestB`"}, nil},
		{"found", map[string]string{"auth/a_test.go": code, "auth/b.go": "package auth\n\nfunc TestC() {}\n",
			"policy/a.go":           "package policy\n",
			"docs/failure-modes.md": "`TestB/sub`, `TestC`\n`TestMethod`, policy `TestA`"},
			[]string{"docs/failure-modes.md: names TestB", "names TestC", "names TestMethod", "names TestA of policy"}},
	})
}
