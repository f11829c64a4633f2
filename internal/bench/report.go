package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// result holds all measurements of a scenario by target, one for each round.
type result struct {
	scenario scenario
	slices   map[string][]slice
}

// percentiles are those of the times in the report.
var percentiles = [...]float64{50, 99, 99.9}

// numbers are the medians over the rounds.
type numbers struct {
	cpu   float64    // µs for each request
	rate  float64    // requests in a second
	times [3]float64 // ms, at percentiles
	posts float64    // requests that reached the server, for each request
	ratio float64    // ratio of CPU to that of the target to compare with, in the same round; 0 without one
}

func (r result) numbers(target, beside string) numbers {
	pick := func(of func(slice) float64) float64 {
		var all []float64
		for _, m := range r.slices[target] {
			all = append(all, of(m))
		}
		return median(all)
	}
	n := numbers{
		cpu:   pick(slice.cpuEach),
		rate:  pick(func(m slice) float64 { return float64(m.requests) / m.elapsed.Seconds() }),
		posts: pick(func(m slice) float64 { return float64(m.upstream.Calls+m.upstream.Other) / float64(m.requests) }),
	}
	for i, p := range percentiles {
		n.times[i] = pick(func(m slice) float64 { return ms(percentile(m.latency, p)) })
	}
	var ratios []float64
	for i, m := range r.slices[target] {
		if other := r.slices[beside]; i < len(other) && other[i].cpu > 0 {
			ratios = append(ratios, m.cpuEach()/other[i].cpuEach())
		}
	}
	n.ratio = median(ratios)
	return n
}

// cpuEach returns the CPU time of one request in µs.
func (m slice) cpuEach() float64 {
	return float64(m.cpu.Nanoseconds()) / 1e3 / float64(m.requests)
}

// report prints the table. With -gate a missed target is an error.
func report(ctx context.Context, w io.Writer, o options, rigged *rigged, results []result) error {
	fmt.Fprintf(w, "%s  %s/%s  %d CPUs (%s)  %s  revision %s\n%d rounds of %s each; medians; CPU is of the proxies' processes alone; http_client: %s\n\n",
		time.Now().UTC().Format("2006-01-02 15:04 UTC"), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), cpuModel(),
		runtime.Version(), revision(ctx), o.rounds, o.slice, o.client)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "scenario\t\tCPU µs/req\t× %s\treq/s\tp50 ms\tp99 ms\tp99.9 ms\tposts/req\ttarget\t\n", rigged.beside)
	var missed []string
	for _, r := range results {
		for _, t := range rigged.targets {
			n := r.numbers(t.name, rigged.beside)
			cpu, ratio, target := "-", "-", ""
			if len(t.processes) > 0 {
				cpu, ratio = fmt.Sprintf("%.1f", n.cpu), fmt.Sprintf("%.2f", n.ratio)
			}
			if most := t.target(r.scenario); t.gateway && t.name != rigged.beside {
				target = fmt.Sprintf("%.2f", most)
				if n.ratio > most {
					target += " missed"
					missed = append(missed, fmt.Sprintf("%s, %s: %.2f, target %.2f", r.scenario.name, t.name, n.ratio, most))
				}
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t\n",
				r.scenario.name, t.name, cpu, ratio, n.rate, n.times[0], n.times[1], n.times[2], n.posts, target)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, t := range rigged.targets {
		if t.gateway {
			now, err := t.memory()
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "%s: %d MiB when it had its lists, %d MiB in the end\n", t.name, t.rest>>20, now>>20)
		}
	}
	if o.gate && len(missed) > 0 {
		return fmt.Errorf("targets missed:\n  %s", strings.Join(missed, "\n  "))
	}
	return nil
}

func (s scenario) matches(part string) bool { return strings.Contains(s.name, part) }

func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}

// percentile returns a percentile of sorted durations, by the nearest rank.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(float64(len(sorted)) * p / 100))
	return sorted[max(rank, 1)-1]
}

func sortDurations(d []time.Duration) { slices.Sort(d) }

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// cpuModel returns the name of the processor, if the system provides it.
func cpuModel() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// revision returns the commit that was measured, with a mark if files differ from it.
func revision(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
