//go:build linux && (amd64 || arm64)

package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// emptying bounds the wait for the processes of a control group that are being ended.
const emptying = time.Second

// group is the control group of one process and its children: a directory in version 2, one for each
// controller in version 1. A nil group is none.
type group struct {
	dirs []string
}

// setting is one limit of a group.
type setting struct {
	parent string // the directory in which the group is made
	file   string
	value  int64
	lacks  bool // the kernel may lack it: it only makes the limit above it stricter
}

// newGroup makes a control group with the limits of a configuration. It returns nil if there are no
// limits, or if no group can be made here.
func newGroup(cfg Config) (*group, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil || cfg.MemoryBytes == 0 && cfg.Processes == 0 {
		return nil, nil
	}
	return makeGroup(cfg, string(own), "/sys/fs/cgroup")
}

// makeGroup makes a group beside or below the groups of this process, as /proc/self/cgroup lists
// them. mount is where they are mounted.
func makeGroup(cfg Config, own, mount string) (*group, error) {
	limits := limitsOfVersion2(cfg, own, mount)
	if limits == nil {
		limits = limitsOfVersion1(cfg, own, mount)
	}
	if limits == nil {
		return nil, nil
	}
	g := &group{}
	name := "gatehouse-" + rand.Text()
	for _, s := range limits {
		dir := filepath.Join(s.parent, name)
		err := os.Mkdir(dir, 0o755)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
			g.remove()
			return nil, nil // not ours to make
		}
		if err == nil {
			g.dirs = append(g.dirs, dir)
		}
		if err == nil || errors.Is(err, fs.ErrExist) {
			err = writeLimit(filepath.Join(dir, s.file), s.value)
		}
		if err != nil && !(s.lacks && errors.Is(err, fs.ErrNotExist)) {
			g.remove()
			return nil, fmt.Errorf("control group: %w", err)
		}
	}
	return g, nil
}

// writeLimit writes a file of a control group, which is there already.
func writeLimit(file string, value int64) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.FormatInt(value, 10))
	return errors.Join(err, f.Close())
}

// limitsOfVersion2 returns the limits of a group beside this process's own, if systemd has delegated
// the one around both (Delegate= and DelegateSubgroup=). A group with processes cannot have others.
func limitsOfVersion2(cfg Config, own, mount string) (limits []setting) {
	path := ownGroup(own, "")
	if path == "" || path == "/" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err != nil {
		mount = filepath.Join(mount, "unified")
	}
	parent := filepath.Dir(filepath.Join(mount, path))
	var mark [1]byte
	if n, err := unix.Getxattr(parent, "user.delegate", mark[:]); err != nil || n != 1 || mark[0] != '1' {
		return nil
	}
	// It fails where a controller is missing; the limit's file is missing, too, then.
	_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+memory +pids"), 0)
	if cfg.MemoryBytes > 0 {
		limits = append(limits, setting{parent, "memory.max", cfg.MemoryBytes, false},
			setting{parent, "memory.swap.max", 0, true}, setting{parent, "memory.oom.group", 1, true})
	}
	if cfg.Processes > 0 {
		limits = append(limits, setting{parent, "pids.max", cfg.Processes, false})
	}
	return limits
}

// limitsOfVersion1 returns the limits of groups below this process's own.
func limitsOfVersion1(cfg Config, own, mount string) (limits []setting) {
	for _, l := range []struct {
		controller, file string
		value            int64
	}{{"memory", "memory.limit_in_bytes", cfg.MemoryBytes}, {"pids", "pids.max", cfg.Processes}} {
		if l.value == 0 {
			continue
		}
		path := ownGroup(own, l.controller)
		parent := filepath.Join(mount, l.controller, path)
		if _, err := os.Stat(filepath.Join(parent, "cgroup.procs")); path == "" || err != nil {
			return nil
		}
		limits = append(limits, setting{parent, l.file, l.value, false})
	}
	return limits
}

// ownGroup finds the group of this process for a controller of version 1, or "" for version 2.
func ownGroup(own, controller string) string {
	for line := range strings.Lines(own) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		if name, path, _ := strings.Cut(rest, ":"); name == controller {
			return path
		}
	}
	return ""
}

// files are where a process joins the group.
func (g *group) files() (files []string) {
	if g == nil {
		return nil
	}
	for _, dir := range g.dirs {
		files = append(files, filepath.Join(dir, "cgroup.procs"))
	}
	return files
}

// remove ends all processes of the group, also those that have left the process group, and removes it.
func (g *group) remove() {
	if g == nil {
		return
	}
	for _, dir := range g.dirs {
		for end := time.Now().Add(emptying); ; time.Sleep(5 * time.Millisecond) {
			if err := os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) || time.Now().After(end) {
				break
			}
			members, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			for _, number := range strings.Fields(string(members)) {
				if pid, err := strconv.Atoi(number); err == nil && pid > 1 {
					_ = unix.Kill(pid, unix.SIGKILL)
				}
			}
		}
	}
}
