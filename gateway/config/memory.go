package config

import (
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/front"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// mostGarbage is the growth of the heap beyond the live memory before a collection, in percent.
// Live memory is small, some 10 MiB, so with Go's default the collector runs every few thousand
// calls. Measured, this costs about 12 MiB and saves 4 to 19 % of the CPU.
const mostGarbage = 400

// memoryShare is the divisor of the process's memory limit: by default, large messages may
// hold that share. There are up to four copies of a message while it is passed on.
const memoryShare = 8

// Memory is what the gateway may use of the machine's memory.
type Memory struct {
	Limit int64  // of its own process, in bytes; the largest integer for none
	There int64  // what the container has, in bytes; 0 where the limit is not from there
	From  string // GOMEMLIMIT, or the file of the control group; "" for no limit
}

// Memory returns the memory of a gateway with this configuration in this process. GOMEMLIMIT comes
// first. Of the container's, the gateway takes nine tenths, or half if programs share the container.
func (c Config) Memory() Memory {
	if os.Getenv("GOMEMLIMIT") != "" {
		return Memory{Limit: debug.SetMemoryLimit(-1), From: "GOMEMLIMIT"}
	}
	there, file := containerMemory(os.DirFS("/"))
	return c.share(there, file)
}

// share returns the gateway's part of a container's memory, the largest integer for no limit.
func (c Config) share(there int64, file string) Memory {
	if there == math.MaxInt64 {
		return Memory{Limit: there}
	}
	limit := there / 10 * 9
	if c.runsPrograms() {
		limit = there / 2
	}
	return Memory{Limit: limit, There: there, From: file}
}

// runsPrograms reports whether an upstream is a program.
func (c Config) runsPrograms() bool {
	return slices.ContainsFunc(c.Upstreams, func(u upstream.Config) bool { return Enabled(u) && len(u.Command) > 0 })
}

// String describes the limit for people.
func (m Memory) String() string {
	switch {
	case m.From == "":
		return "no limit"
	case m.Limit == math.MaxInt64:
		return "no limit (" + m.From + ")"
	case m.There == 0:
		return fmt.Sprintf("%d MiB (%s)", m.Limit>>20, m.From)
	}
	return fmt.Sprintf("%d of %d MiB (%s)", m.Limit>>20, m.There>>20, m.From)
}

// Apply fits the collector of this process to the memory. With less than a gibibyte it collects
// sooner: what thousands of streams leave behind at a change comes faster than a limit alone can
// hold back. GOMEMLIMIT and GOGC take precedence.
func (m Memory) Apply() {
	if m.There > 0 {
		debug.SetMemoryLimit(m.Limit)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage(m.Limit))
	}
}

// InFlight returns http.max_in_flight_bytes, or its default under a memory limit in bytes
// (GOMEMLIMIT). Without a memory limit, limit is the largest integer.
func (c Config) InFlight(limit int64) int64 {
	if c.HTTP.MaxInFlightBytes != 0 {
		return c.HTTP.MaxInFlightBytes
	}
	least := 2 * max(c.HTTP.MaxRequestBytes, wire.DefaultMaxRequest)
	return max(min(front.DefaultInFlight, limit/memoryShare), least)
}

// memoryDoubts reports upstreams with answers that may exceed what one user may hold.
func (c Config) memoryDoubts(limit int64) (doubts problems.List) {
	share := c.InFlight(limit) / 2
	for i, u := range c.Upstreams {
		most := cmp.Or(u.Limits.ResultBytes, wire.DefaultMaxResult)
		doubts.When(Enabled(u) && u.Skills == "" && most > share,
			"%s: limits.result_bytes: %d is more than half of http.max_in_flight_bytes, which is what one user may hold: answers of more than %d bytes are refused",
			UpstreamKey(i, u), most, share)
	}
	return doubts
}

// garbage is mostGarbage with a gibibyte and more, and less in proportion, but no less than Go's default.
func garbage(limit int64) int { return int(min(mostGarbage, max(100, limit>>20*mostGarbage>>10))) }

// containerMemory returns the least memory limit of the control groups of this process, of version 2
// or 1, and its file; the largest integer for none. root is the file system.
func containerMemory(root fs.FS) (least int64, from string) {
	least = math.MaxInt64
	groups, _ := fs.ReadFile(root, "proc/self/cgroup") // other systems have none
	for line := range strings.Lines(string(groups)) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		mount, files := "sys/fs/cgroup", []string{"memory.max", "memory.high"}
		switch controllers {
		case "":
		case "memory":
			mount, files = "sys/fs/cgroup/memory", []string{"memory.limit_in_bytes"}
		default:
			continue
		}
		for ; ; group = path.Dir(group) {
			for _, name := range files {
				file := path.Join(mount, group, name)
				text, _ := fs.ReadFile(root, file) // inside of a container, only the root is there
				n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
				if err == nil && n < min(least, noLimit) {
					least, from = n, "/"+file
				}
			}
			if group == "/" || group == "." {
				break
			}
		}
	}
	return least, from
}

// noLimit is what version 1 of control groups says for no limit, or less: no machine has as much.
const noLimit = 1 << 60
