package archtest

import (
	"go/ast"
	"strings"
	"testing"
)

// mostFunctions is how many fields of a struct of dependencies may be functions. More of them are an
// interface that has no name.
const mostFunctions = 3

// manyFunctions are the structs that may have more, each with its number and the reason.
var manyFunctions = map[string]int{
	"auth/accounts.Deps":       7, // the pages ask for users, servers and how to sign in as they are now
	"upstream/admit.Deps":      5, // three are counters of one metric each
	"upstream/pool.Config":     5, // a pool knows nothing of the values that it opens and ends
	"upstream/stateful.Config": 6, // the dialect reports to upstream, which imports it
}

func checkFunctions(m *module) (problems []string) {
	m.each(func(p *pkg, f *file) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || f.test || !strings.HasSuffix(spec.Name.Name, "Deps") && !strings.HasSuffix(spec.Name.Name, "Config") {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				name, found := p.dir+"."+spec.Name.Name, functionFields(s)
				if most := max(mostFunctions, manyFunctions[name]); found > most {
					problems = append(problems, m.problem(m.at(spec.Pos()),
						"%s: %d functions, more than %d: take an interface or a value", name, found, most))
				} else if found < manyFunctions[name] {
					problems = append(problems, m.problem(m.at(spec.Pos()), "%s: %d functions: lower its exception", name, found))
				}
			}
			return true
		})
	})
	return problems
}

func functionFields(s *ast.StructType) (n int) {
	for _, field := range s.Fields.List {
		if _, ok := field.Type.(*ast.FuncType); ok {
			n += max(1, len(field.Names))
		}
	}
	return n
}

func TestCheckFunctions(t *testing.T) {
	runRule(t, checkFunctions, []ruleTest{
		{"allowed", map[string]string{
			"a/a.go":      "package a\ntype Deps struct {\n\tA, B, C func()\n\tD int\n}\n",
			"b/a.go":      "package b\ntype hooks struct{ A, B, C, D func() }\n",
			"b/a_test.go": "package b\ntype Deps struct{ A, B, C, D func() }\n",
		}, nil},
		{"too many", map[string]string{
			"a/a.go": "package a\ntype Deps struct {\n\tA, B, C func()\n\tD func(int) error\n}\n",
			"b/a.go": "package b\ntype ListConfig struct{ A, B, C, D func() }\n",
		}, []string{"a/a.go:2: a.Deps: 4 functions", "b/a.go:2: b.ListConfig: 4 functions"}},
		{"an exception that is too large", map[string]string{
			"auth/accounts/a.go": "package accounts\ntype Deps struct{ A func() }\n",
		}, []string{"auth/accounts/a.go:2: auth/accounts.Deps: 1 functions: lower"}},
	})
}
