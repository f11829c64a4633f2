package archtest

import (
	"go/ast"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// bound limits a measure of size. Tests, and packages that consist of tests, are not
// measured.
type bound struct {
	name    string // also used in exceptions
	most    int
	measure func(*module, *pkg) map[string]int // by what follows the package's directory; "" for the package itself
	advice  string
}

var (
	packageSize = bound{"files of a package", 30, filesOf,
		"a package that large has rooms: find the one that takes few names of the rest, and make it a package"}
	circleSize = bound{"files of a circle", 12, largestCircle,
		"these files refer to each other, so none can be read alone: let references go one way, or cut the package"}
	typeSpread = bound{"files with methods of a type", 6, methodFiles,
		"whoever reads such a type has to read them all: give a part of its state a type of its own"}
	interfaceSize = bound{"methods of an interface", 6, interfaceMethods,
		"ask for less, or let the caller pass in a struct"}
)

// exception lets one thing exceed a bound, for a reason. It may shrink but not grow, and
// must be removed when the bound holds.
type exception struct {
	bound, where string
	n            int
	why          string
}

// exceptions are all exceptions. Code that moves to another package takes its rows along.
var exceptions = []exception{
	{"files of a package", "policy", 33,
		"the guard, the limits and what explains a rule read the same patterns, spellings and conditions: a room for one of them would export most of those"},
	{"methods of an interface", "upstream/transport Conn", 9, "a plug point: three transports, and a suite"},
}

func (b bound) check(m *module) []string { return b.against(m, exceptions) }

// against compares the measurements with the bound and its exceptions.
func (b bound) against(m *module, exceptions []exception) (problems []string) {
	allowed := make(map[string]exception)
	for _, e := range exceptions {
		if e.bound == b.name {
			allowed[e.where] = e
		}
	}
	for _, p := range m.packages {
		measured := b.measure(m, p)
		for _, what := range slices.Sorted(maps.Keys(measured)) {
			where, n := strings.TrimSpace(p.dir+" "+what), measured[what]
			if n <= b.most {
				continue
			}
			e, excepted := allowed[where]
			delete(allowed, where)
			switch {
			case !excepted:
				problems = append(problems,
					m.problem(where, "%s: %d, want at most %d: %s (exceptions, with their reasons: internal/archtest/rooms_test.go)",
						b.name, n, b.most, b.advice))
			case n > e.n:
				problems = append(problems, m.problem(where, "%s: %d, and the exception is for %d: %s", b.name, n, e.n, b.advice))
			}
		}
	}
	for _, where := range slices.Sorted(maps.Keys(allowed)) {
		problems = append(problems,
			m.problem(where, "%s: the bound holds here: take the exception out of internal/archtest/rooms_test.go", b.name))
	}
	return problems
}

// code returns the files of a package without its tests.
func (p *pkg) code() (files []*ast.File) {
	for _, f := range p.files {
		if !f.test {
			files = append(files, f.ast)
		}
	}
	return files
}

func filesOf(_ *module, p *pkg) map[string]int { return map[string]int{"": len(p.code())} }

// largestCircle returns how many files of a package depend on each other, directly or not.
// A file depends on another if it uses an identifier declared there: a type, a function, a
// method, a field.
func largestCircle(m *module, p *pkg) map[string]int {
	files := p.code()
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	// Imported identifiers stay unknown; almost all uses of local ones are still found.
	cfg := types.Config{Importer: emptyImporter{}, Error: func(error) {}, FakeImportC: true}
	checked, _ := cfg.Check(path.Join(modulePath, p.dir), m.fset, files, info)
	refers := make(map[string]map[string]bool)
	for id, obj := range info.Uses {
		from, to := m.fset.Position(id.Pos()).Filename, m.fset.Position(obj.Pos()).Filename
		if obj.Pkg() == checked && to != "" && from != to {
			if refers[from] == nil {
				refers[from] = make(map[string]bool)
			}
			refers[from][to] = true
		}
	}
	return map[string]int{"": largestComponent(refers)}
}

// largestComponent returns the size of the largest strongly connected component of a graph,
// by Tarjan's algorithm.
func largestComponent(refers map[string]map[string]bool) (largest int) {
	index, lowest := make(map[string]int), make(map[string]int)
	var stack []string
	var visit func(string)
	visit = func(file string) {
		index[file] = len(index) + 1
		lowest[file] = index[file]
		stack = append(stack, file)
		for to := range refers[file] {
			if index[to] == 0 {
				visit(to)
				lowest[file] = min(lowest[file], lowest[to])
			} else if slices.Contains(stack, to) {
				lowest[file] = min(lowest[file], index[to])
			}
		}
		if lowest[file] == index[file] {
			first := slices.Index(stack, file)
			largest = max(largest, len(stack)-first)
			stack = stack[:first]
		}
	}
	for file := range refers {
		if index[file] == 0 {
			visit(file)
		}
	}
	return largest
}

// methods calls fn for each method of a package, with the name of its type.
func (p *pkg) methods(fn func(f *ast.File, typ, method string)) {
	for _, f := range p.code() {
		for _, d := range f.Decls {
			if decl, ok := d.(*ast.FuncDecl); ok && decl.Recv != nil {
				fn(f, receiver(decl), decl.Name.Name)
			}
		}
	}
}

// receiver returns the name of the type of a method.
func receiver(fn *ast.FuncDecl) string {
	typ, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(fn.Recv.List[0].Type), "*"), "[")
	return typ
}

func methodFiles(_ *module, p *pkg) map[string]int {
	files := make(map[string]map[*ast.File]bool)
	p.methods(func(f *ast.File, typ, _ string) { insert(files, typ, f) })
	return sizes(files)
}

func interfaceMethods(_ *module, p *pkg) map[string]int {
	count := make(map[string]int)
	for _, f := range p.code() {
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if typ, ok := spec.Type.(*ast.InterfaceType); ok {
					count[spec.Name.Name] = typ.Methods.NumFields()
				}
			}
			return true
		})
	}
	return count
}

func insert[K, V comparable](sets map[K]map[V]bool, key K, value V) {
	if sets[key] == nil {
		sets[key] = make(map[V]bool)
	}
	sets[key][value] = true
}

func sizes[V comparable](sets map[string]map[V]bool) map[string]int {
	n := make(map[string]int)
	for key, set := range sets {
		n[key] = len(set)
	}
	return n
}

// small is how many lines of code make a package that a single other one imports.
const small = 250

// lonely are smaller packages that a single other one imports, with the reasons.
var lonely = map[string]string{
	"gateway/handover":       "the gateway itself must not pass calls on: see checkHandles",
	"upstream/transport/sse": "a transport, beside two others with the same interface",
}

// checkSmall refuses a small package that a single other one imports: the two are one thing. It allows
// the stages, which the table of layers keeps apart from each other.
func checkSmall(m *module) (problems []string) {
	importers := make(map[string]map[string]bool)
	lines := make(map[string]int)
	m.each(func(p *pkg, f *file) {
		if l, ok := layerOf(p.dir); f.test || !ok || l.level == testLevel {
			return
		}
		code, _ := codeLines(f.src)
		lines[p.dir] += code
		m.imports(f, func(_, _, ours string) { insert(importers, ours, p.dir) })
	})
	for _, dir := range slices.Sorted(maps.Keys(lines)) {
		l, _ := layerOf(dir)
		alone := lines[dir] < small && len(importers[dir]) == 1 && path.Base(l.dir) != "*"
		switch _, excepted := lonely[dir]; {
		case alone && !excepted:
			problems = append(problems, m.problem(dir, "%d lines for one other package alone: fold it into that", lines[dir]))
		case excepted && !alone:
			problems = append(problems, m.problem(dir, "it is not lonely: take it out of internal/archtest/rooms_test.go"))
		}
	}
	return problems
}

// reserved are packages that few may import, whatever the table of layers allows: only the
// table of homes asks for the owner of a session and the front forwards to it, the gateway constructs what it asks, the configuration has its
// section, and a trial says which replicas can be reached.
var reserved = map[string][]string{"internal/cluster": {"gateway", "gateway/front", "gateway/config", "gateway/trial",
	"internal/home"}}

func checkReserved(m *module) (problems []string) {
	m.each(func(p *pkg, f *file) {
		if l, ok := layerOf(p.dir); f.test || ok && l.level == testLevel {
			return
		}
		m.imports(f, func(at, _, ours string) {
			if allowed, ok := reserved[ours]; ok && p.dir != ours && !slices.Contains(allowed, p.dir) {
				problems = append(problems, m.problem(at, "%s is for %s alone: let them pass in what is needed", ours,
					strings.Join(allowed, " and ")))
			}
		})
	})
	return problems
}

func TestBounds(t *testing.T) {
	// of returns a package with one file for each text.
	of := func(texts ...string) map[string]string {
		files := make(map[string]string)
		for i, text := range texts {
			files["auth/"+string(rune('a'+i))+".go"] = "package auth\n" + text
		}
		return files
	}
	ring := []string{"func f() { g() }", "func g() { var x T; x.h() }", "type T struct{}\nfunc (T) h() { U{}.i() }",
		"type U struct{}\nfunc (U) i() { f() }", "func j() { f() }"}
	for _, tt := range []struct {
		bound
		files map[string]string
		want  map[string]int
	}{
		{packageSize, map[string]string{"auth/a.go": "package auth\n", "auth/a_test.go": "package auth\n"},
			map[string]int{"": 1}},
		{circleSize, of(ring...), map[string]int{"": 4}},
		{circleSize, of(ring[1:]...), map[string]int{"": 1}},
		{typeSpread, of("type T struct{}\nfunc (T) a() {}\nfunc (T) b() {}", "func (t *T) c() {}",
			"func (l *list[K]) d() {}"), map[string]int{"T": 2, "list": 1}},
		{interfaceSize, of("type I interface{ a(); b(); error }"), map[string]int{"I": 3}},
	} {
		runRule(t, func(m *module) (problems []string) {
			if got := tt.measure(m, m.packages[0]); !maps.Equal(got, tt.want) {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
			}
			largest := slices.Max(slices.Collect(maps.Values(tt.want)))
			for _, check := range []struct {
				most    int
				excepts []exception
				want    string
			}{
				{largest, nil, ""},
				{largest - 1, nil, "want at most"},
				{largest - 1, everywhere(tt.name, tt.want, largest), ""},
				{largest - 1, everywhere(tt.name, tt.want, largest-1), "the exception is for"},
				{largest, everywhere(tt.name, tt.want, largest), "the bound holds here"},
			} {
				b := tt.bound
				b.most = check.most
				got := strings.Join(b.against(m, check.excepts), "\n")
				if check.want == "" && got != "" || !strings.Contains(got, check.want) {
					t.Errorf("%s, at most %d: %q, want %q", b.name, b.most, got, check.want)
				}
			}
			return []string{"it was measured"}
		}, []ruleTest{{tt.name, tt.files, []string{"measured"}}})
	}
}

// everywhere excepts the largest value of a measure.
func everywhere(name string, measured map[string]int, n int) (list []exception) {
	largest := slices.Max(slices.Collect(maps.Values(measured)))
	for what, count := range measured {
		if count == largest {
			list = append(list, exception{name, strings.TrimSpace("auth " + what), n, "a test"})
		}
	}
	return list
}

func TestCheckReserved(t *testing.T) {
	src := func(pkg string) string {
		return "package " + pkg + "\nimport \"" + modulePath + "/internal/cluster\"\n"
	}
	runRule(t, checkReserved, []ruleTest{
		{"allowed", map[string]string{"gateway/front/a.go": src("front"), "gateway/a.go": src("gateway"),
			"upstream/a_test.go": src("upstream"), "internal/e2e/a.go": src("e2e")}, nil},
		{"elsewhere", map[string]string{"upstream/pool/a.go": src("pool"), "gateway/front/live/a.go": src("live")},
			[]string{"gateway/front/live/a.go:2: internal/cluster is for gateway and gateway/front and gateway/config and gateway/trial and internal/home alone", "upstream/pool/a.go:2"}},
	})
}

func TestCheckSmall(t *testing.T) {
	src := func(dir, imported string) string {
		return "package " + path.Base(dir) + "\nimport _ \"" + modulePath + "/" + imported + "\"\n"
	}
	large := "package home\n" + strings.Repeat("var _ = 1\n", small)
	runRule(t, checkSmall, []ruleTest{
		{"allowed", map[string]string{"internal/home/a.go": large, "gateway/feature/x/a.go": "package x\n",
			"gateway/handover/a.go": "package handover\n", "internal/seal/a.go": "package seal\n",
			"gateway/a.go": src("gateway", "internal/home"), "gateway/b.go": src("gateway", "gateway/feature/x"),
			"gateway/c.go": src("gateway", "gateway/handover"), "gateway/d.go": src("gateway", "internal/seal"),
			"session/a.go": src("session", "internal/seal")}, nil},
		{"found", map[string]string{"internal/home/a.go": "package home\n", "gateway/handover/a.go": "package handover\n",
			"session/a.go": src("session", "internal/home"), "internal/e2e/a.go": src("e2e", "internal/home")},
			[]string{"gateway/handover: it is not lonely", "internal/home: 1 lines for one other package alone"}},
	})
}
