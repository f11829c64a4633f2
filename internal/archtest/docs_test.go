package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// quoting lists the pages that quote the messages of refusals.
var quoting = []string{"docs/translation.md"}

var (
	codeSpan  = regexp.MustCompile("`[^`]*`")
	quotation = regexp.MustCompile(`"[^"]*"`)
)

// checkQuotes refuses quotations that no string of the code contains. A … stands for a part
// that varies.
func checkQuotes(m *module) (problems []string) {
	var said []string
	for _, page := range quoting {
		if !slices.Contains(m.files, page) {
			continue
		}
		text, err := m.read(page)
		if err != nil {
			problems = append(problems, m.problem(page, "cannot be read: %v", err))
			continue
		}
		if said == nil {
			said = literals(m)
		}
		prose := strings.Join(strings.Fields(codeSpan.ReplaceAllString(string(text), "")), " ")
		for _, quoted := range quotation.FindAllString(prose, -1) {
			for part := range strings.SplitSeq(strings.Trim(quoted, `"`), "…") {
				part = strings.TrimSpace(part)
				if !slices.ContainsFunc(said, func(literal string) bool { return strings.Contains(literal, part) }) {
					problems = append(problems, m.problem(page, "quotes %q, which no code says", part))
				}
			}
		}
	}
	return problems
}

// literals returns the string literals of all code except tests.
func literals(m *module) (all []string) {
	m.each(func(_ *pkg, f *file) {
		if f.test {
			return
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					all = append(all, text)
				}
			}
			return true
		})
	})
	return all
}

func TestCheckQuotes(t *testing.T) {
	code := "package auth\n\nvar x = \"upstream %s is gone: %v\"\n"
	runRule(t, checkQuotes, []ruleTest{
		{"allowed", map[string]string{"auth/a.go": code,
			"docs/translation.md": "a `{\"b\":1}` \"upstream … is\ngone: …\" \"…\"", "docs/other.md": `"what"`}, nil},
		{"found", map[string]string{"auth/a.go": code, "auth/a_test.go": "package auth\n\nvar y = \"upstream is gone\"\n",
			"docs/translation.md": `"upstream is gone" "upstream …"`},
			[]string{`docs/translation.md: quotes "upstream is gone"`}},
	})
}
