package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestStalls: a stall explains failures of Redis while it lasts and for a little while
// after, and explains nothing else. The test runs in a synctest bubble.
func TestStalls(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(l *ledger)
		want int // number of violations
	}{
		{"while it has no time", func(l *ledger) {
			l.watchStall(time.Now())
			time.Sleep(2 * slowPulse)
		}, 0},
		{"just after", func(l *ledger) {
			done := l.watchStall(time.Now())
			time.Sleep(2 * slowPulse)
			done()
			time.Sleep(afterStall / 2)
		}, 0},
		{"long after", func(l *ledger) {
			done := l.watchStall(time.Now())
			time.Sleep(2 * slowPulse)
			done()
			time.Sleep(afterStall + time.Second)
		}, 1},
		{"when nobody had the time to look", func(l *ledger) {
			last := time.Now()
			time.Sleep(time.Second)
			l.watchStall(last)()
		}, 0},
		{"when it answers", func(l *ledger) {
			done := l.watchStall(time.Now())
			time.Sleep(slowPulse / 2)
			done()
		}, 1},
		{"while Redis fails on purpose", func(l *ledger) {
			l.begin("Redis hangs", nil)
			l.watchStall(time.Now())
			time.Sleep(2 * slowPulse)
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLedger()
				tt.do(l)
				l.note("session", time.Now(), outcome{kind: "50303"})
				if text, wrong := l.report(); wrong != tt.want {
					t.Errorf("%d violations, want %d:\n%s", wrong, tt.want, text)
				}
			})
		})
	}
}
