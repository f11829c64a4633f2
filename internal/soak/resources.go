package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// How much more a replica may hold at the end than at the beginning: idle connections, and
// memory that the collector has not returned.
const (
	moreGoroutines = 60
	moreFiles      = 60
	moreMemory     = 96 << 20 // bytes, on top of half as much again
	// calmTime is how long no measurement may be lower before rest accepts the lowest.
	calmTime = 5 * time.Second
	// expireTime is how long unused things may stay: sessions that Redis lost, questions
	// whose client did not return.
	expireTime = healTime
)

// usage is what a replica holds.
type usage struct {
	goroutines int
	files      int
	memory     int64 // resident, bytes
}

func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %d files, %d MiB", u.goroutines, u.files, u.memory>>20)
}

// usage reads what a replica holds.
func (r *replica) usage(ctx context.Context) (u usage, err error) {
	dir := "/proc/" + strconv.Itoa(r.process.PID())
	files, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return u, err
	}
	u.files = len(files)
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return u, err
	}
	kib, err := number(status, "VmRSS:")
	if err != nil {
		return u, err
	}
	u.memory = int64(kib * 1024)
	code, text, err := r.ask(ctx, "/metrics")
	if err != nil || code != http.StatusOK {
		return u, fmt.Errorf("metrics of replica %d: status %d, %w", r.number, code, err)
	}
	goroutines, err := number(text, "go_goroutines")
	u.goroutines = int(goroutines)
	return u, err
}

// number returns the number after a word at the beginning of a line.
func number(text []byte, word string) (float64, error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) >= 2 && f[0] == word {
			return strconv.ParseFloat(f[1], 64)
		}
	}
	return 0, fmt.Errorf("no %s", word)
}

// holdings is what replicas and servers hold while no client works.
type holdings struct {
	replicas []usage
	running  []int // requests at each server, including GET streams
}

// rest waits until the replicas and servers hold as little as possible, and returns that.
// This is the minimum, once it has lasted for calmTime and enough accepts it. It waits at
// most until abandoned questions and sessions have expired.
func (s *site) rest(ctx context.Context, enough func(holdings) bool) (h holdings, err error) {
	patient := time.Now().Add(expireTime)
	for calm := time.Now(); time.Since(calm) < calmTime; {
		less, err := s.weigh(ctx, &h)
		if err != nil {
			return h, err
		}
		if less || !enough(h) && time.Now().Before(patient) {
			calm = time.Now()
		}
		if err := wait(ctx, 250*time.Millisecond); err != nil {
			return h, err
		}
	}
	return h, nil
}

// weigh measures, updates the minimum, and reports whether anything became less.
func (s *site) weigh(ctx context.Context, h *holdings) (less bool, err error) {
	first := h.replicas == nil
	if first {
		h.replicas, h.running = make([]usage, len(s.replicas)), make([]int, len(s.servers))
	}
	least := func(least *int, now int) {
		if first || now < *least {
			*least, less = now, true
		}
	}
	for i, r := range s.replicas {
		now, err := r.usage(ctx)
		if err != nil {
			return false, err
		}
		least(&h.replicas[i].goroutines, now.goroutines)
		least(&h.replicas[i].files, now.files)
		h.replicas[i].memory = now.memory
	}
	for i, u := range s.servers {
		running, _, _ := u.load()
		least(&h.running[i], running)
	}
	return less, nil
}

// excess lists where the end exceeds the beginning.
func (s *site) excess(first, last holdings) (problems []string) {
	for i, r := range s.replicas {
		a, b := first.replicas[i], last.replicas[i]
		if b.goroutines > a.goroutines+moreGoroutines || b.files > a.files+moreFiles || b.memory > a.memory*3/2+moreMemory {
			problems = append(problems, fmt.Sprintf("replica %d held %s, and in the end %s", r.number, a, b))
		}
	}
	for i, u := range s.servers {
		if a, b := first.running[i], last.running[i]; b > a {
			problems = append(problems, fmt.Sprintf("at server %s there were %d requests and streams, and in the end %d",
				u.name, a, b))
		}
		if _, _, asked := u.load(); asked > 0 {
			problems = append(problems, fmt.Sprintf("server %s still waits for answers to %d questions", u.name, asked))
		}
	}
	return problems
}
