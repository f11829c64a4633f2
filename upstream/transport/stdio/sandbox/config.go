package sandbox

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

// Values of Config.Network.
const (
	networkNone     = "none"
	networkLoopback = "loopback"
	networkAll      = "all"
)

// leastMemory is the least memory of a process, in bytes: with less, not even a runtime starts.
const leastMemory = 16 << 20

// leastLifetime is more than a process that ends earlier is blamed for.
const leastLifetime = 2 * time.Minute

// Config is the box of a program. Without further settings, the program reads the system's programs
// and libraries, writes into a directory of its own that ends with it, and has no network.
type Config struct {
	// User is who runs the program: a name, a number, or uid:gid. The gateway needs CAP_SETUID, CAP_SETGID
	// and CAP_CHOWN. Default: the gateway's user.
	User string `yaml:"user"`
	// Read are files and directories that the program may read and execute, beside the system's programs,
	// libraries and certificates. Default none.
	Read []string `yaml:"read"`
	// Write are files and directories that it may change as well. Default none.
	Write []string `yaml:"write"`
	// Network is none, loopback (one of the program's own: the gateway needs CAP_SYS_ADMIN), or all.
	// Default none.
	Network string `yaml:"network"`
	// UnixSockets lets the program use sockets in the file system, such as that of a database or
	// of Docker. Default false.
	UnixSockets bool `yaml:"unix_sockets"`
	// MemoryBytes is how much memory the program and its children have together or, where no control group
	// can be made, each of its processes. At least 16MiB. Default: no limit.
	MemoryBytes int64 `yaml:"memory_bytes"`
	// Processes is how many processes and threads it has at a time or, where no control group can be made,
	// its User has, which then has to be another than the gateway's. Default: no limit.
	Processes int64 `yaml:"processes"`
	// CPUSeconds is the processor time of each of its processes, in seconds. Default: no limit.
	CPUSeconds int64 `yaml:"cpu_seconds"`
	// Lifetime is the age at which it is ended between two calls, at least 2m. Default: no limit.
	Lifetime time.Duration `yaml:"lifetime"`
}

// String describes the box for people, "" for none.
func (c *Config) String() string {
	if c == nil {
		return ""
	}
	parts := []string{"network " + cmp.Or(c.Network, networkNone)}
	if c.UnixSockets {
		parts = append(parts, "Unix sockets")
	}
	parts = append(parts, "user "+cmp.Or(c.User, "of the gateway"))
	if c.MemoryBytes > 0 {
		parts = append(parts, fmt.Sprintf("%d MiB", c.MemoryBytes>>20))
	}
	if c.Processes > 0 {
		parts = append(parts, fmt.Sprintf("%d processes", c.Processes))
	}
	return strings.Join(parts, ", ")
}

// userPattern is a name, a uid, or uid:gid.
var userPattern = regexp.MustCompile(`^([a-z_][a-z0-9_.-]{0,31}\$?|[0-9]{1,10}(:[0-9]{1,10})?)$`)

// Validate reports everything that is wrong with the configuration, as one joined error.
func (c Config) Validate() error {
	var found problems.List
	found.When(!supported(), "is for Linux on amd64 and arm64, not for %s on %s: take it away, "+
		"or run the program in a container", runtime.GOOS, runtime.GOARCH)
	found.When(c.User != "" && !userPattern.MatchString(c.User), "user: %q: want a name, a number, or uid:gid", c.User)
	for key, paths := range map[string][]string{"read": c.Read, "write": c.Write} {
		for _, path := range paths {
			found.When(path == "" || strings.Contains(path, "\x00"), "%s: %q is not a path", key, path)
		}
	}
	switch c.Network {
	case "", networkNone, networkLoopback, networkAll:
	default:
		found.Add("network: %q: want none, loopback or all", c.Network)
	}
	found.At("memory_bytes", problems.Negative(c.MemoryBytes))
	found.When(c.MemoryBytes > 0 && c.MemoryBytes < leastMemory,
		"memory_bytes: %d is less than %d", c.MemoryBytes, leastMemory)
	found.At("processes", problems.Negative(c.Processes))
	found.At("cpu_seconds", problems.Negative(c.CPUSeconds))
	found.At("lifetime", problems.Negative(c.Lifetime))
	found.When(c.Lifetime > 0 && c.Lifetime < leastLifetime, "lifetime: %s is less than %s", c.Lifetime, leastLifetime)
	return found.Err()
}

// supported reports whether there are boxes on this system.
func supported() bool {
	return runtime.GOOS == "linux" && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64")
}
