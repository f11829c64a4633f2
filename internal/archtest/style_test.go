package archtest

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	maxLines     = 500
	maxTestLines = 900
)

// checkPackageComments requires exactly one comment for each package: in doc.go, in the
// file that is named after the package, or in main.go.
func checkPackageComments(m *module) (problems []string) {
	for _, p := range m.packages {
		var name, main string
		var commented []*file
		for _, f := range p.files {
			if f.test {
				continue
			}
			name, main = f.ast.Name.Name, f.name
			if f.ast.Doc != nil && strings.TrimSpace(f.ast.Doc.Text()) != "" {
				commented = append(commented, f)
			}
		}
		if name == "" {
			problems = append(problems,
				m.problem(p.dir, "only test files: add doc.go with a package comment that says what is tested here"))
			continue
		}
		if len(commented) == 0 {
			problems = append(problems,
				m.problem(main,
					"package %s has no comment: add doc.go, which says what it owns, what it leaves to whom, and which goroutines it starts", name))
			continue
		}
		for _, f := range commented[1:] {
			problems = append(problems, m.problem(f.name,
				"package %s has a second comment here: keep the one in %s, and leave an empty line before the package clause", name,
				commented[0].name))
		}
		f := commented[0]
		if base := path.Base(f.name); base != "doc.go" && base != name+".go" && base != "main.go" {
			problems = append(problems, m.problem(f.name, "the comment of package %s belongs into doc.go", name))
		}
		if text := f.ast.Doc.Text(); name != "main" && !strings.HasPrefix(text, "Package "+name+" ") {
			problems = append(problems, m.problem(f.name, "the comment should begin with %q", "Package "+name))
		}
	}
	return problems
}

// emptyNames say nothing about what they name. A package of such a name attracts code that
// belongs elsewhere; at the end of a type's name they are redundant.
var emptyNames = []string{"util", "utils", "common", "helper", "helpers", "types", "base", "impl", "manager",
	"misc", "shared"}

func checkNames(m *module) (problems []string) {
	for _, p := range m.packages {
		if base := path.Base(p.dir); slices.Contains(emptyNames, base) {
			problems = append(problems,
				m.problem(p.dir, "a package %q says nothing: name it after what it is about, or put its parts where they are used",
					base))
		}
	}
	m.each(func(_ *pkg, f *file) {
		if base := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.name), ".go"),
			"_test"); slices.Contains(emptyNames, base) {
			problems = append(problems, m.problem(f.name, "a file %q says nothing: name it after the one idea in it", base))
		}
		for _, d := range f.ast.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range decl.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok && vagueType.MatchString(spec.Name.Name) {
					problems = append(problems, m.problem(m.at(spec.Pos()),
						"type %s: the ending says nothing: name it after what it is (pool, guard, store)", spec.Name.Name))
				}
			}
		}
	})
	return problems
}

var vagueType = regexp.MustCompile(`(^|[a-z])(Manager|Impl|Helper|Util|Utils)$`)

func checkInit(m *module) (problems []string) {
	m.each(func(_ *pkg, f *file) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				problems = append(problems, m.problem(m.at(fn.Pos()),
					"no init: do it in a constructor, or write the table as a literal"))
			}
		}
	})
	return problems
}

func checkFileSize(m *module) (problems []string) {
	m.each(func(_ *pkg, f *file) {
		limit := maxLines
		if f.test {
			limit = maxTestLines
		}
		if f.lines > limit {
			problems = append(problems, m.problem(f.name, "%d lines are more than %d: one idea a file, divide it",
				f.lines, limit))
		}
	})
	return problems
}

func TestCheckPackageComments(t *testing.T) {
	runRule(t, checkPackageComments, []ruleTest{
		{"in doc.go", map[string]string{
			"auth/doc.go": "// Package auth says who calls.\npackage auth\n", "auth/a.go": "package auth\n",
			"auth/a_test.go": "// Package auth_test is not looked at.\npackage auth_test\n"}, nil},
		{"in the main file", map[string]string{
			"auth/auth.go":          "// Package auth says who calls.\npackage auth\n",
			"cmd/gatehouse/main.go": "// Gatehouse runs the gateway.\npackage main\n"}, nil},
		{"a comment that is not the package's", map[string]string{
			"auth/auth.go": "// Package auth says who calls.\npackage auth\n", "auth/a.go": "// Copyright.\n\npackage auth\n"},
			nil},
		{"none", map[string]string{"auth/a.go": "package auth\n"},
			[]string{"auth/a.go: package auth has no comment: add doc.go"}},
		{"two", map[string]string{"auth/doc.go": "// Package auth a.\npackage auth\n",
			"auth/x.go": "// Package auth b.\npackage auth\n"},
			[]string{"auth/x.go: package auth has a second comment here: keep the one in auth/doc.go"}},
		{"in another file", map[string]string{"auth/bearer.go": "// Package auth says.\npackage auth\n"},
			[]string{"auth/bearer.go: the comment of package auth belongs into doc.go"}},
		{"another beginning", map[string]string{"auth/doc.go": "// Auth says.\npackage auth\n"},
			[]string{`should begin with "Package auth"`}},
		{"only tests", map[string]string{"internal/e2e/a_test.go": "package e2e\n"},
			[]string{"internal/e2e: only test files"}},
	})
}

func TestCheckNames(t *testing.T) {
	runRule(t, checkNames, []ruleTest{
		{"allowed", map[string]string{"auth/basement.go": "package auth\ntype Keys struct{}\ntype implicit int\n"}, nil},
		{"a package", map[string]string{"internal/util/a.go": "package util\n"},
			[]string{`internal/util: a package "util" says nothing`}},
		{"a file", map[string]string{"auth/types.go": "package auth\n", "auth/helpers_test.go": "package auth\n"},
			[]string{`auth/helpers_test.go: a file "helpers"`, `auth/types.go: a file "types" says nothing`}},
		{"types", map[string]string{"auth/a.go": "package auth\ntype SessionManager struct{}\ntype storeImpl struct{}\ntype Manager interface{}\n"},
			[]string{"auth/a.go:2: type SessionManager", "type storeImpl", "type Manager"}},
	})
}

func TestCheckInit(t *testing.T) {
	runRule(t, checkInit, []ruleTest{
		{"allowed", map[string]string{"auth/a.go": "package auth\ntype T int\nfunc (T) init() {}\nfunc initialise() {}\n"},
			nil},
		{"found", map[string]string{"auth/a.go": "package auth\nfunc init() {}\n",
			"auth/a_test.go": "package auth\nfunc init() {}\n"},
			[]string{"auth/a.go:2: no init", "auth/a_test.go:2: no init"}},
	})
}

func TestCheckFileSize(t *testing.T) {
	lines := func(n int) string { return "package auth\n" + strings.Repeat("// line\n", n-1) }
	runRule(t, checkFileSize, []ruleTest{
		{"allowed", map[string]string{"auth/a.go": lines(maxLines), "auth/a_test.go": lines(maxTestLines)}, nil},
		{"too long", map[string]string{"auth/a.go": lines(maxLines + 1), "auth/a_test.go": lines(maxTestLines + 1)},
			[]string{"auth/a.go: 501 lines are more than 500", "auth/a_test.go: 901 lines are more than 900"}},
	})
}
