package stdio

import (
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// start starts a program. Unless it may gain privileges, neither it nor what it starts gets any by
// a set-user-ID bit or a file capability: that holds for all that a thread starts, so the thread is
// for this program alone, and ends with its goroutine.
func start(cmd *exec.Cmd, newPrivileges bool) error {
	if newPrivileges {
		return cmd.Start()
	}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	}()
	return <-started
}
