package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// decided lists the fields of mcp.Call that hold decisions of policy.
var decided = []string{"Target", "Visible"}

// checkDecided keeps decisions in policy: the catalog passes a call on to its Target, so
// nothing else may set Target.
func checkDecided(m *module) (problems []string) {
	m.each(func(p *pkg, f *file) {
		if l, ok := layerOf(p.dir); f.test || p.dir == "policy" || ok && l.level == testLevel {
			return
		}
		say := func(pos token.Pos, member string) {
			problems = append(problems, m.problem(m.at(pos),
				"%s of a call is what policy decided: leave it to package policy", member))
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, e := range n.Lhs {
					if s, ok := e.(*ast.SelectorExpr); ok && slices.Contains(decided, s.Sel.Name) {
						say(s.Pos(), s.Sel.Name)
					}
				}
			case *ast.UnaryExpr:
				if s, ok := n.X.(*ast.SelectorExpr); ok && n.Op == token.AND && slices.Contains(decided, s.Sel.Name) {
					say(s.Pos(), s.Sel.Name)
				}
			case *ast.CompositeLit:
				if !isSelector(n.Type, "mcp", "Call") {
					return true
				}
				for _, element := range n.Elts {
					pair, ok := element.(*ast.KeyValueExpr)
					if !ok {
						say(element.Pos(), "without names, every member")
						break
					}
					if key, ok := pair.Key.(*ast.Ident); ok && slices.Contains(decided, key.Name) {
						say(pair.Pos(), key.Name)
					}
				}
			}
			return true
		})
	})
	return problems
}

const pipelineFile = "gateway/pipeline.go"

// checkPipeline requires the guard directly above the catalog: the pipeline is one
// mcp.Chain around its parameter of type *catalog.Catalog, and the last middleware is that
// of a policy.NewGuard. Only the hooks may stand below it, which have policy decide again, and what
// asks users to sign in at servers (asksSignIn), which only makes the same call again.
func checkPipeline(m *module) (problems []string) {
	if slices.ContainsFunc(m.packages, func(p *pkg) bool { return p.dir == "gateway" }) &&
		!slices.Contains(m.files, pipelineFile) {
		return []string{m.problem(pipelineFile, "is not there: this rule has to be told where the pipeline is assembled")}
	}
	m.each(func(_ *pkg, f *file) {
		if f.name != pipelineFile {
			return
		}
		var catalog, guard, looks string
		var chains []*ast.CallExpr
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				for _, field := range n.Type.Params.List {
					if star, ok := field.Type.(*ast.StarExpr); ok && isSelector(star.X, "catalog", "Catalog") &&
						len(field.Names) == 1 {
						catalog = field.Names[0].Name
					}
				}
			case *ast.AssignStmt:
				call, isCall := n.Rhs[0].(*ast.CallExpr)
				id, isIdent := n.Lhs[0].(*ast.Ident)
				switch {
				case !isCall || !isIdent:
				case isSelector(call.Fun, "policy", "NewGuard"):
					guard = id.Name
				case isSelector(call.Fun, "hooks", "New"):
					looks = id.Name
				}
			case *ast.CallExpr:
				if isSelector(n.Fun, "mcp", "Chain") {
					chains = append(chains, n)
				}
			}
			return true
		})
		if len(chains) != 1 || catalog == "" || guard == "" {
			problems = append(problems, m.problem(f.name,
				"want one mcp.Chain around the *catalog.Catalog that is passed in, with a policy.NewGuard: where it is assembled otherwise, this rule has to be told how the guard stays directly above the catalog"))
			return
		}
		args := chains[0].Args
		if id, ok := args[0].(*ast.Ident); !ok || id.Name != catalog {
			problems = append(problems, m.problem(m.at(args[0].Pos()), "the catalog has to be the last handler of the chain"))
		}
		if asks, ok := args[len(args)-1].(*ast.CallExpr); ok {
			if id, ok := asks.Fun.(*ast.Ident); ok && id.Name == "asksSignIn" {
				args = args[:len(args)-1]
			}
		}
		if isSelector(args[len(args)-1], looks, "Middleware") {
			args = args[:len(args)-1]
		}
		if !isSelector(args[len(args)-1], guard, "Middleware") {
			problems = append(problems, m.problem(m.at(args[len(args)-1].Pos()),
				"%s.Middleware has to be the last middleware: what stands below it gets around policy", guard))
		}
	})
	return problems
}

// checkHandles allows only the catalog to call upstreams, and only the pipeline to call the
// catalog: a package that can see either must not call Handle, nor pass the catalog to
// anything but pipeline.
func checkHandles(m *module) (problems []string) {
	m.each(func(p *pkg, f *file) {
		l, ok := layerOf(p.dir)
		if f.test || ok && l.level == testLevel || p.dir == "gateway/catalog" || p.dir == "upstream" {
			return
		}
		sees := false
		m.imports(f, func(_, _, ours string) { sees = sees || ours == "gateway/catalog" || ours == "upstream" })
		if !sees && p.dir != "gateway" {
			return
		}
		handed := func(e ast.Expr) {
			if s, ok := e.(*ast.SelectorExpr); ok && s.Sel.Name == "catalog" {
				problems = append(problems, m.problem(m.at(e.Pos()),
					"the catalog is a handler for pipeline alone, which puts policy above it"))
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Handle" && len(n.Args) == 2 && isContext(n.Args[0]) {
					problems = append(problems, m.problem(m.at(n.Pos()),
						"calls go through the pipeline, or policy does not see them: an upstream is called by the catalog alone, and the catalog by the guard"))
				}
				if id, ok := n.Fun.(*ast.Ident); !ok || id.Name != "pipeline" {
					for _, arg := range n.Args {
						handed(arg)
					}
				}
			case *ast.KeyValueExpr:
				handed(n.Value)
			case *ast.AssignStmt:
				for _, e := range n.Rhs {
					handed(e)
				}
			case *ast.ReturnStmt:
				for _, e := range n.Results {
					handed(e)
				}
			}
			return true
		})
	})
	return problems
}

// isContext reports whether an expression looks like a context: ctx, x.ctx, r.Context()
// or a call of package context.
func isContext(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.Contains(strings.ToLower(e.Name), "ctx")
	case *ast.SelectorExpr:
		return strings.Contains(strings.ToLower(e.Sel.Name), "ctx")
	case *ast.CallExpr:
		if s, ok := e.Fun.(*ast.SelectorExpr); ok {
			id, isIdent := s.X.(*ast.Ident)
			return s.Sel.Name == "Context" || isIdent && id.Name == "context"
		}
	}
	return false
}

// isSelector reports whether an expression is x.name.
func isSelector(e ast.Expr, x, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && id.Name == x
}

func TestCheckDecided(t *testing.T) {
	runRule(t, checkDecided, []ruleTest{
		{"allowed", map[string]string{
			"policy/guard.go":            "package policy\nfunc f(c *mcp.Call) { c.Target = t; c.Visible = nil }\n",
			"gateway/catalog/a.go":       "package catalog\nfunc f(c *mcp.Call) bool { return c.Target == t }\nvar _ = mcp.Item{Target: t}\n",
			"gateway/front/a.go":         "package front\nvar c = mcp.Call{Method: m}\n",
			"gateway/front/a_test.go":    "package front\nvar c = mcp.Call{Target: t}\n",
			"upstream/upstreamtest/a.go": "package upstreamtest\nvar c = mcp.Call{Target: t}\n",
		}, nil},
		{"set", map[string]string{"gateway/feature/skills/a.go": "package skills\nfunc f(c *mcp.Call) {\n\tc.Target = t\n\tc.Visible = nil\n\tg(&c.Target)\n}\n"},
			[]string{"gateway/feature/skills/a.go:3: Target of a call is what policy decided", "a.go:4: Visible",
				"a.go:5: Target"}},
		{"written out",
			map[string]string{"gateway/front/a.go": "package front\nvar c = &mcp.Call{Method: m, Target: t}\nvar d = mcp.Call{\"1\", m}\n"},
			[]string{"a.go:2: Target of a call", "a.go:3: without names"}},
	})
}

func TestCheckPipeline(t *testing.T) {
	pipeline := func(body string) map[string]string {
		return map[string]string{pipelineFile: "package gateway\nfunc pipeline(cfg Config, last *catalog.Catalog) mcp.Handler {\n" + body + "\n}\n"}
	}
	const guard = "guard, err := policy.NewGuard(rules, deps)\n"
	runRule(t, checkPipeline, []ruleTest{
		{"allowed", pipeline(guard + "return mcp.Chain(last, observe.Middleware(log), guard.Middleware)"), nil},
		{"hooks below the guard",
			pipeline(guard +
				"looks, err := hooks.New(cfg.Hooks, deps)\nreturn mcp.Chain(last, guard.Middleware, looks.Middleware)"), nil},
		{"what asks below the hooks", pipeline(guard +
			"looks, err := hooks.New(cfg.Hooks, deps)\nreturn mcp.Chain(last, guard.Middleware, looks.Middleware, asksSignIn(cfg))"), nil},
		{"something below the guard", pipeline(guard + "return mcp.Chain(last, guard.Middleware, other.Middleware)"),
			[]string{"pipeline.go:4: guard.Middleware has to be the last middleware"}},
		{"no guard in it", pipeline(guard + "return mcp.Chain(last)"), []string{"guard.Middleware has to be the last"}},
		{"around something else", pipeline(guard + "return mcp.Chain(wrap(last), guard.Middleware)"),
			[]string{"the catalog has to be the last handler"}},
		{"no guard", pipeline("return mcp.Chain(last, observe.Middleware(log))"), []string{"want one mcp.Chain"}},
		{"elsewhere", map[string]string{"gateway/graph.go": "package gateway\n"},
			[]string{"gateway/pipeline.go: is not there"}},
		{"two chains", pipeline(guard + "_ = mcp.Chain(last)\nreturn mcp.Chain(last, guard.Middleware)"),
			[]string{"want one mcp.Chain"}},
	})
}

func TestCheckHandles(t *testing.T) {
	runRule(t, checkHandles, []ruleTest{
		{"allowed", map[string]string{
			"gateway/graph.go":     "package gateway\nfunc f() { g.handler, err = pipeline(cfg, g.catalog, log); g.catalog.Run(ctx) }\n",
			"gateway/routes.go":    "package gateway\nfunc f() { r.Handle(path, endpoint); mux.Handle(\"/x\", h) }\n",
			"gateway/catalog/a.go": "package catalog\nfunc f() { s.upstream.Handle(ctx, call) }\n",
			"upstream/a.go":        "package upstream\nfunc f() { u.Handle(ctx, call) }\n",
			"gateway/front/a.go":   "package front\nfunc f() { f.handler.Handle(ctx, call) }\n",
			"gateway/a_test.go":    "package gateway\nfunc f() { u.Handle(ctx, call) }\n",
		}, nil},
		{"an upstream called",
			map[string]string{"gateway/a.go": "package gateway\nfunc f() {\n\tu.Handle(ctx, call)\n\tg.catalog.Handle(r.Context(), call)\n\tu.Handle(context.Background(), call)\n}\n"},
			[]string{"gateway/a.go:3: calls go through the pipeline", "gateway/a.go:4: calls go", "gateway/a.go:5: calls go"}},
		{"by the console", map[string]string{"gateway/admin/a.go": "package admin\nimport \"" + modulePath +
			"/gateway/catalog\"\nfunc f(c *catalog.Catalog) { c.Handle(ctx, call) }\n"},
			[]string{"gateway/admin/a.go:3: calls go"}},
		{"the catalog handed on",
			map[string]string{"gateway/graph.go": "package gateway\nfunc f() mcp.Handler {\n\tfront.New(g.catalog)\n\t_ = front.Deps{Handler: g.catalog}\n\tg.handler = g.catalog\n\treturn g.catalog\n}\n"},
			[]string{"graph.go:3: the catalog is a handler for pipeline alone", "graph.go:4", "graph.go:5", "graph.go:6"}},
	})
}
