//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data. Only the lower half of an argument counts: both processors have it
// first, and the kernel takes the arguments that are compared here as 32 bits, or has no others.
const (
	offNumber = 0
	offArch   = 4
	offFirst  = 16 // argument
	offSecond = 24
	offThird  = 32
)

const (
	deny        = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	denySocket  = unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)
	unknownCall = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)

	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
		unix.CLONE_NEWPID | unix.CLONE_NEWNET
	ioprioProcess = 1 // IOPRIO_WHO_PROCESS

	socketType = 0xf // without SOCK_CLOEXEC and SOCK_NONBLOCK
)

// refused are system calls that no server needs, and that lead out of a box or deep into the kernel:
// other processes' memory, namespaces and mounts, keys, tracing, and administration.
func refused() []uint32 {
	return slices.Concat([]uint32{
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_KCMP,
		unix.SYS_PIDFD_GETFD,
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT, unix.SYS_MOUNT, unix.SYS_UMOUNT2,
		unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
		unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
		unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_SYSLOG,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
		unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
		unix.SYS_NFSSERVCTL, unix.SYS_VHANGUP, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SETTIMEOFDAY,
		unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
	}, refusedHere())
}

// ofItself are calls that a program may make for itself, by the number 0 of a process, and not for another one of
// its user, such as the gateway: Landlock does not look at them.
func ofItself() []uint32 {
	return []uint32{unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETPARAM,
		unix.SYS_SCHED_SETAFFINITY}
}

// unknown are calls with arguments that a filter does not see. They count as ones of a later kernel:
// programs then use others.
func unknown() []uint32 {
	return []uint32{unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}
}

// filter returns the program for the kernel. It looks at the processor first: a call of another one,
// such as one of 32 bits, has other numbers.
func (o order) filter() []bpf.Instruction {
	f := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: foreignNumbers, SkipTrue: 1},
		bpf.RetConstant{Val: unknownCall},
	}
	on := func(number uint32, block ...bpf.Instruction) {
		f = append(f, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: number, SkipTrue: uint8(len(block))})
		f = append(f, block...)
	}
	for _, number := range refused() {
		on(number, bpf.RetConstant{Val: deny})
	}
	for _, number := range unknown() {
		on(number, bpf.RetConstant{Val: unknownCall})
	}
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	for _, number := range ofItself() {
		on(number, bpf.LoadAbsolute{Off: offFirst, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 1}, allow, bpf.RetConstant{Val: deny})
	}
	for number, process := range map[uint32]uint32{unix.SYS_SETPRIORITY: unix.PRIO_PROCESS,
		unix.SYS_IOPRIO_SET: ioprioProcess} {
		on(number, bpf.LoadAbsolute{Off: offFirst, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: process, SkipTrue: 1}, bpf.RetConstant{Val: deny},
			bpf.LoadAbsolute{Off: offSecond, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 1}, allow, bpf.RetConstant{Val: deny})
	}
	on(unix.SYS_CLONE, bpf.LoadAbsolute{Off: offFirst, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: newNamespaces, SkipFalse: 1}, bpf.RetConstant{Val: deny}, allow)
	on(unix.SYS_SOCKET, o.sockets()...)
	if !o.UnixSockets {
		// Pairs, as between a process and its child, but none of datagrams: those send anywhere.
		on(unix.SYS_SOCKETPAIR, bpf.LoadAbsolute{Off: offFirst, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipTrue: 1}, bpf.RetConstant{Val: denySocket},
			bpf.LoadAbsolute{Off: offSecond, Size: 4}, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: socketType},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SOCK_DGRAM, SkipTrue: 1}, bpf.RetConstant{Val: denySocket},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SOCK_RAW, SkipTrue: 1}, bpf.RetConstant{Val: denySocket}, allow)
	}
	return append(f, allow)
}

// sockets returns the part of the filter that decides on a socket by its family. IP needs a network;
// what the system says of its own network is asked on a socket of NETLINK_ROUTE.
func (o order) sockets() []bpf.Instruction {
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	block := []bpf.Instruction{bpf.LoadAbsolute{Off: offFirst, Size: 4}}
	allowFamily := func(family uint32) {
		block = append(block, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: family, SkipTrue: 1}, allow)
	}
	if o.UnixSockets {
		allowFamily(unix.AF_UNIX)
	}
	if o.Network == networkLoopback || o.Network == networkAll {
		allowFamily(unix.AF_INET)
		allowFamily(unix.AF_INET6)
		block = append(block, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.AF_NETLINK, SkipTrue: 3},
			bpf.LoadAbsolute{Off: offThird, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.NETLINK_ROUTE, SkipTrue: 1}, allow)
	}
	return append(block, bpf.RetConstant{Val: denySocket})
}

// refuseCalls installs the filter. It comes late: it refuses what came before.
func (o order) refuseCalls() error {
	raw, err := bpf.Assemble(o.filter())
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return fmt.Errorf("this kernel has no seccomp filters: %w", errno)
	}
	return nil
}
