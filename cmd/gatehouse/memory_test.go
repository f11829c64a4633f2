package main

import (
	"math"
	"testing"
	"testing/fstest"
)

// TestContainerMemory: the least limit of all groups counts, in both versions, as seen from inside of a
// container and from outside.
func TestContainerMemory(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, tt := range []struct {
		name string
		root fstest.MapFS
		want int64
	}{
		{"no groups", fstest.MapFS{}, math.MaxInt64},
		{"in a container", fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("209715200\n")},
			200 << 20},
		{"no limit", fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("max\n")},
			math.MaxInt64},
		{"a service", fstest.MapFS{"proc/self/cgroup": file("0::/system.slice/gatehouse.service\n"),
			"sys/fs/cgroup/system.slice/gatehouse.service/memory.max": file("max\n"),
			"sys/fs/cgroup/system.slice/memory.max":                   file("1073741824\n")}, 1 << 30},
		{"version 1", fstest.MapFS{"proc/self/cgroup": file("12:cpu,cpuacct:/a\n11:memory:/docker/1\n"),
			"sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": file("536870912\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          file("9223372036854771712\n")}, 512 << 20},
		{"version 1 in a container", fstest.MapFS{"proc/self/cgroup": file("11:memory:/docker/1\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("536870912\n")}, 512 << 20},
	} {
		if got := containerMemory(tt.root); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	for limit, want := range map[int64]int{64 << 20: 100, 256 << 20: 100, 512 << 20: 200, 1 << 30: 400, 64 << 30: 400,
		math.MaxInt64: 400} {
		if got := garbage(limit); got != want {
			t.Errorf("with %d MiB the heap grows by %d %%, want %d", limit>>20, got, want)
		}
	}
}
