package transport

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestH167_ChatterIsBounded: H/167 of what a server says 20 lines a second are logged, and
// the others counted.
func TestH167_ChatterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := NewChatter(slog.New(slog.NewTextHandler(&log, nil)))
		lines := func() (said, counted int) {
			for line := range strings.Lines(log.String()) {
				if _, n, ok := strings.Cut(line, "lines="); ok {
					_, _ = fmt.Sscan(n, &counted)
				} else {
					said++
				}
			}
			log.Reset()
			return said, counted
		}
		for tick := range 3 {
			for range 100 {
				c.Say("stderr", "line", "x")
			}
			said, counted := lines()
			want := 80
			if tick == 0 {
				want = 0
			}
			if said != 20 || counted != want {
				t.Errorf("second %d: %d lines logged and %d counted, want 20 and %d", tick, said, counted, want)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
	})
}
