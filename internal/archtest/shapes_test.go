package archtest

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// checkSessionMaps refuses a map by sessions outside internal/home: what belongs to a session attaches
// itself to its home, and ends with it.
func checkSessionMaps(m *module) (problems []string) {
	m.each(func(p *pkg, f *file) {
		if f.test || p.dir == "internal/home" {
			return
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if of, ok := n.(*ast.MapType); ok {
				if key, ok := of.Key.(*ast.SelectorExpr); ok && selects(key, "home", "Key") {
					problems = append(problems, m.problem(m.at(n.Pos()),
						"a map by sessions: attach what it holds to the session's home (internal/home)"))
				}
			}
			return true
		})
	})
	return problems
}

// checkDeadContext refuses a stage that begins with a look at its context: what asked drops its
// question, so no stage is called with a context that has ended on purpose.
func checkDeadContext(m *module) (problems []string) {
	m.each(func(_ *pkg, f *file) {
		if f.test {
			return
		}
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil || len(fn.Body.List) == 0 || !takesCall(fn.Type) {
				continue
			}
			first, ok := fn.Body.List[0].(*ast.IfStmt)
			if !ok {
				continue
			}
			found := false
			look := func(n ast.Node) bool {
				found = found || isCall(n, "ctx", "Err")
				return !found
			}
			if first.Init != nil {
				ast.Inspect(first.Init, look)
			}
			if ast.Inspect(first.Cond, look); found {
				problems = append(problems, m.problem(m.at(first.Pos()),
					"a stage does not look at its context before it works: the handler that it calls does"))
			}
		}
	})
	return problems
}

// takesCall reports whether a function has the parameters of mcp.Handler.
func takesCall(fn *ast.FuncType) bool {
	var types []ast.Expr
	for _, field := range fn.Params.List {
		for range max(len(field.Names), 1) {
			types = append(types, field.Type)
		}
	}
	if len(types) < 2 {
		return false
	}
	to, ok := types[1].(*ast.StarExpr)
	if !ok {
		return false
	}
	call, ok := to.X.(*ast.SelectorExpr)
	return ok && selects(call, "mcp", "Call")
}

// selects reports whether an expression is from.name.
func selects(sel *ast.SelectorExpr, from, name string) bool {
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == from && sel.Sel.Name == name
}

// beginsOrEnds are other words for the verbs of the glossary, with the verb for each.
var beginsOrEnds = map[string]string{
	"launch": "start", "initiate": "start", "terminate": "stop", "shutdown": "stop", "halt": "stop", "quit": "stop",
	"bury": "end", "conclude": "end", "dismiss": "drop", "discard": "drop", "abandon": "drop", "letgo": "drop",
	"giveup": "release or drop",
	"leave":  "release", "resign": "release", "destroy": "close", "dispose": "close", "abort": "cancel", "retire": "stop",
	"evict": "drop",
}

// checkVerbs refuses a function that begins or ends something with another word than those of the
// glossary in docs/architecture.md, and a glossary without one of its verbs.
func checkVerbs(m *module) (problems []string) {
	page, err := m.read("docs/architecture.md")
	if err != nil {
		return nil
	}
	for _, verb := range []string{"open", "close", "start", "stop", "acquire", "release", "begin", "end", "drop", "cancel",
		"keep", "forget"} {
		if !regexp.MustCompile(`(?m)^\|.*\b` + verb + `\b.*\|.*\|$`).Match(page) {
			problems = append(problems, "docs/architecture.md: the glossary lacks "+verb)
		}
	}
	m.each(func(p *pkg, f *file) {
		if l, ok := layerOf(p.dir); f.test || ok && l.level == testLevel {
			return
		}
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || slices.Contains(imposed, fn.Name.Name) {
				continue
			}
			name := strings.ToLower(fn.Name.Name)
			for word, verb := range beginsOrEnds {
				if rest, ok := strings.CutPrefix(name, word); ok && (rest == "" || unicode.IsUpper(rune(fn.Name.Name[len(word)]))) {
					problems = append(problems, m.problem(m.at(fn.Pos()), "%s: %s is the verb for that (docs/architecture.md)",
						fn.Name.Name, verb))
				}
			}
		}
	})
	return problems
}

// imposed are names that other people's interfaces ask for.
var imposed = []string{"Shutdown"} // of OpenTelemetry's exporters

func TestCheckSessionMaps(t *testing.T) {
	runRule(t, checkSessionMaps, []ruleTest{
		{"allowed", map[string]string{
			"internal/home/a.go": "package home\nvar m map[Key]int\n", "auth/a.go": "package auth\nvar m map[string]int\n",
			"auth/a_test.go": "package auth\nvar m map[home.Key]int\n",
		}, nil},
		{"found", map[string]string{"auth/a.go": "package auth\nvar m = make(map[home.Key]*int)\n"},
			[]string{"auth/a.go:2: a map by sessions"}},
	})
}

func TestCheckDeadContext(t *testing.T) {
	const stage = "package auth\nfunc f(ctx context.Context, c *mcp.Call) error {\n"
	runRule(t, checkDeadContext, []ruleTest{
		{"allowed", map[string]string{"auth/a.go": stage +
			"\twork()\n\tif ctx.Err() != nil {\n\t\treturn nil\n\t}\n\treturn nil\n}\n",
			"auth/b.go": "package auth\nfunc g(ctx context.Context) {\n\tif ctx.Err() != nil {\n\t}\n}\n"}, nil},
		{"found", map[string]string{"auth/a.go": stage +
			"\tif err := ctx.Err(); err != nil {\n\t\treturn err\n\t}\n\treturn nil\n}\n"},
			[]string{"auth/a.go:3: a stage does not look"}},
	})
}

func TestCheckVerbs(t *testing.T) {
	const glossary = "| open, close | x |\n| start, stop | x |\n| acquire, release | x |\n| begin, end | x |\n| drop, cancel | x |\n| keep | x |\n"
	runRule(t, checkVerbs, []ruleTest{
		{"allowed", map[string]string{"docs/architecture.md": glossary + "| forget | x |\n",
			"auth/a.go": "package auth\nfunc leaves() {}\nfunc Shutdown() {}\nfunc end() {}\n"}, nil},
		{"found", map[string]string{"docs/architecture.md": glossary,
			"auth/a.go": "package auth\nfunc (t T) buryAll() {}\nfunc Leave() {}\n"},
			[]string{"the glossary lacks forget", "auth/a.go:2: buryAll: end is the verb",
				"auth/a.go:3: Leave: release is the verb"}},
	})
}
