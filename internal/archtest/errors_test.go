package archtest

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// checkErrorsNamed leaves the making of errors for clients to their constructors, which ask for
// the name of the failure.
func checkErrorsNamed(m *module) (problems []string) {
	m.each(func(p *pkg, f *file) {
		if f.test || p.dir == "internal/mcp" {
			return
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.CompositeLit); ok && isSelector(lit.Type, "mcp", "Error") {
				problems = append(problems, m.problem(m.at(lit.Pos()),
					"an mcp.Error without a name: make it with mcp.Errorf or mcp.UpstreamError, or with mcp.Relayed if it is a server's"))
			}
			return true
		})
	})
	return problems
}

// unnamed are the packages whose warnings need no name: they do not run in production.
var unnamed = []string{"gateway/demo", "cmd/gatehouse"}

// checkWarningsNamed wants the name of a failure in each warning and error in the log, so that
// operators find it in docs/errors.md. Attributes that are built elsewhere are not seen: those
// of LogAttrs, and of a call with "...".
func checkWarningsNamed(m *module) (problems []string) {
	m.each(func(p *pkg, f *file) {
		if l, ok := layerOf(p.dir); f.test || !ok || l.level == testLevel {
			return
		}
		for _, dir := range unnamed {
			if p.dir == dir || strings.HasPrefix(p.dir, dir+"/") {
				return
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || call.Ellipsis.IsValid() {
				return true
			}
			fn, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			message := 0
			switch fn.Sel.Name {
			case "Warn", "Error":
			case "WarnContext", "ErrorContext":
				message = 1
			default:
				return true
			}
			if len(call.Args) <= message {
				return true
			}
			if text, ok := call.Args[message].(*ast.BasicLit); !ok || text.Kind != token.STRING {
				return true
			}
			for _, arg := range call.Args[message+1:] {
				if attr, ok := arg.(*ast.CallExpr); ok {
					if of, ok := attr.Fun.(*ast.SelectorExpr); ok && of.Sel.Name == "Attr" {
						return true
					}
				}
			}
			problems = append(problems, m.problem(m.at(call.Pos()),
				"a warning without the name of a failure: add failure.X.Attr(), with a row in internal/failure/table.go and a section in docs/errors.md if none fits"))
			return true
		})
	})
	return problems
}

func TestCheckErrorsNamed(t *testing.T) {
	runRule(t, checkErrorsNamed, []ruleTest{
		{"allowed", map[string]string{
			"internal/mcp/a.go":   "package mcp\nvar e = &Error{}\n",
			"upstream/a.go":       "package upstream\nvar e = mcp.Errorf(failure.Internal, \"a\")\n",
			"upstream/a_test.go":  "package upstream\nvar f = &mcp.Error{Code: 1}\n",
			"auth/outbound/a.go":  "package outbound\nvar g = &Error{}\n",
			"session/other/a.go":  "package other\nvar h = x.Error{}\n",
			"internal/mcp/b.go":   "package mcp\nvar i = Error{}\n",
			"policy/nothing.go":   "package policy\n",
			"policy/a_test.go":    "package policy\nvar j = mcp.Error{}\n",
			"gateway/pointers.go": "package gateway\nvar k *mcp.Error\n",
		}, nil},
		{"found", map[string]string{"policy/a.go": "package policy\nvar e = &mcp.Error{Code: 1}\nvar f = mcp.Error{}\n"},
			[]string{"policy/a.go:2: an mcp.Error without a name", "policy/a.go:3"}},
	})
}

func TestCheckWarningsNamed(t *testing.T) {
	runRule(t, checkWarningsNamed, []ruleTest{
		{"allowed", map[string]string{
			"upstream/a.go":            "package upstream\nfunc f() { log.Warn(\"a\", failure.Internal.Attr(), \"b\", 1); log.Info(\"c\") }\n",
			"gateway/a.go":             "package gateway\nfunc f() { log.ErrorContext(ctx, \"a\", name.Attr()); http.Error(w, \"a\", 404); log.Warn(\"a\", attrs...) }\n",
			"gateway/demo/a.go":        "package demo\nfunc f() { log.Warn(\"a\") }\n",
			"upstream/a_test.go":       "package upstream\nfunc g() { t.Error(\"a\") }\n",
			"session/sessiontest/a.go": "package sessiontest\nfunc g(t *testing.T) { t.Error(\"a\") }\n",
		}, nil},
		{"found", map[string]string{"upstream/a.go": "package upstream\nfunc f() {\n\tlog.Warn(\"a\", \"b\", 1)\n\tlog.ErrorContext(ctx, \"a\")\n}\n"},
			[]string{"upstream/a.go:3: a warning without the name", "upstream/a.go:4"}},
	})
}
