package rig

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Node is a set of installed npm packages with its own Node, which is a package of the set,
// because the machine's Node may be too old.
type Node struct {
	Dir    string // holds node_modules
	Binary string // the node command
}

// InstallNode installs the packages of <source>/package-lock.json into a cache folder of
// that name, and copies the scripts (*.mjs) of the other folders beside them, where their
// imports find the packages. It does not run install scripts of packages.
func (c Checkout) InstallNode(ctx context.Context, name, source string, scripts ...string) (Node, error) {
	lock := filepath.Join(source, "package-lock.json")
	dir := c.Cache("npm", name)
	node := Node{Dir: dir}
	arch, ok := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	if !ok || runtime.GOOS != "linux" {
		return node, fmt.Errorf("no pinned Node for %s/%s: see %s", runtime.GOOS, runtime.GOARCH, lock)
	}
	node.Binary = filepath.Join(dir, "node_modules", "node-linux-"+arch, "bin", "node")
	err := once(dir, []string{lock}, func() error {
		for _, file := range []string{"package.json", "package-lock.json"} {
			if err := copyFile(filepath.Join(source, file), filepath.Join(dir, file)); err != nil {
				return err
			}
		}
		cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
		cmd.Dir = dir
		return run(cmd)
	})
	if err != nil {
		return node, err
	}
	for _, folder := range scripts {
		files, err := filepath.Glob(filepath.Join(folder, "*.mjs"))
		if err != nil {
			return node, err
		}
		for _, file := range files {
			if err := copyFile(file, filepath.Join(dir, filepath.Base(file))); err != nil {
				return node, err
			}
		}
	}
	return node, nil
}

// File returns the path of a script.
func (n Node) File(name string) string { return filepath.Join(n.Dir, name) }

// Module returns a path inside an installed package.
func (n Node) Module(elem ...string) string {
	return filepath.Join(append([]string{n.Dir, "node_modules"}, elem...)...)
}

// InstallPython makes a virtual environment with the packages of a requirements
// file and returns the path of its python.
func (c Checkout) InstallPython(ctx context.Context, name, requirements string) (string, error) {
	dir := c.Cache("python", name)
	python := filepath.Join(dir, "bin", "python")
	return python, once(dir, []string{requirements}, func() error {
		if err := c.command(ctx, "python3", "-m", "venv", dir); err != nil {
			return err
		}
		return c.command(ctx, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
			"--no-deps", "--requirement", requirements)
	})
}

// once empties dir and calls install, unless it has done so for the same inputs before. It
// writes its mark last, so an interrupted installation is repeated.
func once(dir string, inputs []string, install func() error) error {
	sum := sha256.New()
	for _, file := range inputs {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		sum.Write(data)
	}
	want := hex.EncodeToString(sum.Sum(nil))
	mark := filepath.Join(dir, ".installed")
	have, err := os.ReadFile(mark)
	if err == nil && string(have) == want {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := install(); err != nil {
		return err
	}
	return os.WriteFile(mark, []byte(want), 0o644)
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}
