package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Checkout is the root directory of this module's source.
type Checkout string

// FindCheckout walks up from the working directory to the module's root.
func FindCheckout() (Checkout, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return Checkout(dir), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}

// Path returns a path below the checkout.
func (c Checkout) Path(elem ...string) string {
	return filepath.Join(append([]string{string(c)}, elem...)...)
}

// Cache returns a path below the ignored folder for what is installed and built.
func (c Checkout) Cache(elem ...string) string {
	return c.Path(append([]string{".cache"}, elem...)...)
}

// Build compiles a command of this module and returns the path of its binary.
func (c Checkout) Build(ctx context.Context, pkg string) (string, error) {
	binary := c.Cache("bin", filepath.Base(pkg))
	return binary, c.command(ctx, "go", "build", "-o", binary, pkg)
}

// ErrNoCommit means that a checkout does not have a commit, such as one with a short history.
var ErrNoCommit = errors.New("this checkout does not have the commit")

// BuildAt compiles a command as it is at a commit, and returns the path of its binary. The error is
// ErrNoCommit if the checkout does not have the commit.
func (c Checkout) BuildAt(ctx context.Context, commit, pkg string) (string, error) {
	if err := c.command(ctx, "git", "cat-file", "-e", commit+"^{commit}"); err != nil {
		return "", fmt.Errorf("%w %s: %w", ErrNoCommit, commit, err)
	}
	at := c.Cache("at", commit)
	binary := filepath.Join(at, filepath.Base(pkg))
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	source := filepath.Join(at, "source")
	archive := source + ".tar"
	err := errors.Join(os.RemoveAll(source), os.MkdirAll(source, 0o755))
	for _, step := range [][]string{
		{"git", "archive", "-o", archive, commit},
		{"tar", "-xf", archive, "-C", source},
		{"go", "build", "-C", source, "-o", binary, pkg},
	} {
		if err == nil {
			err = c.command(ctx, step[0], step[1:]...)
		}
	}
	return binary, err
}

// BuildModule compiles a command of a module that this one depends on, in the
// version that go.mod names, and returns the path of its binary.
func (c Checkout) BuildModule(ctx context.Context, module, pkg string) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", module)
	list.Dir = string(c)
	version, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("version of %s: %w", module, err)
	}
	// Each version has its own folder outside our go.mod: the command's dependencies are
	// not ours.
	at := strings.TrimSpace(string(version))
	dir := c.Cache("bin", filepath.Base(module)+"@"+at)
	binary := filepath.Join(dir, filepath.Base(pkg))
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	install := exec.CommandContext(ctx, "go", "install", module+"/"+pkg+"@"+at)
	install.Dir = string(c)
	install.Env = append(os.Environ(), "GOBIN="+dir)
	return binary, run(install)
}

// BuildOther compiles a command of the module in a folder of this checkout, or with "tool" the tool
// that it names, or one of its tools by package, and returns the path of its binary. The module pins what
// it needs, which is not ours.
func (c Checkout) BuildOther(ctx context.Context, module, pkg string) (string, error) {
	binary := c.Cache("bin", filepath.Base(module))
	if strings.Contains(pkg, "/") {
		binary = c.Cache("bin", filepath.Base(pkg))
	}
	return binary, c.command(ctx, "go", "build", "-C", module, "-o", binary, pkg)
}

func (c Checkout) command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = string(c)
	cmd.Env = append(os.Environ(), "GOEXPERIMENT=") // as users build it: not with what the tests turn on for themselves
	return run(cmd)
}

// run runs a command. The error contains the end of its output.
func run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, tail(out, 4<<10))
	}
	return nil
}

func tail(out []byte, max int) []byte {
	if len(out) > max {
		return out[len(out)-max:]
	}
	return out
}
