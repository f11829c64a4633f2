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

// TestChatterIsBounded: of what a server says 20 lines a second are logged, and
// the others counted.
func TestChatterIsBounded(t *testing.T) {
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

// TestTailKeepsTheEnd: of all that a process says the last 1000 bytes are kept.
func TestTailKeepsTheEnd(t *testing.T) {
	var p Program
	for i := range 1 << 14 {
		_, _ = p.Write([]byte(strings.Repeat(fmt.Sprintf("%04x", i), 16)))
	}
	if cap(p.said) > 4<<10 {
		t.Errorf("%d bytes are held", cap(p.said))
	}
	if said, _ := p.Last(); len(said) != ChatterLine || !strings.HasSuffix(said, "3fff3fff") {
		t.Errorf("the end is %q", said)
	}
}
