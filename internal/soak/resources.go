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

// What a replica may hold more at the end than in the beginning: connections that are kept
// for a next request, and what the collector has not given back.
const (
	moreGoroutines = 60
	moreFiles      = 60
	moreMemory     = 96 << 20 // bytes, beside half as much again
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

// number finds the number behind a word at the beginning of a line.
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

// rest waits until the replicas hold as little as they will, and returns what that is: the
// least that was seen, when for two seconds nothing less was.
func (s *site) rest(ctx context.Context) ([]usage, error) {
	least := make([]usage, len(s.replicas))
	for calm := 0; calm < 8; calm++ {
		for i, r := range s.replicas {
			now, err := r.usage(ctx)
			if err != nil {
				return nil, err
			}
			if least[i].files == 0 || now.goroutines < least[i].goroutines || now.files < least[i].files {
				calm = 0
			}
			if least[i].files == 0 {
				least[i] = now
			}
			least[i].goroutines, least[i].files = min(least[i].goroutines, now.goroutines), min(least[i].files, now.files)
			least[i].memory = now.memory
		}
		timer := time.NewTimer(250 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
	return least, nil
}

// compare wants the replicas to hold no more than in the beginning.
func (s *site) compare(first, last []usage) {
	for i, r := range s.replicas {
		a, b := first[i], last[i]
		if b.goroutines > a.goroutines+moreGoroutines || b.files > a.files+moreFiles || b.memory > a.memory*3/2+moreMemory {
			s.l.violation("replica %d held %s, and in the end %s", r.number, a, b)
		}
	}
	for _, u := range s.servers {
		if _, _, asked := u.load(); asked > 0 {
			s.l.violation("server %s still waits for answers to %d questions", u.name, asked)
		}
	}
}
