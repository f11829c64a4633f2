//go:build linux && (amd64 || arm64)

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// statusFD is where the launcher tells the gateway how it went: the first of exec.Cmd.ExtraFiles.
const statusFD = 3

// Main turns this process into a program in its box, if the gateway has started it for that; else it
// returns. The process calls it before anything else.
func Main() {
	if len(os.Args) < 4 || os.Args[1] != launcher {
		return
	}
	status := os.NewFile(statusFD, "status")
	// What the gateway has inherited and never opened, such as sockets of systemd, ends here, too.
	if err := unix.CloseRange(statusFD, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		fmt.Fprintf(status, "closing what the gateway has open: %v", err)
		os.Exit(1)
	}
	fmt.Fprint(status, run(os.Args[2], os.Args[3:], func() { fmt.Fprint(status, enclosed) }))
	os.Exit(1)
}

// run gives up all that the program may not have, and becomes the program. It returns why it
// could not. What it gives up is its thread's: the thread becomes the program.
func run(text string, args []string, done func()) error {
	runtime.LockOSThread()
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	for _, step := range []func() error{o.join, o.network, o.limit, o.become, o.encloseFiles, o.refuseCalls,
		o.limitMemory} {
		if err := step(); err != nil {
			return err
		}
	}
	done()
	err := unix.Exec(o.Program, args, os.Environ())
	hint := ""
	switch {
	case errors.Is(err, unix.EACCES):
		hint = ": it, its interpreter or the loader is outside of what the sandbox lets it read, or may not be executed"
	case errors.Is(err, unix.EAGAIN):
		hint = ": its user has more processes than processes allows"
	}
	return fmt.Errorf("%s: %w%s", o.Program, err, hint)
}

// join moves the process into its control groups.
func (o order) join() error {
	for _, file := range o.Groups {
		if err := os.WriteFile(file, []byte("0"), 0); err != nil {
			return fmt.Errorf("control group: %w", err)
		}
	}
	return nil
}

// network makes a loopback of the program's own. The other networks are a matter of seccomp.
func (o order) network() error {
	if o.Network != networkLoopback {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("network: loopback needs a network namespace, and the gateway CAP_SYS_ADMIN for that: %w; "+
			"use none or all, or a container", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("network: loopback: %w", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("network: loopback: %w", err)
	}
	return nil
}

// limit sets the resource limits. That of processes stands in for a control group.
func (o order) limit() error {
	limits := []resourceLimit{{"core", unix.RLIMIT_CORE, 0, 0}}
	if o.CPUSeconds > 0 { // SIGXCPU, and a second later SIGKILL
		limits = append(limits, resourceLimit{"cpu_seconds", unix.RLIMIT_CPU, o.CPUSeconds, o.CPUSeconds + 1})
	}
	if o.Processes > 0 && len(o.Groups) == 0 {
		limits = append(limits, resourceLimit{"processes", unix.RLIMIT_NPROC, o.Processes, o.Processes})
	}
	for _, l := range limits {
		if err := l.set(); err != nil {
			return err
		}
	}
	return nil
}

// limitMemory stands in for a control group. It comes last, since the launcher needs memory, too. What
// counts is memory that can be written, not address space: runtimes reserve far more of that.
func (o order) limitMemory() error {
	if o.MemoryBytes == 0 || len(o.Groups) > 0 {
		return nil
	}
	return resourceLimit{"memory_bytes", unix.RLIMIT_DATA, o.MemoryBytes, o.MemoryBytes}.set()
}

// resourceLimit is a limit of the kernel for a process, by the key that asks for it.
type resourceLimit struct {
	key        string
	resource   int
	soft, hard int64
}

func (l resourceLimit) set() error {
	if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: uint64(l.soft), Max: uint64(l.hard)}); err != nil {
		return fmt.Errorf("%s: %w", l.key, err)
	}
	return nil
}

// become takes the identity of the program's user, and no capabilities.
func (o order) become() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	for capability := uintptr(0); ; capability++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if err != nil {
			break // EINVAL beyond the last one; without CAP_SETPCAP, no new privileges does it
		}
	}
	if o.Become {
		err := syscall.Setgroups(nil)
		if err == nil {
			err = syscall.Setresgid(o.GID, o.GID, o.GID)
		}
		if err == nil {
			err = syscall.Setresuid(o.UID, o.UID, o.UID)
		}
		if err != nil {
			return fmt.Errorf("user: the gateway needs CAP_SETUID and CAP_SETGID to become %d:%d: %w", o.UID, o.GID, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}
