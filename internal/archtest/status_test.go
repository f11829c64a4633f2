package archtest

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// statusFolder is the endpoint. Within it only statusPackage knows the HTTP statuses of
// errors. fineStatuses are the statuses of answers that are no errors.
const (
	statusFolder  = "gateway/front"
	statusPackage = "gateway/front/refuse"
)

var fineStatuses = []string{"StatusOK", "StatusAccepted", "StatusNoContent", "StatusText"}

func checkStatuses(m *module) (problems []string) {
	m.each(func(p *pkg, f *file) {
		if f.test || p.dir == statusPackage || p.dir != statusFolder && !strings.HasPrefix(p.dir, statusFolder+"/") {
			return
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if ok && strings.HasPrefix(s.Sel.Name, "Status") && isSelector(s, "http", s.Sel.Name) &&
				!slices.Contains(fineStatuses, s.Sel.Name) {
				problems = append(problems, m.problem(m.at(s.Pos()), "http.%s: the status of an error is for %s alone to know",
					s.Sel.Name, statusPackage))
			}
			return true
		})
	})
	return problems
}

func TestCheckStatuses(t *testing.T) {
	runRule(t, checkStatuses, []ruleTest{
		{"allowed", map[string]string{
			"gateway/front/refuse/a.go": "package refuse\nvar s = http.StatusNotFound\n",
			"gateway/front/a.go":        "package front\nvar s = http.StatusOK\n",
			"gateway/front/a_test.go":   "package front\nvar s = http.StatusNotFound\n",
			"gateway/a.go":              "package gateway\nvar s = http.StatusNotFound\n",
		}, nil},
		{"elsewhere", map[string]string{"gateway/front/a.go": "package front\nvar s = http.StatusNotFound\n",
			"gateway/front/live/a.go": "package live\nvar s = http.StatusConflict\n"},
			[]string{"gateway/front/a.go:2: http.StatusNotFound", "gateway/front/live/a.go:2"}},
	})
}
