//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	mayRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// mayWrite has no device files and no ioctls of devices.
	mayWrite = mayRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	// ofFile is what makes sense for a single file.
	ofFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE

	allFiles = mayWrite | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK // ABI 3
	scopes   = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET             // ABI 6
)

// Versions of Landlock's ABI.
const (
	abiTruncate = 3 // Linux 6.2: files outside cannot be emptied
	abiIoctl    = 5 // Linux 6.10
	abiScope    = 6 // Linux 6.12: processes outside cannot be ended
)

// systemFiles are what programs of every language read: programs, libraries, certificates, names.
// Private keys in /etc/ssl and /etc/pki are not among them.
func systemFiles() []string {
	return []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
		"/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/alternatives", "/etc/localtime", "/etc/timezone", "/etc/os-release",
		"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/resolv.conf", "/etc/hosts", "/etc/host.conf",
		"/etc/gai.conf", "/etc/protocols", "/etc/services", "/etc/mime.types",
		"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/crypto-policies",
		"/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/tls/openssl.cnf", "/etc/pki/ca-trust",
		"/dev/zero", "/dev/random", "/dev/urandom",
	}
}

// encloseFiles lets the program reach only its files, and signal only its own processes.
func (o order) encloseFiles() error {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case errno != 0:
		return fmt.Errorf("this kernel has no Landlock, or it is not enabled (lsm=landlock): %w", errno)
	case abi < abiTruncate:
		return fmt.Errorf("this kernel has version %d of Landlock: version %d is needed (Linux 6.2)", abi, abiTruncate)
	case abi < abiScope && o.SameUser:
		return fmt.Errorf("this kernel has version %d of Landlock: a program of the gateway's user needs version %d "+
			"(Linux 6.12), or it could end the gateway; set user to another one", abi, abiScope)
	}
	if abi < abiScope && o.UnixSockets && o.Network != networkLoopback {
		return fmt.Errorf("this kernel has version %d of Landlock: with unix_sockets, version %d is needed (Linux 6.12), or "+
			"the program could reach abstract sockets of the machine", abi, abiScope)
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: allFiles}
	if abi >= abiIoctl {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= abiScope {
		attr.Scoped = scopes
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	r := ruleset(fd)
	defer unix.Close(int(r))
	if err := r.allow(o); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}

// ruleset is a descriptor of rules of Landlock.
type ruleset int

// allow adds what a program may reach. What the system does not have is left out, what the
// configuration names has to be there.
func (r ruleset) allow(o order) error {
	for _, path := range systemFiles() {
		if err := r.add(path, mayRead); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("the system's files: %s: %w", path, err)
		}
	}
	for _, rule := range []struct {
		key    string
		paths  []string
		access uint64
	}{
		{"command", []string{o.Program}, mayRead},
		{"the program's own directory", []string{o.Own}, mayWrite},
		{"/dev", []string{"/dev/null"}, mayWrite},
		{"read", o.Read, mayRead},
		{"write", o.Write, mayWrite},
	} {
		for _, path := range rule.paths {
			if err := r.add(path, rule.access); err != nil {
				return fmt.Errorf("%s: %s: %w", rule.key, path, err)
			}
		}
	}
	return nil
}

// add allows access beneath a path.
func (r ruleset) add(path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= ofFile
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
