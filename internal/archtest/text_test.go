package archtest

import (
	"bytes"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// revisions are the names of the protocol's revisions. A comparison with one of them
// outside of wire is a decision that the next revision will break.
var revisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// speakRevisions are the packages that may contain these names: wire, which has the table,
// and packages that play the peer in tests.
var speakRevisions = []string{"internal/mcp/wire", "internal/archtest", "internal/bench", "internal/conformance",
	"internal/e2e", "internal/interop", "internal/mcptest", "upstream/upstreamtest"}

func checkRevisions(m *module) (problems []string) {
	m.each(func(p *pkg, f *file) {
		if f.test || slices.ContainsFunc(speakRevisions, func(dir string) bool { return under(p.dir, dir) }) {
			return
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			for _, r := range revisions {
				if strings.Contains(lit.Value, r) {
					problems = append(problems, m.problem(m.at(lit.Pos()),
						"%s is spelled out: ask the *wire.Revision, or give it a member that says what differs", r))
				}
			}
			return true
		})
	})
	return problems
}

// checkSleep refuses time.Sleep in tests: wait for an event with a channel, and move time
// with testing/synctest. It allows a call within synctest.Test(...), and in a function
// whose comment says that it runs in a synctest bubble.
func checkSleep(m *module) (problems []string) {
	m.each(func(_ *pkg, f *file) {
		if !f.test {
			return
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if fn, ok := n.(*ast.FuncDecl); ok && strings.Contains(fn.Doc.Text(), "synctest") {
				return false
			}
			if isCall(n, "synctest", "Test") {
				return false
			}
			if isCall(n, "time", "Sleep") {
				problems = append(problems, m.problem(m.at(n.Pos()),
					"a test must not sleep: wait on a channel, or run in a bubble of testing/synctest"))
			}
			return true
		})
	})
	return problems
}

// isCall reports whether a node is a call of from.name(...).
func isCall(n ast.Node, from, name string) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == from
}

// checkSkip requires a reason, in a comment on the line or the one before, for each test
// that may be skipped.
func checkSkip(m *module) (problems []string) {
	m.each(func(_ *pkg, f *file) {
		commented := make(map[int]bool)
		for _, group := range f.ast.Comments {
			commented[m.fset.Position(group.End()).Line] = true
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Skip" && sel.Sel.Name != "Skipf" && sel.Sel.Name != "SkipNow" {
				return true
			}
			if id, ok := sel.X.(*ast.Ident); !ok || id.Name != "t" && id.Name != "b" && id.Name != "f" && id.Name != "tb" {
				return true
			}
			if line := m.fset.Position(call.Pos()).Line; !commented[line] && !commented[line-1] {
				problems = append(problems, m.problem(m.at(call.Pos()),
					"a test that does not run shows nothing: make it run, or say in a comment here why it cannot and where it does"))
			}
			return true
		})
	})
	return problems
}

// topLevel is everything that the root of the repository may hold.
var topLevel = []string{
	".ci", ".github", ".gitignore", ".goreleaser.yaml", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile",
	"README.md", "SECURITY.md", "auth", "cmd",
	"config.example.yaml", "deploy", "docs", "gateway", "go.mod", "go.sum", "internal", "policy", "session", "upstream",
}

func checkTopLevel(m *module) (problems []string) {
	var seen []string
	for _, name := range m.files {
		first, _, _ := strings.Cut(name, "/")
		if slices.Contains(topLevel, first) || slices.Contains(seen, first) {
			continue
		}
		seen = append(seen, first)
		problems = append(problems, m.problem(name, "%s has no place at the top level: put it into one of %s", first,
			strings.Join(topLevel, " ")))
	}
	return problems
}

// workplaces are directories of development machines, each in two parts so that this file
// does not contain them.
var workplaces = []string{"/" + "work/", "/" + "farm/"}

// elsewhere is a number in a list outside of the repository, as a letter and a slash before it.
var elsewhere = regexp.MustCompile("(^|[ \"`(])[A-Z][0-9]?/[0-9]{1,3}($|[^0-9A-Za-z.])")

func checkPaths(m *module) (problems []string) {
	for _, name := range m.files {
		src, err := m.read(name)
		if err != nil {
			problems = append(problems, m.problem(name, "cannot be read: %v", err))
			continue
		}
		for i, line := range bytes.Split(src, []byte("\n")) {
			if slices.Contains([]string{".go", ".md", ".txt"}, path.Ext(name)) && elsewhere.Match(line) {
				problems = append(problems, m.problem(name, "line %d has a label of a list elsewhere: say what it stands for", i+1))
			}
			for _, workplace := range workplaces {
				if holdsPath(string(line), workplace) {
					problems = append(problems,
						m.problem(name, "line %d has a path under %s, which nobody else has: name the document or leave it out",
							i+1, workplace))
				}
			}
		}
	}
	return problems
}

// holdsPath reports whether a line contains a path that begins with dir, not merely a path
// with dir further in.
func holdsPath(line, dir string) bool {
	for from := 0; ; {
		i := strings.Index(line[from:], dir)
		if i < 0 {
			return false
		}
		at := from + i
		if at == 0 || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.~}",
			rune(line[at-1])) {
			return true
		}
		from = at + len(dir)
	}
}

func TestCheckRevisions(t *testing.T) {
	runRule(t, checkRevisions, []ruleTest{
		{"allowed", map[string]string{
			"internal/mcp/wire/rev.go":   `package wire; const r = "2025-06-18"`,
			"internal/interop/rig/a.go":  `package rig; const r = "2025-06-18"`,
			"gateway/front/a_test.go":    `package front; const r = "2025-06-18"`,
			"gateway/front/a.go":         "package front\n// As 2025-06-18 says.\nconst date = \"2025-06-19\"\n",
			"gateway/front/testdata/x.t": "2025-06-18",
		}, nil},
		{"spelled out", map[string]string{"gateway/front/a.go": "package front\nvar new = r == \"2026-07-28\"\n",
			"gateway/demo/a.go": "package demo\nconst help = `curl -H 'x: 2025-11-25'`\n"},
			[]string{"gateway/demo/a.go:2: 2025-11-25 is spelled out",
				"gateway/front/a.go:2: 2026-07-28 is spelled out: ask the *wire.Revision"}},
	})
}

func TestCheckSleep(t *testing.T) {
	runRule(t, checkSleep, []ruleTest{
		{"allowed", map[string]string{
			"auth/a.go":      "package auth\nfunc f() { time.Sleep(1) }\n",
			"auth/a_test.go": "package auth\nfunc f() { synctest.Test(t, func() { time.Sleep(1) }) }\n// g runs in a synctest bubble.\nfunc g() { time.Sleep(1) }\n",
		}, nil},
		{"found", map[string]string{"auth/a_test.go": "package auth\nfunc f() { synctest.Test(t, g); time.Sleep(1) }\nfunc g() {\n\ttime.Sleep(1)\n}\n"},
			[]string{"auth/a_test.go:2: a test must not sleep", "auth/a_test.go:4: a test must not sleep"}},
	})
}

func TestCheckSkip(t *testing.T) {
	runRule(t, checkSkip, []ruleTest{
		{"allowed", map[string]string{"auth/a_test.go": "package auth\nfunc f() {\n\t// npm is not everywhere; CI has it.\n\tt.Skip(\"no npm\")\n\tt.SkipNow() // never on this system\n\treader.Skip()\n}\n"}, nil},
		{"found", map[string]string{"auth/a_test.go": "package auth\n// f is commented, the skip is not.\nfunc f() {\n\tt.Skip()\n\n\tt.Skipf(\"x\")\n}\n"},
			[]string{"auth/a_test.go:4: a test that does not run", "auth/a_test.go:6: a test that does not run"}},
	})
}

func TestCheckTopLevel(t *testing.T) {
	runRule(t, checkTopLevel, []ruleTest{
		{"allowed", map[string]string{"go.mod": "", "docs/a/b.md": "", ".ci/run": "", "internal/pkg/a.txt": ""}, nil},
		{"found", map[string]string{"pkg/a.txt": "", "pkg/b.txt": "", "NOTES.md": "", ".env": ""},
			[]string{".env: .env has no place at the top level", "NOTES.md", "pkg/a.txt: pkg has no place"}},
	})
}

func TestCheckPaths(t *testing.T) {
	path := path.Join("/", "work") + "/"
	runRule(t, checkPaths, []ruleTest{
		{"allowed", map[string]string{"docs/a.md": "https://example.com" + path + "a, network" + path + "b, ${HOME}" + path +
			"c\nwork/ /worker/\n"}, nil},
		{"found", map[string]string{"docs/a.md": "fine\nsee " + path + "shared/x\n", "docs/b.md": "as X/" + "12 says\n",
			"Makefile": path + "bin\n", "auth/a.go": "package auth\n\n// (" + path + "a)\n"},
			[]string{"Makefile: line 1", "auth/a.go: line 3", "docs/a.md: line 2 has a path under " + path,
				"docs/b.md: line 1 has a label"}},
	})
}
