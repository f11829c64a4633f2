package archtest

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"
)

// checkVariables keeps state out of packages: what changes must be a value that somebody
// made and owns. A package variable is a constant that Go cannot express as one: it has an
// initial value, and nothing in the module changes it.
//
// It accepts tables, errors, compiled patterns, embedded files, sync.Pool, the functions of
// sync.Once*, and checks such as var _ I = T{}. It refuses variables without a value, empty
// channels and maps, locks and atomics. It also refuses any assignment to a variable or to
// an element of it, and taking its address unless it is a struct literal. It ignores what
// methods and other packages do to a variable. Test files may have variables of their own,
// but must not change those of the package.
func checkVariables(m *module) (problems []string) {
	for _, p := range m.packages {
		vars := make(map[types.Object]bool) // the value: whether it is a struct literal
		defs, uses := m.resolve(p)
		for _, f := range p.files {
			if f.test {
				continue
			}
			for _, d := range f.ast.Decls {
				decl, ok := d.(*ast.GenDecl)
				if !ok || decl.Tok != token.VAR {
					continue
				}
				for _, spec := range decl.Specs {
					spec := spec.(*ast.ValueSpec)
					for i, id := range spec.Names {
						if id.Name == "_" || embedded(decl, spec) {
							continue
						}
						vars[defs[id]] = isStruct(spec, i)
						if reason := mutable(spec, i); reason != "" {
							problems = append(problems, m.problem(m.at(id.Pos()),
								"package variable %s %s: make it a field of a value that somebody owns, or a constant table", id.Name, reason))
						}
					}
				}
			}
		}
		for _, f := range p.files {
			for _, w := range writes(f.ast) {
				id, at := w.root, m.at(w.root.Pos())
				switch obj := uses[id].(type) {
				case *types.Var:
					if writtenOut, ok := vars[obj]; ok && !(w.address && writtenOut) {
						problems = append(problems,
							m.problem(at, "package variable %s is changed here: make it a field of a value that somebody owns", id.Name))
					}
				case *types.PkgName:
					if !w.address && strings.HasPrefix(obj.Imported().Path(), modulePath+"/") {
						problems = append(problems,
							m.problem(at, "a variable of package %s is changed here: pass the value to its constructor", id.Name))
					}
				}
			}
		}
	}
	return problems
}

// embedded reports whether a variable is filled in by a go:embed line.
func embedded(decl *ast.GenDecl, spec *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{decl.Doc, spec.Doc} {
		if doc != nil && slices.ContainsFunc(doc.List,
			func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") }) {
			return true
		}
	}
	return false
}

// mutable says why a declaration cannot be a constant, "" if it can.
func mutable(spec *ast.ValueSpec, i int) string {
	if holdsState(spec.Type) {
		return "is a lock or holds state"
	}
	if len(spec.Values) == 0 {
		return "has no value and so waits to be changed"
	}
	value := spec.Values[min(i, len(spec.Values)-1)]
	if unary, ok := value.(*ast.UnaryExpr); ok && unary.Op == token.AND {
		value = unary.X
	}
	switch value := value.(type) {
	case *ast.CompositeLit:
		if holdsState(value.Type) {
			return "is a lock or holds state"
		}
		if _, isMap := value.Type.(*ast.MapType); isMap && len(value.Elts) == 0 {
			return "is an empty map and so waits to be changed"
		}
	case *ast.CallExpr:
		if name, ok := value.Fun.(*ast.Ident); ok && (name.Name == "make" || name.Name == "new") {
			return "is made empty and so waits to be changed"
		}
	}
	return ""
}

// holdsState reports whether a type is a channel or comes from sync (except
// sync.Pool) or sync/atomic.
func holdsState(t ast.Expr) bool {
	switch t := t.(type) {
	case *ast.ChanType:
		return true
	case *ast.IndexExpr: // atomic.Pointer[T]
		return holdsState(t.X)
	case *ast.SelectorExpr:
		from, ok := t.X.(*ast.Ident)
		return ok && (from.Name == "atomic" || from.Name == "sync" && t.Sel.Name != "Pool")
	}
	return false
}

// isStruct reports whether a variable's value is a composite literal of a named type.
func isStruct(spec *ast.ValueSpec, i int) bool {
	if i >= len(spec.Values) {
		return false
	}
	lit, ok := spec.Values[i].(*ast.CompositeLit)
	if !ok {
		return false
	}
	_, named := lit.Type.(*ast.Ident)
	return named
}

// write is a place where a variable is changed or its address is taken.
type write struct {
	root    *ast.Ident
	address bool
}

func writes(f *ast.File) (found []write) {
	add := func(e ast.Expr, address bool) {
		if id := rootOf(e); id != nil {
			found = append(found, write{id, address})
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, e := range n.Lhs {
					add(e, false)
				}
			}
		case *ast.IncDecStmt:
			add(n.X, false)
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				add(n.Key, false)
				add(n.Value, false)
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				add(n.X, true)
			}
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "delete" || id.Name == "clear") && len(n.Args) > 0 {
				add(n.Args[0], false)
			}
		}
		return true
	})
	return found
}

// rootOf returns v for v, v.f, v[i], *v and so on.
func rootOf(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// resolve finds the objects behind the identifiers of a package, including its inner test
// files. It treats imported packages as empty; no rule needs their objects.
func (m *module) resolve(p *pkg) (defs, uses map[*ast.Ident]types.Object) {
	info := &types.Info{Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object)}
	byName := make(map[string][]*ast.File) // the package and its outer tests
	for _, f := range p.files {
		byName[f.ast.Name.Name] = append(byName[f.ast.Name.Name], f.ast)
	}
	cfg := types.Config{Importer: emptyImporter{}, Error: func(error) {}, FakeImportC: true}
	for name, files := range byName {
		_, _ = cfg.Check(path.Join(modulePath, p.dir, name), m.fset, files, info) // full of errors, as intended
	}
	return info.Defs, info.Uses
}

type emptyImporter struct{}

func (emptyImporter) Import(importPath string) (*types.Package, error) {
	name := path.Base(importPath)
	if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
		name = path.Base(path.Dir(importPath))
	}
	p := types.NewPackage(importPath, strings.TrimPrefix(name, "go-"))
	p.MarkComplete()
	return p, nil
}

func TestCheckVariables(t *testing.T) {
	one := func(src string) map[string]string { return map[string]string{"auth/a.go": "package auth\n" + src} }
	runRule(t, checkVariables, []ruleTest{
		{"allowed", map[string]string{
			"auth/a.go": `package auth
import ("embed"; "errors"; "regexp"; "sync")
var _ error = (*problem)(nil)
var ErrGone = errors.New("gone")
var (
	pattern = regexp.MustCompile("x")
	table   = map[string]int{"a": 1}
	handlers = []func(){one, func() {}}
	newest  = &revision{name: "a"}
	older   = revision{name: "b"}
	buffers = sync.Pool{New: func() any { return new([]byte) }}
	load    = sync.OnceValue(func() int { return 1 })
	version = "dev"
)
//go:embed page.html
var page string
//go:embed testdata
var files embed.FS
func one() {
	table := map[string]int{} // another one
	table["b"] = 2
	newest := revision{}
	newest.name = "b"
	x := &newest
	_ = buffers.Get()
	_ = x
	_ = &older
}
`,
			"auth/a_test.go": "package auth\nvar update int\nfunc set() { update = 1 }\n",
		}, nil},
		{"without a value", one("var current int"), []string{"auth/a.go:2: package variable current has no value"}},
		{"a lock", one("import \"sync\"\nvar mu sync.Mutex\nvar mu2 = &sync.RWMutex{}"),
			[]string{"mu is a lock", "mu2 is a lock"}},
		{"an atomic", one("import \"sync/atomic\"\nvar n atomic.Int64\nvar p atomic.Pointer[int]"),
			[]string{"n is a lock or holds state", "p is a lock or holds state"}},
		{"a registry", one("var table = map[string]int{}\nvar other = make(map[string]int)\nvar queue chan int"),
			[]string{"table is an empty map", "other is made empty", "queue is a lock or holds state"}},
		{"assigned", one("var now = 1\nfunc f() { now = 2 }"), []string{"auth/a.go:3: package variable now is changed here"}},
		{"counted", one("var now = 1\nfunc f() { now++ }"), []string{"package variable now is changed here"}},
		{"an element set", one("var table = []int{1}\nfunc f() { table[0] = 2 }"), []string{"table is changed here"}},
		{"an element deleted", one("var table = map[int]int{1: 1}\nfunc f() { delete(table, 1); clear(table) }"),
			[]string{"table is changed", "table is changed"}},
		{"a member set", one("var rev = &revision{}\ntype revision struct{ a struct{ n int } }\nfunc f() { (*rev).a.n = 2 }"),
			[]string{"rev is changed here"}},
		{"an address taken", one("var n = 1\nfunc f() *int { return &n }"), []string{"n is changed here"}},
		{"set by range", one("var n = 1\nfunc f() { for n = range 3 {} }"), []string{"n is changed here"}},
		{"changed in another file", map[string]string{"auth/a.go": "package auth\nvar n = 1\n",
			"auth/b.go": "package auth\nfunc f() { n = 2 }\n"},
			[]string{"auth/b.go:2: package variable n is changed here"}},
		{"changed by a test", map[string]string{"auth/a.go": "package auth\nimport \"time\"\nvar now = time.Now\n",
			"auth/a_test.go": "package auth\nfunc f() { now = nil }\n"},
			[]string{"auth/a_test.go:2: package variable now is changed here"}},
		{"changed by another package", map[string]string{
			"auth/a.go": "package auth\nvar Now = 1\n", "policy/a.go": "package policy\nimport \"" + modulePath +
				"/auth\"\nfunc f() { auth.Now = 2 }\n"},
			[]string{"policy/a.go:3: a variable of package auth is changed here"}},
	})
}
