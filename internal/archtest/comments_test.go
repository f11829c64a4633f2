package archtest

import (
	"go/ast"
	"go/doc"
	"slices"
	"strings"
	"testing"
)

// longestSynopsis bounds the first sentence of a package comment, in words.
const longestSynopsis = 20

// plainMethods need no comment: their interfaces, which everybody knows, say what they do.
var plainMethods = []string{"Error", "Unwrap", "Is", "String", "Format", "GoString", "MarshalJSON", "UnmarshalJSON",
	"MarshalText", "UnmarshalText", "MarshalYAML", "UnmarshalYAML", "LogValue", "ServeHTTP", "Handle", "Len", "Less",
	"Swap", "Read", "Write", "Close", "RoundTrip", "Describe", "Collect"}

// checkComments refuses a package comment whose first sentence is long, and exported identifiers of
// the product without a comment.
func checkComments(m *module) (problems []string) {
	m.each(func(p *pkg, f *file) {
		if l, ok := layerOf(p.dir); f.test || ok && l.level == testLevel {
			return
		}
		if first := new(doc.Package).Synopsis(f.ast.Doc.Text()); len(strings.Fields(first)) > longestSynopsis {
			problems = append(problems, m.problem(f.name, "the first sentence of the package comment has more than %d words: %s",
				longestSynopsis, first))
		}
		bare := func(name *ast.Ident, comments ...*ast.CommentGroup) {
			if name.IsExported() && !slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool { return c != nil }) {
				problems = append(problems, m.problem(m.at(name.Pos()), "%s is exported: say what it is", name.Name))
			}
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil || ast.IsExported(receiver(d)) && !slices.Contains(plainMethods, d.Name.Name) {
					bare(d.Name, d.Doc)
				}
			case *ast.GenDecl:
				var above *ast.CommentGroup // which may be about the next line, too
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						bare(spec.Name, d.Doc, spec.Doc, spec.Comment)
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							bare(name, d.Doc, spec.Doc, spec.Comment, above)
						}
						if above = spec.Doc; above == nil {
							above = spec.Comment
						}
					}
				}
			}
		}
	})
	return problems
}

func TestCheckComments(t *testing.T) {
	runRule(t, checkComments, []ruleTest{
		{"allowed", map[string]string{
			"auth/a.go": "// Package auth says who calls.\npackage auth\n\n// T is.\ntype T int\n\nfunc (T) String() string { return \"\" }\n" +
				"func (t) B() {}\n\nconst (\n\t// A and B are.\n\tA = 1\n\tB = 2\n\tC = 3 // is\n)\n",
			"auth/a_test.go":        "package auth\n\nfunc F() {}\n",
			"internal/mcptest/a.go": "package mcptest\n\nfunc F() {}\n"}, nil},
		{"found", map[string]string{"auth/a.go": "// Package auth says " + strings.Repeat("so ", longestSynopsis) +
			".\npackage auth\n\ntype T int\n\nfunc (*T) A() {}\n\nfunc F() {}\n\nvar (\n\tA = 1\n)\n"},
			[]string{"auth/a.go: the first sentence", "auth/a.go:4: T", "auth/a.go:6: A", "auth/a.go:8: F", "auth/a.go:11: A"}},
	})
}
