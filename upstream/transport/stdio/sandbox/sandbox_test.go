//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// attackEnv says what this binary does as a program in a box.
const attackEnv = "GATEHOUSE_TEST_ATTACK"

func TestMain(m *testing.M) {
	Main()
	if name := os.Getenv(attackEnv); name != "" {
		fmt.Print(attacks()[name](os.Args[1:]))
		syscall.Exit(0) // without the second that the race detector waits, since it cannot read GORACE in a box
	}
	os.Exit(m.Run())
}

// attacks are what a program may try. Each returns what came of it.
func attacks() map[string]func(args []string) string {
	said := func(err error) string {
		if err == nil {
			return "done"
		}
		return err.Error()
	}
	return map[string]func([]string) string{
		"read": func(args []string) string {
			text, err := os.ReadFile(args[0])
			return cmp.Or(string(text), said(err))
		},
		"write":    func(args []string) string { return said(os.WriteFile(args[0], []byte("x"), 0o600)) },
		"truncate": func(args []string) string { return said(os.Truncate(args[0], 0)) },
		"remove":   func(args []string) string { return said(os.Remove(args[0])) },
		"link":     func(args []string) string { return said(os.Link(args[0], filepath.Join(os.Getenv("TMPDIR"), "link"))) },
		"run": func(args []string) string {
			out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
			return cmp.Or(string(out), said(err))
		},
		"dial": func(args []string) string {
			conn, err := net.DialTimeout(args[0], args[1], time.Second)
			if err == nil {
				_, err = conn.Write([]byte("x"))
			}
			return said(err)
		},
		"listen": func([]string) string {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return said(err)
			}
			conn, err := net.Dial("tcp", l.Addr().String())
			if err == nil {
				_, err = conn.Write([]byte("x"))
			}
			return said(err)
		},
		"datagrams": func(args []string) string { // a pair, one end of which is sent elsewhere
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			if err == nil {
				err = unix.Sendto(pair[0], []byte("x"), 0, &unix.SockaddrUnix{Name: args[0]})
			}
			return said(err)
		},
		"pair": func([]string) string {
			_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			return said(err)
		},
		"calls": func(args []string) string {
			pid, _ := strconv.Atoi(args[0])
			_, _, fork := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if fork == 0 {
				os.Exit(0)
			}
			_, _, keys := unix.Syscall(unix.SYS_KEYCTL, 0, 0, 0)
			_, _, ring := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
			_, _, clone3 := unix.Syscall(unix.SYS_CLONE3, 0, 0, 0)
			return fmt.Sprintf("ptrace %v; unshare %v; user namespace %v; mount %v; keyctl %v; io_uring %v; clone3 %v",
				unix.PtraceAttach(pid), unix.Unshare(unix.CLONE_NEWUSER), fork, unix.Mount("none", "/", "tmpfs", 0, ""), keys, ring,
				clone3)
		},
		"kill": func(args []string) string {
			pid, _ := strconv.Atoi(args[0])
			return said(syscall.Kill(pid, syscall.SIGCONT))
		},
		"limit": func(args []string) string { // the gateway, by calls that Landlock does not look at
			pid, _ := strconv.Atoi(args[0])
			limit := unix.Rlimit{Cur: 4096, Max: 4096}
			var mask unix.CPUSet
			mask.Set(0)
			own := unix.Prlimit(0, unix.RLIMIT_NOFILE, &limit, nil)
			return fmt.Sprintf("own %v; prlimit %v; priority %v; affinity %v; of the user %v", own,
				unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil), unix.Setpriority(unix.PRIO_PROCESS, pid, 19),
				unix.SchedSetaffinity(pid, &mask), unix.Setpriority(unix.PRIO_USER, 0, 19))
		},
		"status": func([]string) string {
			var none unix.Rlimit
			_ = unix.Getrlimit(unix.RLIMIT_CORE, &none)
			header, caps := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
			_ = unix.Capget(&header, &caps[0])
			gains, _ := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
			groups, _ := os.Getgroups()
			bound, _ := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_ADMIN, 0, 0, 0)
			return fmt.Sprintf("uid %d gid %d groups %v caps %x bounding %d no_new_privs %d core %d", os.Getuid(), os.Getgid(),
				groups, caps, bound, gains, none.Max)
		},
		"memory": func([]string) string {
			size := 256 << 20
			b := bytes.Repeat([]byte("x"), size)
			return fmt.Sprint(len(b))
		},
		"environment": func([]string) string {
			dir, _ := os.Getwd()
			return fmt.Sprintf("home %t, cwd %t, set %s", os.Getenv("HOME") == os.Getenv("TMPDIR"), dir == os.Getenv("TMPDIR"),
				os.Getenv("SET"))
		},
	}
}

// attack runs an attack in a box and returns what it said, and how the process ended.
func attack(t *testing.T, cfg Config, name string, args ...string) (said string, state *os.ProcessState) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	said, state, err = inBox(t, cfg, append([]string{self}, args...), attackEnv+"="+name, "SET=x")
	if err != nil {
		t.Fatal(err)
	}
	return said, state
}

func inBox(t *testing.T, cfg Config, command []string, env ...string) (string, *os.ProcessState, error) {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = env
	box, err := Enclose(cmd, cfg)
	if err != nil {
		return "", nil, err
	}
	defer box.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := box.Started(); err != nil {
		_ = cmd.Wait()
		return out.String(), nil, err
	}
	_ = cmd.Wait() // the state tells
	return out.String(), cmd.ProcessState, nil
}

// TestFiles: a program reads and writes what it was given, and nothing else.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"read", "write", "secret"} {
		err := cmp.Or(os.Mkdir(path(name), 0o755), os.WriteFile(filepath.Join(path(name), "file"), []byte(name), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{Read: []string{path("read")}, Write: []string{path("write")}}
	const denied = "permission denied"
	for _, tt := range []struct {
		attack, path, want string
	}{
		{"read", path("read/file"), "read"},
		{"read", path("write/file"), "write"},
		{"read", path("secret/file"), denied},
		{"read", "/etc/shadow", denied},
		{"read", fmt.Sprintf("/proc/%d/environ", os.Getpid()), denied},
		{"read", "/proc/self/environ", denied},
		{"read", "/etc/hostname", denied},
		{"write", path("read/file"), denied},
		{"write", path("write/new"), "done"},
		{"write", path("new"), denied},
		{"write", "/dev/shm/gatehouse-test", denied},
		{"write", "/tmp/gatehouse-test", denied},
		{"truncate", path("secret/file"), denied},
		{"truncate", path("write/file"), "done"},
		{"remove", path("secret/file"), denied},
		{"link", path("secret/file"), "invalid cross-device link"},
		{"read", "/usr/bin/env", "ELF"},
	} {
		said, _ := attack(t, cfg, tt.attack, tt.path)
		if !strings.Contains(said, tt.want) || tt.want != denied && strings.Contains(said, denied) {
			t.Errorf("%s %s: %q, want %q", tt.attack, tt.path, said, tt.want)
		}
	}
}

// TestNetwork: without a network, a program reaches no process, by no kind of socket; with a loopback it
// reaches itself alone; sockets in the file system are a matter of their own.
func TestNetwork(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	dir := t.TempDir()
	stream, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	datagrams, err := net.ListenPacket("unixgram", filepath.Join(dir, "d"))
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	abstract, err := net.Listen("unix", "@gatehouse-test-"+filepath.Base(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	const (
		none, unreachable, done = "permission denied", "connection refused", "done"
		denied                  = "operation not permitted"
	)
	dialTCP, dialUDP := []string{"tcp", tcp.Addr().String()}, []string{"udp", udp.LocalAddr().String()}
	named, hidden := []string{"unix", stream.Addr().String()}, []string{"unix", abstract.Addr().String()}
	for _, tt := range []struct {
		cfg    Config
		attack string
		args   []string
		want   string
	}{
		{Config{}, "dial", dialTCP, none},
		{Config{}, "dial", dialUDP, none},
		{Config{}, "dial", named, none},
		{Config{}, "dial", hidden, none},
		{Config{}, "datagrams", []string{filepath.Join(dir, "d")}, none},
		{Config{}, "pair", nil, done},
		{Config{}, "listen", nil, none},
		{Config{Network: "all"}, "dial", dialTCP, done},
		{Config{Network: "all"}, "dial", dialUDP, done},
		{Config{Network: "all"}, "dial", named, none},
		{Config{UnixSockets: true}, "dial", named, done},
		{Config{UnixSockets: true}, "dial", hidden, denied},
		{Config{UnixSockets: true}, "dial", dialTCP, none},
		{Config{Network: "loopback"}, "dial", dialTCP, unreachable},
		{Config{Network: "loopback"}, "dial", hidden, none},
		{Config{Network: "loopback", UnixSockets: true}, "dial", hidden, unreachable},
		{Config{Network: "loopback"}, "listen", nil, done},
	} {
		if tt.cfg.Network == "loopback" && os.Geteuid() != 0 {
			continue // a network namespace needs CAP_SYS_ADMIN: TestRefusals has the refusal
		}
		if said, _ := attack(t, tt.cfg, tt.attack, tt.args...); !strings.Contains(said, tt.want) {
			t.Errorf("%+v, %s %v: %q, want %q", tt.cfg, tt.attack, tt.args, said, tt.want)
		}
	}
}

// TestCalls: a program in a box traces and ends no process outside, and gets no namespaces, mounts or keys.
func TestCalls(t *testing.T) {
	said, _ := attack(t, Config{}, "calls", strconv.Itoa(os.Getpid()))
	const no = "operation not permitted"
	want := fmt.Sprintf("ptrace %s; unshare %s; user namespace %s; mount %s; keyctl %s; io_uring %s; clone3 %s",
		no, no, no, no, no, "function not implemented", "function not implemented")
	if said != want {
		t.Errorf("got %q, want %q", said, want)
	}
	if said, _ := attack(t, Config{}, "kill", strconv.Itoa(os.Getpid())); said != no {
		t.Errorf("a signal to the gateway: %q", said)
	}
	const none = "own <nil>; prlimit " + no + "; priority " + no + "; affinity " + no + "; of the user " + no
	if said, _ := attack(t, Config{}, "limit", strconv.Itoa(os.Getpid())); said != none {
		t.Errorf("limits of the gateway: %q", said)
	}
}

// TestIdentity: a program has the user that it was given and nothing else: no groups, no capabilities, and
// none to come, by a set-user-ID program either.
func TestIdentity(t *testing.T) {
	const nothing = "caps [{0 0 0} {0 0 0}] "
	said, _ := attack(t, Config{}, "status")
	who := fmt.Sprintf("uid %d gid %d ", os.Getuid(), os.Getgid())
	if !strings.HasPrefix(said, who) || !strings.Contains(said, nothing) ||
		!strings.HasSuffix(said, "no_new_privs 1 core 0") {
		t.Errorf("with the gateway's user: %s", said)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root becomes another user") // as in CI
	}
	dir := worldly(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	// This binary may lie where only root gets to.
	program, gains := filepath.Join(dir, "program"), filepath.Join(dir, "gains")
	if err := cmp.Or(os.WriteFile(program, text, 0o755),
		os.WriteFile(gains, text, 0o755), os.Chmod(gains, 0o755|os.ModeSetuid),
		os.WriteFile(filepath.Join(dir, "secret"), []byte("secret"), 0o600)); err != nil {
		t.Fatal(err)
	}
	const want = "uid 65534 gid 65533 groups [] caps [{0 0 0} {0 0 0}] bounding 0 no_new_privs 1 core 0"
	cfg := Config{User: "65534:65533", Read: []string{dir}}
	for _, file := range []string{program, gains} {
		said, _, err = inBox(t, cfg, []string{file}, attackEnv+"=status")
		if err != nil || said != want {
			t.Errorf("%s: %q %v, want %q", filepath.Base(file), said, err, want)
		}
	}
	said, _, err = inBox(t, cfg, []string{program, filepath.Join(dir, "secret")}, attackEnv+"=read")
	if err != nil || !strings.Contains(said, "permission denied") {
		t.Errorf("a file of another user: %q %v", said, err)
	}
}

// worldly makes a directory that every user can reach.
func worldly(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := cmp.Or(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestOwnDirectory: a program has a directory of its own as its home and working directory, which goes with it.
func TestOwnDirectory(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	if said, _ := attack(t, Config{}, "environment"); said != "home true, cwd true, set x" {
		t.Errorf("environment: %s", said)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// TestLimits: memory, processes and processor time end where the configuration says.
func TestLimits(t *testing.T) {
	_, state, err := inBox(t, Config{CPUSeconds: 1}, []string{"/bin/sh", "-c", "while :; do :; done"})
	if err != nil || state.Sys().(syscall.WaitStatus).Signal() != unix.SIGXCPU {
		t.Errorf("a loop: %s %v", state, err)
	}
	cfg := Config{MemoryBytes: 128 << 20, Processes: 40}
	g, err := newGroup(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if g == nil {
		t.Skip("no control group can be made here") // root in CI can; TestGroupsOfVersion2 has files in their place
	}
	g.remove()
	if said, state := attack(t, cfg, "memory"); state.Success() {
		t.Errorf("256 MiB of memory: %q", said)
	}
	const bomb = `i=0; while [ $i -lt 100 ]; do sleep 60 >/dev/null 2>&1 & i=$((i+1)); done`
	out, _, err := inBox(t, cfg, []string{"/bin/sh", "-c", bomb + "; echo all"}, "PATH=/usr/bin:/bin")
	if err != nil || strings.Contains(out, "all") || !strings.Contains(out, "fork") {
		t.Errorf("100 processes: %q %v", out, err)
	}
	if left, _ := filepath.Glob("/sys/fs/cgroup/*/*/gatehouse-*"); len(left) > 0 {
		t.Errorf("control groups are left: %v", left)
	}
}

// TestLimitsWithoutControlGroup: resource limits stand in for a control group.
func TestLimitsWithoutControlGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root becomes another user, whose processes are counted") // as in CI
	}
	// With the race detector, the launcher has mapped terabytes, and maps more at any time.
	unused := 100_000 + rand.IntN(1<<20)*2 // processes of another run may still end
	o := order{Program: "/bin/sh", UID: unused, GID: unused, Become: true, Own: "/tmp",
		Config: Config{MemoryBytes: 1 << 50, Processes: 10}}
	for script, want := range map[string]string{
		`i=0; while [ $i -lt 30 ]; do sleep 60 >/dev/null 2>&1 & i=$((i+1)); done; echo all`: "fork",
		`ulimit -d; ulimit -c`: "1099511627776\n0\n",
	} {
		o.UID++ // a user without other processes
		cmd, status := o.command(t, script)
		out, err := cmd.CombinedOutput()
		said := status()
		if said != enclosed || !strings.Contains(strings.ToLower(string(out)), want) {
			t.Errorf("%s: %q %v, and the launcher says %q", script, out, err, said)
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}

// command starts the launcher without the gateway's side. status returns what it says.
func (o order) command(t *testing.T, script string) (cmd *exec.Cmd, status func() string) {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), "/proc/self/exe", launcher, string(text), "sh", "-c", script)
	cmd.SysProcAttr, cmd.ExtraFiles = &syscall.SysProcAttr{Setpgid: true}, []*os.File{w}
	return cmd, func() string {
		w.Close()
		said, _ := io.ReadAll(r) // short when it fails
		r.Close()
		return string(said)
	}
}

// TestRefusals: what cannot be kept is refused, in words for an operator.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!"+filepath.Join(dir, "interpreter")+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		cfg     Config
		program string
		want    string
	}{
		{Config{Read: []string{"/nowhere"}}, "/bin/true", "read: /nowhere: no such file or directory"},
		{Config{Write: []string{"/nowhere"}}, "/bin/true", "write: /nowhere: no such file or directory"},
		{Config{User: "nobody-here"}, "/bin/true", `user: "nobody-here" is no user of this system`},
		{Config{}, "/no/program", "command: /no/program: no such file or directory"},
		{Config{}, "no-such-program", "executable file not found"},
		{Config{}, dir, "permission denied: it, its interpreter"},
		{Config{}, script, "no such file or directory"},
	} {
		_, _, err := inBox(t, tt.cfg, []string{tt.program})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s with %+v: %v, want %q", tt.program, tt.cfg, err, tt.want)
		}
	}
}

// TestRefusalsOfUsers: a gateway without the rights gets an error with what it needs.
func TestRefusalsOfUsers(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may become another user and make networks") // gatehouse's own tests run a gateway without root
	}
	for want, cfg := range map[string]Config{
		"CAP_SETUID": {User: "1:1"}, "CAP_SYS_ADMIN": {Network: "loopback"},
	} {
		if _, _, err := inBox(t, cfg, []string{"/bin/true"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", cfg, err, want)
		}
	}
}

// TestGroupsOfVersion2: a group is made beside the gateway's own, where systemd has delegated that.
func TestGroupsOfVersion2(t *testing.T) {
	mount := t.TempDir()
	parent := filepath.Join(mount, "system.slice/gatehouse.service")
	if err := cmp.Or(os.MkdirAll(filepath.Join(parent, "gateway"), 0o755),
		os.WriteFile(filepath.Join(mount, "cgroup.controllers"), nil, 0o644),
		os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	cfg, own := Config{MemoryBytes: 64 << 20, Processes: 5}, "0::/system.slice/gatehouse.service/gateway\n"
	if g, err := makeGroup(cfg, own, mount); g != nil || err != nil {
		t.Errorf("not delegated: %v %v", g, err)
	}
	if err := unix.Setxattr(parent, "user.delegate", []byte("1"), 0); err != nil {
		t.Skip("this file system has no extended attributes: ", err) // that of CI has
	}
	limits := limitsOfVersion2(cfg, own, mount)
	want := []setting{{parent, "memory.max", 64 << 20, false}, {parent, "memory.swap.max", 0, true},
		{parent, "memory.oom.group", 1, true}, {parent, "pids.max", 5, false}}
	if !slices.Equal(limits, want) {
		t.Errorf("limits %v, want %v", limits, want)
	}
	text, err := os.ReadFile(filepath.Join(parent, "cgroup.subtree_control"))
	if err != nil || string(text) != "+memory +pids" {
		t.Errorf("controllers %q %v", text, err)
	}
	// A directory has no files of limits, as a group without the controller.
	if g, err := makeGroup(cfg, own, mount); g != nil || err == nil {
		t.Errorf("without the controller: %v %v", g, err)
	}
	if left, _ := filepath.Glob(filepath.Join(parent, "gatehouse-*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// TestValidate: mistakes are named by their keys.
func TestValidate(t *testing.T) {
	for want, cfg := range map[string]Config{
		`user: "A B"`:                    {User: "A B"},
		`write: "" is not a path`:        {Write: []string{""}},
		`network: "some": want none`:     {Network: "some"},
		"memory_bytes: 1 is less than":   {MemoryBytes: 1},
		"lifetime: 1s is less than 2m0s": {Lifetime: time.Second},
		"processes: -1 is negative":      {Processes: -1},
		"cpu_seconds: -1 is negative":    {CPUSeconds: -1},
	} {
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", cfg, err, want)
		}
	}
}
