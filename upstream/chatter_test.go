package upstream

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
		c := chatter{log: slog.New(slog.NewTextHandler(&log, nil))}
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
				c.say("stderr", "line", "x")
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

// TestH167_RingKeepsTheEnd: H/167 of all that a process says 64 KiB are kept, the last.
func TestH167_RingKeepsTheEnd(t *testing.T) {
	var r ring
	for i := range 1 << 14 {
		r.write([]byte(strings.Repeat(fmt.Sprintf("%04x", i), 16)))
		if len(r.buf) > 64<<10 {
			t.Fatalf("%d bytes are kept", len(r.buf))
		}
	}
	if cap(r.buf) > 128<<10 {
		t.Errorf("%d bytes are held", cap(r.buf))
	}
	if got := r.last(1000); len(got) != 1000 || !strings.HasSuffix(got, "3fff3fff") {
		t.Errorf("the end is %q, of %d bytes", got[max(0, len(got)-20):], len(got))
	}
}
