package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const modulePath = "github.com/gatehouse-mcp/gatehouse"

// module is the input of the rules: the parsed Go files, and the names of all files of the
// repository.
type module struct {
	fset     *token.FileSet
	packages []*pkg
	files    []string // of any kind, by slashed path from the root
	read     func(name string) ([]byte, error)
	broken   []string // files that failed to parse
}

// pkg is a directory with Go files.
type pkg struct {
	dir   string // from the root; "." for the root
	files []*file
}

type file struct {
	name  string // from the root
	test  bool
	src   []byte
	lines int
	ast   *ast.File
}

// problem describes a broken rule; at is a file, with a line if known.
func (m *module) problem(at, format string, args ...any) string {
	return at + ": " + fmt.Sprintf(format, args...)
}

func (m *module) at(pos token.Pos) string {
	p := m.fset.Position(pos)
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// each calls fn for every Go file.
func (m *module) each(fn func(*pkg, *file)) {
	for _, p := range m.packages {
		for _, f := range p.files {
			fn(p, f)
		}
	}
}

// load reads a module. It skips the directories that the go tool skips. tracked are the
// files of the repository; nil for all.
func load(root fs.FS, tracked []string) (*module, error) {
	m := &module{fset: token.NewFileSet(), read: func(name string) ([]byte, error) { return fs.ReadFile(root, name) }}
	byDir := make(map[string]*pkg)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if d.IsDir() {
			if base == ".git" || base == ".cache" || base == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		m.files = append(m.files, name)
		if !strings.HasSuffix(name, ".go") || ignored(name) {
			return nil
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(m.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			m.broken = append(m.broken, err.Error())
			return nil
		}
		dir := path.Dir(name)
		if byDir[dir] == nil {
			byDir[dir] = &pkg{dir: dir}
			m.packages = append(m.packages, byDir[dir])
		}
		byDir[dir].files = append(byDir[dir].files, &file{
			name: name, test: strings.HasSuffix(name, "_test.go"), src: src, ast: parsed,
			lines: strings.Count(string(src), "\n"),
		})
		return nil
	})
	if tracked != nil {
		m.files = tracked
	}
	return m, err
}

// ignored reports whether the go tool ignores a path.
func ignored(name string) bool {
	for elem := range strings.SplitSeq(name, "/") {
		if elem == "testdata" || elem == "vendor" || strings.HasPrefix(elem, "_") || strings.HasPrefix(elem, ".") {
			return true
		}
	}
	return false
}

// loadRepository reads the module that this package is part of.
func loadRepository(t *testing.T) *module {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil || !strings.HasPrefix(string(mod), "module "+modulePath+"\n") {
		t.Fatalf("no go.mod of %s two levels up: %v", modulePath, err)
	}
	tracked, err := trackedFiles(t, root)
	if err != nil {
		t.Fatal(err)
	}
	m, err := load(os.DirFS(root), tracked)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// trackedFiles returns the files that git tracks and that exist. It returns nil in a source
// archive without git, where every file counts.
func trackedFiles(t *testing.T, root string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(root, ".git")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	cmd := exec.CommandContext(t.Context(), "git", "-C", root, "-c", "safe.directory="+root, "ls-files", "-z")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	names := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	return slices.DeleteFunc(names, func(name string) bool {
		_, err := os.Lstat(filepath.Join(root, filepath.FromSlash(name)))
		return err != nil
	}), nil
}
