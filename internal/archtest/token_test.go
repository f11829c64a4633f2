package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"testing"
)

// seeTokens are the packages that may use mcp.Caller.Token: the one that verifies it and
// the one that exchanges it; and one that knows no callers: its tokens are those of ACME.
var seeTokens = []string{"auth", "auth/outbound", "internal/tlsfiles"}

// checkCallerToken restricts access to the client's token. It ignores types: no other field
// named Token is read anywhere, so a harmless one needs another name. Emptying the field is
// allowed.
func checkCallerToken(m *module) (problems []string) {
	m.each(func(p *pkg, f *file) {
		if l, ok := layerOf(p.dir); f.test || slices.Contains(seeTokens, p.dir) || ok && l.level == testLevel {
			return
		}
		say := func(at token.Pos) {
			problems = append(problems, m.problem(m.at(at),
				"a caller's token is for the gateway alone: auth sets it, auth/outbound reads it to exchange it, and nobody else does"))
		}
		fine := map[ast.Node]bool{} // selectors that are no field, or that are emptied
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				fine[n.Fun] = true
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					if n.Tok == token.ASSIGN && len(n.Lhs) == len(n.Rhs) && isEmptyString(n.Rhs[i]) {
						fine[left] = true
					}
				}
			case *ast.SelectorExpr:
				if n.Sel.Name == "Token" && !fine[n] && !isPackage(f, n.X) {
					say(n.Pos())
				}
			case *ast.CompositeLit:
				if !isCaller(n.Type) {
					return true
				}
				for _, element := range n.Elts {
					if pair, ok := element.(*ast.KeyValueExpr); ok {
						if key, ok := pair.Key.(*ast.Ident); ok && key.Name == "Token" {
							say(pair.Pos())
						}
					}
				}
			}
			return true
		})
	})
	return problems
}

func isEmptyString(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Kind == token.STRING && (lit.Value == `""` || lit.Value == "``")
}

func isCaller(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name == "Caller"
	case *ast.Ident:
		return e.Name == "Caller"
	}
	return false
}

// isPackage reports whether an expression is the name of a package that the file
// imports.
func isPackage(f *file, e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && slices.ContainsFunc(f.ast.Imports, func(spec *ast.ImportSpec) bool {
		if spec.Name != nil {
			return spec.Name.Name == id.Name
		}
		imported, err := strconv.Unquote(spec.Path.Value)
		return err == nil && path.Base(imported) == id.Name
	})
}

func TestCheckCallerToken(t *testing.T) {
	runRule(t, checkCallerToken, []ruleTest{
		{"allowed", map[string]string{
			"auth/bearer.go":              "package auth\nvar c = mcp.Caller{Token: secret}\n",
			"auth/outbound/exchange.go":   "package outbound\nfunc f(c mcp.Caller) string { return string(c.Token) }\n",
			"upstream/a_test.go":          "package upstream\nvar c = mcp.Caller{Token: \"x\"}\nvar t = c.Token\n",
			"internal/interop/rig/a.go":   "package rig\nvar t = cfg.Token\n",
			"policy/who.go":               "package policy\nfunc f(c mcp.Caller) { c.Token = \"\" }\n",
			"gateway/demo/a.go":           "package demo\nvar t = issuer.Token(user)\nvar c = Config{Token: \"x\"}\n",
			"gateway/front/a.go":          "package front\nimport \"encoding/json\"\nvar t json.Token\n",
			"internal/mcp/caller.go":      "package mcp\ntype Caller struct{ Token Secret }\n",
			"upstream/config.go":          "package upstream\nvar c = mcp.Caller{Subject: \"x\"}\nvar t = c.TokenType\n",
			"gateway/catalog/callers.go":  "package catalog\nvar c = Item{Token: token}\n",
			"gateway/observe/calllog.go":  "package observe\nfunc f(c mcp.Caller) { c.Subject = \"\" }\n",
			"internal/archtest/a_test.go": "package archtest\nvar t = c.Token\n",
		}, nil},
		{"read", map[string]string{
			"upstream/a.go":         "package upstream\nfunc f(c *mcp.Call, h http.Header) {\n\th.Set(\"Authorization\", string(c.Caller.Token))\n}\n",
			"gateway/observe/a.go":  "package observe\nfunc f(who mcp.Caller) {\n\tlog(who.Token)\n}\n",
			"gateway/front/stay.go": "package front\nfunc f(r *record, c mcp.Caller) { r.token = c.Token }\n",
		}, []string{"gateway/front/stay.go:2: a caller's token is for the gateway alone", "gateway/observe/a.go:3",
			"upstream/a.go:3"}},
		{"set", map[string]string{
			"policy/a.go":   "package policy\nvar c = mcp.Caller{Subject: \"x\", Token: stored}\n",
			"session/a.go":  "package session\nfunc f(c *mcp.Caller) { c.Token = stored }\n",
			"upstream/a.go": "package upstream\nfunc f(c *mcp.Caller) { c.Token, c.Subject = g() }\n",
		}, []string{"policy/a.go:2", "session/a.go:2", "upstream/a.go:2"}},
	})
}
