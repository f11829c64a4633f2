//go:build linux && (amd64 || arm64)

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"time"
)

const (
	// launcher is the first argument of a process that is to become a program in a box.
	launcher = "sandbox-exec"
	// enclosed is what the launcher says when the box is complete; it is followed by why the program
	// does not run in it, if so.
	enclosed = "enclosed\n"
	// launchTime bounds the time from the start of the launcher to that of the program.
	launchTime = 20 * time.Second
)

// order has the settings of the launcher.
type order struct {
	Program string // the path of the executable
	UID     int    // whom it runs as
	GID     int
	Become  bool // user or group differ from the gateway's

	SameUser bool // the user is the gateway's

	Own    string   // the directory that ends with the process
	Groups []string // control groups to join

	Config
}

// Box is the box of one process. Close must be called when the process has ended.
type Box struct {
	own    string // a directory
	group  *group
	status *os.File // says whether the program was started
	told   *os.File // the launcher's end
}

// Enclose changes a command that was not started so that it starts the program in a box.
func Enclose(cmd *exec.Cmd, cfg Config) (*Box, error) {
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	o := order{Program: cmd.Path, Config: cfg}
	var err error
	if o.UID, o.GID, err = cfg.identity(); err != nil {
		return nil, err
	}
	o.SameUser = o.UID == os.Geteuid()
	o.Become = !o.SameUser || o.GID != os.Getegid()
	b := &Box{}
	if err := b.fill(cmd, o); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// fill makes what the box has of the machine, and the command of the launcher.
func (b *Box) fill(cmd *exec.Cmd, o order) (err error) {
	if b.own, err = os.MkdirTemp("", "gatehouse-"); err != nil {
		return err
	}
	if o.Own = b.own; o.Become {
		if err = os.Chown(b.own, o.UID, o.GID); err != nil {
			return fmt.Errorf("user: %w: the gateway needs CAP_SETUID, CAP_SETGID and CAP_CHOWN", err)
		}
	}
	if b.group, err = newGroup(o.Config); err != nil {
		return err
	}
	if o.Groups = b.group.files(); b.group == nil && o.Processes > 0 && (o.UID == 0 || o.UID == os.Geteuid()) {
		return errors.New("processes: no control group can be made here, and a limit of a user would be " +
			"the gateway's or root's: set user to another one, or delegate a control group (docs/operations.md)")
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if b.status, b.told, err = os.Pipe(); err != nil {
		return err
	}
	cmd.Args = append([]string{os.Args[0], launcher, string(text)}, cmd.Args...)
	cmd.Path = "/proc/self/exe" // also when the gateway's file was replaced
	cmd.ExtraFiles = []*os.File{b.told}
	if cmd.Dir == "" {
		cmd.Dir = b.own
	}
	cmd.Env = append([]string{"HOME=" + b.own, "TMPDIR=" + b.own}, cmd.Env...) // what is set later wins
	return nil
}

// identity returns who runs the program.
func (c Config) identity() (uid, gid int, err error) {
	if c.User == "" {
		return os.Geteuid(), os.Getegid(), nil
	}
	first, second, both := strings.Cut(c.User, ":")
	if !both {
		u, err := user.Lookup(first)
		if err != nil {
			u, err = user.LookupId(first)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("user: %q is no user of this system; write uid:gid for one without an entry", c.User)
		}
		first, second = u.Uid, u.Gid
	}
	if uid, err = number(first); err == nil {
		gid, err = number(second)
	}
	return uid, gid, err
}

// number reads the number of a user or a group. The largest one means "as it is" to the kernel.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == math.MaxUint32 {
		return 0, fmt.Errorf("user: %q is no number of a user or a group", text)
	}
	return int(n), nil
}

// Started waits until the program runs in its box, and returns why it does not.
func (b *Box) Started() error {
	if b == nil {
		return nil
	}
	b.told.Close()
	defer b.status.Close()
	if err := b.status.SetReadDeadline(time.Now().Add(launchTime)); err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(b.status, 1<<10))
	failure, enclosed := strings.CutPrefix(string(text), enclosed)
	switch {
	case err != nil:
		return fmt.Errorf("the launcher does not answer: %w", err)
	case failure != "":
		return errors.New(failure)
	case !enclosed:
		return errors.New("the launcher ended by itself")
	}
	return nil
}

// Close removes what the box had of the machine.
func (b *Box) Close() {
	if b == nil {
		return
	}
	if b.status != nil {
		b.status.Close() // nothing happens to one that is closed
		b.told.Close()
	}
	b.group.remove()
	if b.own != "" {
		_ = os.RemoveAll(b.own) // as far as the gateway may
	}
}
