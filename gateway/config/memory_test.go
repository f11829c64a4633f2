package config

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestContainerMemory: the least limit of all groups counts, in both versions, as seen from inside of a
// container and from outside.
func TestContainerMemory(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, tt := range []struct {
		name string
		root fstest.MapFS
		want int64
		from string
	}{
		{"no groups", fstest.MapFS{}, math.MaxInt64, ""},
		{"in a container", fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("209715200\n")},
			200 << 20, "/sys/fs/cgroup/memory.max"},
		{"no limit", fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("max\n")},
			math.MaxInt64, ""},
		{"slowed down before the limit", fstest.MapFS{"proc/self/cgroup": file("0::/\n"),
			"sys/fs/cgroup/memory.max": file("209715200\n"), "sys/fs/cgroup/memory.high": file("104857600\n")},
			100 << 20, "/sys/fs/cgroup/memory.high"},
		{"a service", fstest.MapFS{"proc/self/cgroup": file("0::/system.slice/gatehouse.service\n"),
			"sys/fs/cgroup/system.slice/gatehouse.service/memory.max": file("max\n"),
			"sys/fs/cgroup/system.slice/memory.max":                   file("1073741824\n")},
			1 << 30, "/sys/fs/cgroup/system.slice/memory.max"},
		{"a nested group has less", fstest.MapFS{"proc/self/cgroup": file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/memory.max": file("104857600\n"), "sys/fs/cgroup/a/memory.max": file("1073741824\n")},
			100 << 20, "/sys/fs/cgroup/a/b/memory.max"},
		{"version 1", fstest.MapFS{"proc/self/cgroup": file("12:cpu,cpuacct:/a\n11:memory:/docker/1\n0::/\n"),
			"sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": file("536870912\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          file("9223372036854771712\n")},
			512 << 20, "/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes"},
		{"version 1 in a container", fstest.MapFS{"proc/self/cgroup": file("11:memory:/docker/1\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("536870912\n")},
			512 << 20, "/sys/fs/cgroup/memory/memory.limit_in_bytes"},
		{"version 1 without a limit", fstest.MapFS{"proc/self/cgroup": file("11:memory:/\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}, math.MaxInt64, ""},
	} {
		if got, from := containerMemory(tt.root); got != tt.want || from != tt.from {
			t.Errorf("%s: %d from %q, want %d from %q", tt.name, got, from, tt.want, tt.from)
		}
	}
	for limit, want := range map[int64]int{64 << 20: 100, 256 << 20: 100, 512 << 20: 200, 1 << 30: 400, 64 << 30: 400,
		math.MaxInt64: 400} {
		if got := garbage(limit); got != want {
			t.Errorf("with %d MiB the heap grows by %d %%, want %d", limit>>20, got, want)
		}
	}
}

// TestMemoryShare: programs get half of the container, and operators see what the gateway takes.
func TestMemoryShare(t *testing.T) {
	none := Config{Upstreams: []upstream.Config{{URL: "https://a.example"}, {Command: []string{"a"}, Enabled: new(bool)}}}
	programs := Config{Upstreams: []upstream.Config{{Command: []string{"a"}}}}
	for _, tt := range []struct {
		cfg   Config
		there int64
		file  string
		want  string
	}{
		{none, 200 << 20, "/m", "180 of 200 MiB (/m)"},
		{programs, 200 << 20, "/m", "100 of 200 MiB (/m)"},
		{programs, math.MaxInt64, "", "no limit"},
	} {
		if got := tt.cfg.share(tt.there, tt.file).String(); got != tt.want {
			t.Errorf("memory %q, want %q", got, tt.want)
		}
	}
	t.Setenv("GOMEMLIMIT", "64MiB") // is read at the start of the process
	if got := programs.Memory(); got.From != "GOMEMLIMIT" || got.There != 0 {
		t.Errorf("with GOMEMLIMIT: %+v", got)
	}
}
